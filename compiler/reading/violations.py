"""Messages for violations of the JSON schemas, and hints for words of other tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...runtime.expressions.types import advice
from ..diagnostics import Diagnostics, Position, did_you_mean
from .files import FromEnvironment, NumberFromEnvironment
from .source import NOTES, MappingNode, Node, ScalarNode, SequenceNode

# Words of other tools, with hints.

_STEPS = {
    "where": "Write `filter: <predicate>`.",
    "having": "Write `filter: <predicate>` behind the `aggregate` step.",
    "group_by": "Write `key_by: {<column>: <column>}`, then an `aggregate` step: it groups by the key.",
    "groupby": "Write `key_by: {<column>: <column>}`, then an `aggregate` step: it groups by the key.",
    "partition_by": "Write `key_by: {<column>: <column>}`; records with equal keys are in one partition.",
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
    "distinct": "Write `key_by` with the distinct columns, then `to_table`: it keeps one row per key.",
    "to": "Write `to` beside `steps`, not in them.",
    "from": "Write `from` beside `steps`, not in them.",
}
_FLOW = {
    "source": "Write `from: <topic, table or flow>`.",
    "input": "Write `from: <topic, table or flow>`.",
    "sink": "Write `to: <topic>`.",
    "output": "Write `to: <topic>`.",
    "into": "Write `to: <topic>`.",
}
_TO = dict.fromkeys(("by", "when", "expression", "topic_name"), "Write `route: <expression of a topic's name>`.")
_TOPIC = {
    "columns": "Write `key:` and `value:` with their columns.",
    "schema": "Write `key:` and `value:` with their columns.",
    "fields": "Write `key:` and `value:` with their columns.",
    "replication_factor": "Remove it: the log is as durable as its disk or bucket.",
}
_KEYS = {"Step": _STEPS, "Flow": _FLOW, "To": _TO, "Topic": _TOPIC}

_MAX_SHOWN = 60

_OTHER_LOGS = frozenset({"kafka", "redpanda", "pulsar", "kinesis"})

_JINJA = {
    "ref": "Write the name itself, without braces: `from: orders`.",
    "source": "Write the name itself, without braces: `from: orders`.",
    "config": "Write settings as keys of the YAML.",
}


def instead_of_key(title: str, key: str) -> str | None:
    """The hint for a key of other tools, in the schema with this title."""
    return _KEYS.get(title, {}).get(key.lower())


def instead_of_call(name: str) -> str | None:
    """The hint for a Jinja function of other tools."""
    return _JINJA.get(name)


def instead_of_log(name: str) -> str | None:
    """The hint for another system as the log."""
    if name.lower() not in _OTHER_LOGS:
        return None
    hint = "Headwater has its own log: write `type: embedded` with a `path`."
    if name.lower() in ("kafka", "redpanda"):
        return f"{hint} Clusters of Kafka stand under `kafka` of the target."
    return f"{hint} A program appends the records of {name.capitalize()} with `Project.append`."


def as_mapping(key: str, node: Node | None) -> str | None:
    """The hint for a step that needs a mapping and has a text or list."""
    match node:
        case ScalarNode() if node.text:
            return _of_text(key, node.text)
        case SequenceNode():
            names = [item.text for item in node if isinstance(item, ScalarNode)]
            if key in ("key_by", "select") and names and all(name.isidentifier() for name in names):
                return f"Write `{key}: {{{', '.join(f'{name}: {name}' for name in names)}}}`."
    return None


def _of_text(key: str, text: str) -> str | None:
    if len(text) > _MAX_SHOWN:
        return None
    name = text if text.isidentifier() else "<column>"
    quoted = text if text.isidentifier() or text.replace("_", "").isalnum() else f'"{text}"'
    return {
        "key_by": f"Write `key_by: {{{name}: {quoted}}}`, with a name for each key column.",
        "select": f"Write `select: {{{name}: {quoted}}}`, with a name for each column.",
        "with_columns": f"Write `with_columns: {{<column>: {quoted}}}`, with a name for each column.",
        "explode": f"Write `explode: {{<column>: {quoted}}}`, with a name for the column of elements.",
        "aggregate": f"Write `aggregate: {{values: {{<column>: {quoted}}}}}`, with a name for each column.",
        "join": f"Write `join: {{table: {quoted}}}`.",
        "window": f"Write `window: {{tumbling: {quoted}}}`.",
        "repartition": f"Write `repartition: {{partitions: {quoted}}}`.",
    }.get(key)


# Messages by kind of rule.

_MAX_KEYS = 20
_FREE = frozenset({"name", *NOTES})
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_TITLES = {
    "Column": "a column's name",
    "Duration": "a duration such as 10m",
    "Expression": "a Spark SQL expression",
    "Function": "a function such as functions.seeds:flights",
    "Module": "a Python module's name",
    "Name": "a name",
    "Plugin": "a plugin's name, or a mapping with its name and options",
    "To": "a topic's name, or a mapping with `route` and `topics`",
    "TopicName": "a topic's name",
    "Within": "a duration such as 10m, or a mapping with before and after",
    "Type": "a Spark SQL type such as string",
    "Word": "a name",
}
_NAMES = {
    "Name": "Use letters, digits and underscores, and no digit at the start.",
    "TopicName": "Use letters, digits, dots, underscores and dashes, and not '.' or '..' alone.",
    "Word": "Use letters, digits, underscores, dots and dashes, and a letter or underscore at the start.",
    "Column": "Use no dots, no backticks, and no space or @ at the start.",
    "Function": "Write functions.<module>:<name>.",
    "Module": "Write it as in an import: plugins.mine.",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule.

    `node`: the node with the violation. `owner`: the mapping around it, or around the list that contains it. `path`: of
    the node in the file. `rule`: the keyword of the schema. `wanted`: its value. `given`: the actual value.
    `about_key`: the rule is about a key of the node, and `given` is this key. `reason`: why a format does not match.
    """

    node: Node
    owner: MappingNode | None
    path: tuple[str | int, ...]
    rule: str
    wanted: Any
    given: Any
    schema: dict[str, Any]
    about_key: bool
    reason: str | None

    @property
    def position(self) -> Position:
        """The position of the value, or of the key if the rule is about a key."""
        if self.about_key and isinstance(self.node, MappingNode):
            return self.node.key_position(self.given)
        return self.node.position

    @property
    def key_position(self) -> Position:
        """The position of the value's key, or of the value if it has no key."""
        if self.owner is not None and self.path and isinstance(self.path[-1], str):
            return self.owner.key_position(self.path[-1])
        return self.node.position

    @property
    def title(self) -> str:
        """The title of the schema with the rule."""
        return str(self.schema.get("title", ""))

    @property
    def label(self) -> str:
        """The subject of a sentence about the value."""
        if not self.path:
            return "This file"
        return f"'{self.path[-1]}'" if isinstance(self.path[-1], str) else "This item"


def report(violation: Violation, diagnostics: Diagnostics) -> None:
    """Add the diagnostics of a violation. A broken value gets none, because it was reported before."""
    if not (isinstance(violation.node, ScalarNode) and violation.node.broken):
        _REPORTS.get(violation.rule, _out_of_range)(violation, diagnostics)


def _wrong_type(violation: Violation, diagnostics: Diagnostics) -> None:
    types = violation.wanted if isinstance(violation.wanted, list) else [violation.wanted]
    wanted = _TITLES.get(violation.title) or " or ".join(_TYPES[name] for name in types)
    if violation.given is None:
        message = f"{violation.label} is empty; it must be {wanted}."
    else:
        message = f"{violation.label} must be {wanted}, not {_kind(violation.given)}."
    diagnostics.add("HW203", violation.position, message, _type_hint(violation, types))


def _kind(value: Any) -> str:
    match value:
        case NumberFromEnvironment():
            return "a number"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}" if len(str(value)) < 40 else "a number"
        case FromEnvironment():
            return "the text from the environment"
        case str():
            return f"the text '{_shorten(value)}'"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _type_hint(violation: Violation, types: list[str]) -> str | None:
    given = violation.given
    text = violation.node.text if isinstance(violation.node, ScalarNode) else ""
    if violation.title in ("Duration", "Within") and isinstance(given, int):
        return f"Add a unit: {given}ms, {given}s, {given}m, {given}h or {given}d."
    if violation.title == "To" and isinstance(given, list):
        return "Let a flow for each topic read this one; or choose a topic for each record, with `route` and `topics`."
    if violation.title == "Expression" and given is None:
        return 'Write the expression; SQL\'s null is "null", in quotes.'
    if types == ["object"] and violation.path and (hint := as_mapping(str(violation.path[-1]), violation.node)):
        return hint
    if "string" in types and isinstance(given, (int, float)):
        return f'Put it in quotes: "{text}".'
    if types == ["integer"] and isinstance(given, str) and given.isascii() and given.isdigit():
        return "Remove the quotes."
    if types == ["boolean"] and isinstance(given, str) and given.lower() in ("true", "false"):
        return "Remove the quotes."
    if types == ["array"] and isinstance(given, str):
        return "Write each item on its own line, after a dash."
    if types == ["object"] and isinstance(given, list):
        return "Write `key: value` lines without dashes."
    return None


def _unknown_key(violation: Violation, diagnostics: Diagnostics) -> None:
    node = violation.node
    if not isinstance(node, MappingNode):
        return
    properties = violation.schema.get("properties", {})
    for name in islice(_unknown(violation), _MAX_KEYS):
        if node.key(name).broken:
            continue
        listed = ", ".join(word for word in properties if word not in _FREE)
        hint = _other_word(violation, name) or did_you_mean(name, properties)
        hint = hint or (f"Allowed here: {listed}." if listed else None)
        what = "step" if violation.title == "Step" and not (node.value.keys() & (properties.keys() - _FREE)) else "key"
        diagnostics.add("HW201", node.key_position(name), f"There is no {what} '{_shorten(name)}' here.", hint)


def _other_word(violation: Violation, key: str) -> str | None:
    """The hint for a key of other tools."""
    type_ = violation.given.get("type") if violation.path[-1:] == ("log",) else None
    if isinstance(type_, str):
        return instead_of_log(type_) or "Put the options of a plugin's log under `options`."
    return instead_of_key(violation.title, key)


def _unknown(violation: Violation) -> list[str]:
    return [name for name in violation.given if name not in violation.schema.get("properties", {})]


def _missing_key(violation: Violation, diagnostics: Diagnostics) -> None:
    misspelt = _unknown(violation)
    others = " ".join(filter(None, (instead_of_key(violation.title, name) for name in misspelt)))
    for name in violation.wanted:
        if name not in violation.given and not did_you_mean(name, misspelt) and f"`{name}:" not in others:
            diagnostics.add("HW202", violation.key_position, f"{violation.label} needs the key '{name}'.", None)


def _unknown_word(violation: Violation, diagnostics: Diagnostics) -> None:
    words = [str(word) for word in violation.wanted]
    listed = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    if not isinstance(violation.given, str):
        found = "nothing" if violation.given is None else _kind(violation.given)
        diagnostics.add("HW203", violation.position, f"{violation.label} must be {listed}, not {found}.")
        return
    if violation.title == "Step":
        message = f"There is no step '{_shorten(violation.given)}'."
        hint = (
            instead_of_key("Step", violation.given)
            or did_you_mean(violation.given, words)
            or "Write a step as a key with its value, as in `filter: dep_delay > 15`."
        )
        diagnostics.add("HW206", violation.position, message, hint)
        return
    message = f"{violation.label} must be {listed}, not '{_shorten(violation.given)}'."
    diagnostics.add("HW204", violation.position, message, did_you_mean(violation.given, words))


def _no_match(violation: Violation, diagnostics: Diagnostics) -> None:
    shown = f"'{_shorten(violation.given)}'"
    if violation.title == "Duration":
        hint = "Write a whole number and a unit: 10ms, 5s, 10m, 1h, 2d."
        diagnostics.add("HW205", violation.position, f"{shown} is not a duration.", hint)
        return
    wanted = _TITLES.get(violation.title, "allowed here")
    diagnostics.add("HW209", violation.position, f"{shown} is not {wanted}.", _NAMES.get(violation.title))


def _no_type(violation: Violation, diagnostics: Diagnostics) -> None:
    reason = violation.reason or f"'{violation.given}' is not a type"
    diagnostics.add("HW207", violation.position, f"{reason}.", advice(str(violation.given)))


def _not_one(violation: Violation, diagnostics: Diagnostics) -> None:
    """Report that none or several of some keys are present, of which exactly one is required."""
    node = violation.node
    choices = [choice["required"][0] for choice in violation.wanted]
    present = [name for name in violation.given if name in choices]
    if not isinstance(node, MappingNode) or (not present and _unknown(violation)):
        return  # the unknown key is the step, misspelt
    is_step = violation.title == "Step"
    code = "HW206" if is_step else "HW210"
    if not present:
        message = "This step has no action." if is_step else f"{violation.label} needs one of several keys."
        diagnostics.add(code, violation.key_position, message, f"Write one of: {', '.join(choices)}.")
        return
    message = f"'{present[1]}' is not allowed beside '{present[0]}'."
    hint = "Start it with its own dash." if is_step else "Keep one of them."
    diagnostics.add(code, node.key_position(present[1]), message, hint)


def _missing_partner(violation: Violation, diagnostics: Diagnostics) -> None:
    if not isinstance(violation.node, MappingNode):
        return
    for name, needed in violation.wanted.items():
        missing = [other for other in needed if other not in violation.given]
        if name in violation.given and missing:
            at = violation.node.key_position(name)
            diagnostics.add("HW210", at, f"'{name}' needs '{missing[0]}' beside it.", f"Add '{missing[0]}'.")


def _out_of_range(violation: Violation, diagnostics: Diagnostics) -> None:
    label, wanted = violation.label, violation.wanted
    if violation.about_key:
        label = "The key"
    messages = {
        "minimum": f"{label} must be at least {wanted}.",
        "maximum": f"{label} must be at most {wanted}.",
        "minLength": f"{label} must not be an empty text.",
        "maxLength": f"{label} must not be longer than {wanted:,} characters.",
        "minItems": f"{label} must not be empty.",
        "minProperties": f"{label} must not be empty.",
        "maxProperties": f"{label} takes only {wanted} entry.",
        "uniqueItems": f"{label} has an item twice.",
    }
    at = violation.position if violation.about_key or isinstance(violation.node, ScalarNode) else violation.key_position
    diagnostics.add("HW208", at, messages.get(violation.rule, f"{label} is not allowed here."))


def _shorten(text: str) -> str:
    if isinstance(text, FromEnvironment):
        return "***"
    return text if len(text) <= 40 else f"{text[:37]}..."


_REPORTS: dict[str, Callable[[Violation, Diagnostics], None]] = {
    "additionalProperties": _unknown_key,
    "dependencies": _missing_partner,
    "enum": _unknown_word,
    "format": _no_type,
    "oneOf": _not_one,
    "pattern": _no_match,
    "required": _missing_key,
    "type": _wrong_type,
}
