"""Words of other tools that a newcomer tries here, each with what to write instead."""

from __future__ import annotations

from .nodes import Node, Scalar, Sequence

_STEPS = {
    "where": "Write `filter: <predicate>`.",
    "having": "Write `filter: <predicate>` behind the `aggregate` step.",
    "group_by": "Write `key_by: {<column>: <column>}`, then an `aggregate` step: it groups by the key.",
    "groupby": "Write `key_by: {<column>: <column>}`, then an `aggregate` step: it groups by the key.",
    "partition_by": "Write `key_by: {<column>: <column>}`; records of one key are in one partition.",
    "map": "Write `select`, or `with_columns` to keep the other columns.",
    "map_values": "Write `select`, or `with_columns` to keep the other columns.",
    "project": "Write `select: {<column>: <expression>}`.",
    "rename": "Write `select: {<new name>: <old name>}`.",
    "flat_map": "Write `explode: {<column>: <array>}`.",
    "unnest": "Write `explode: {<column>: <array>}`.",
    "union": "Write `from: [<flow>, <flow>]`, which merges flows.",
    "merge": "Write `from: [<flow>, <flow>]`, which merges flows.",
    "lookup": "Write `join: {table: <table>}`.",
    "left_join": "Write `join: {table: <table>, type: left}`.",
    "count": "Write `aggregate: {values: {<column>: count(*)}}`.",
    "sum": "Write `aggregate: {values: {<column>: sum(<column>)}}`.",
    "distinct": "Write `key_by` with the columns that shall differ, then `to_table`: it keeps one row of each key.",
    "to": "`to` stands beside `steps`, not in them.",
    "from": "`from` stands beside `steps`, not in them.",
}
_FLOW = {
    "source": "Write `from: <topic, table or flow>`.",
    "input": "Write `from: <topic, table or flow>`.",
    "sink": "Write `to: <topic>`.",
    "output": "Write `to: <topic>`.",
    "into": "Write `to: <topic>`.",
}
_TOPIC = {
    "columns": "Write `key:` and `value:`, each with its columns.",
    "schema": "Write `key:` and `value:`, each with its columns.",
    "fields": "Write `key:` and `value:`, each with its columns.",
    "replication_factor": "Leave it out: the log is as durable as where it is kept.",
}
_KEYS = {"Step": _STEPS, "Flow": _FLOW, "Topic": _TOPIC}

_LONGEST_SHOWN = 60

_OTHER_LOGS = frozenset({"kafka", "redpanda", "pulsar", "kinesis"})

_JINJA = {
    "ref": "Write the name itself, without braces: `from: orders`.",
    "source": "Write the name itself, without braces: `from: orders`.",
    "config": "Write settings as keys of the YAML.",
}


def instead_of_key(title: str, key: str) -> str | None:
    """What to write instead of a key that the schema of this title does not have."""
    return _KEYS.get(title, {}).get(key.lower())


def instead_of_call(name: str) -> str | None:
    """What to write instead of a function that Jinja has elsewhere."""
    return _JINJA.get(name)


def instead_of_log(name: str) -> str | None:
    """What to write instead of another system as the log."""
    if name.lower() not in _OTHER_LOGS:
        return None
    way = "Headwater keeps records in a log of its own: write `type: embedded` with a `path`."
    return f"{way} A program appends the records of {name.capitalize()} with `Project.append`."


def as_mapping(key: str, node: Node | None) -> str | None:
    """How the value of a step is written that takes a mapping, and was given something shorter."""
    match node:
        case Scalar() if node.text:
            return _of_text(key, node.text)
        case Sequence():
            names = [item.text for item in node if isinstance(item, Scalar)]
            if key in ("key_by", "select") and names and all(name.isidentifier() for name in names):
                return f"Write `{key}: {{{', '.join(f'{name}: {name}' for name in names)}}}`."
    return None


def _of_text(key: str, text: str) -> str | None:
    if len(text) > _LONGEST_SHOWN:
        return None
    name = text if text.isidentifier() else "<column>"
    quoted = text if text.isidentifier() or text.replace("_", "").isalnum() else f'"{text}"'
    return {
        "key_by": f"Write `key_by: {{{name}: {quoted}}}`: each column of the key by its name.",
        "select": f"Write `select: {{{name}: {quoted}}}`: each column by its name.",
        "with_columns": f"Write `with_columns: {{<column>: {quoted}}}`: each column by its name.",
        "explode": f"Write `explode: {{<column>: {quoted}}}`: the name of the column for its elements.",
        "aggregate": f"Write `aggregate: {{values: {{<column>: {quoted}}}}}`: each column by its name.",
        "join": f"Write `join: {{table: {quoted}}}`.",
        "window": f"Write `window: {{tumbling: {quoted}}}`.",
        "repartition": f"Write `repartition: {{partitions: {quoted}}}`.",
    }.get(key)
