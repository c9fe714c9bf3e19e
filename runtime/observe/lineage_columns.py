"""Which columns of the topics that an application reads enter which columns that it writes.

An Engine that does no step: for each column of each edge it keeps the columns of topics whose values enter it. What
only decides whether a record is there, or where, is no input: a condition, the key of a join, the times of a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..engine.execution.rows import physical_key, source_columns
from ..engine.sql_step import SqlStep
from ..expressions.misread import parse_expression
from ..ir.declarations import (
    Aggregate,
    AggregateSessions,
    AggregateSliding,
    AggregateWith,
    Answer,
    Call,
    Declaration,
    Flow,
    ForeignKeyJoin,
    Forget,
    Fork,
    GlobalJoin,
    KeyBy,
    Merge,
    Process,
    Reduce,
    Select,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    Subscribe,
    TableTableJoin,
)
from ..ir.topology import Topic, Topology
from ..records.schema import WINDOW_COLUMNS, key_columns, value_columns
from ..records.types import parse_columns

Inputs = frozenset[tuple[str, str]] | None
"""Topics and columns of theirs (`key.<name>`, `value.<name>`); None where it is not known."""

Columns = Mapping[str, Inputs]

_OWN = ("_now", "_ts")
"""What expressions may read beside columns: the time of the epoch, and that of the record."""

_NOTHING: Inputs = frozenset()


def column_lineage(topology: Topology) -> dict[str, dict[str, Inputs]]:
    """Topic that is written -> column -> the columns that enter it, of topics that are read from outside."""
    internal = {name for part in topology.subtopologies for name in part.repartition_topics}
    made: dict[str, dict[str, Inputs]] = {}
    for _ in range(len(internal) + 1):  # as often as records can pass from one subtopology to the next
        known = {name: columns for name, columns in made.items() if name in internal}
        made = {}
        for part in topology.subtopologies:
            part.build({}, _Tracing(known, made))
    return {name: columns for name, columns in made.items() if name not in internal}


@dataclass(frozen=True)
class _Edge:
    """The columns of an edge, by their own names."""

    key: Columns = field(default_factory=dict)
    value: Columns = field(default_factory=dict)

    @classmethod
    def of(cls, physical: Columns, flow: Flow) -> _Edge:
        value = parse_columns(flow.value)
        key = {name: physical.get(physical_key(name, value)) for name in parse_columns(flow.key)}
        return cls(key, {name: _NOTHING if name in _OWN else physical.get(name) for name in value})

    def physical(self, flow: Flow) -> dict[str, Inputs]:
        value = parse_columns(flow.value)
        key = {physical_key(name, value): self.key.get(name) for name in parse_columns(flow.key)}
        return key | {name: _NOTHING if name in _OWN else self.value.get(name) for name in value}

    def at(self, name: str) -> Inputs:
        """Of the column with a physical name."""
        if name in _OWN:
            return _NOTHING
        return self.value[name] if name in self.value else self.key.get(name, self.key.get(name.removeprefix("key.")))

    def of_python(self) -> Inputs:
        """What enters a column that Python makes of these: nobody knows which of them it looks at, so all."""
        return _union([*self.key.values(), *self.value.values()])


class _Tracing:
    """An Engine. Its rows are the edges: name -> physical columns. `known`: repartition topics; `made` is filled."""

    def __init__(self, known: Mapping[str, Columns], made: dict[str, dict[str, Inputs]]) -> None:
        self._known = known
        self._made = made

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """No step: each is followed as SQL."""
        return False

    def process(
        self,
        rows: Mapping[str, Columns],
        nodes: tuple[Any, ...],
        reads: Mapping[str, Flow],
        yields: Mapping[str, Flow],
    ) -> dict[str, dict[str, Inputs]]:
        """Operators of a Python stage."""
        edges = {name: _Edge.of(rows.get(name, {}), flow) for name, flow in reads.items()}
        for node in nodes:
            edges.update(self._behind(node, edges))
        return {name: edges[name].physical(flow) for name, flow in yields.items()}

    def sql(self, rows: Mapping[str, Columns], step: str, arguments: Mapping[str, Any]) -> Mapping[str, Columns]:
        """A step in SQL."""
        if step == "where":
            return rows
        if step == "merge":
            merged = [rows[name] for name in arguments["flows"]]
            others = {name: columns for name, columns in rows.items() if name not in arguments["flows"]}
            return {**others, arguments["into"]: {name: _union(each[name] for each in merged) for name in merged[0]}}
        flow = arguments["flow"] or next(iter(rows))
        before, others = rows[flow], {name: columns for name, columns in rows.items() if name != flow}
        keep = arguments["keep"]
        kept = {name: before.get(name) for name in (before if keep is None else keep)}
        if step in ("branch", "fork"):
            return {**others, **dict.fromkeys(arguments["into"], kept)}
        computed = arguments["key"] if step == "key_by" else arguments["columns"]
        renamed = {} if step == "key_by" else arguments["key"] or {}
        old = {new: before.get(name) for new, name in renamed.items()}
        return {**others, flow: {**kept, **old, **{name: _read(sql, before) for name, sql in computed.items()}}}

    def _behind(self, node: Declaration, edges: Mapping[str, _Edge]) -> dict[str, _Edge]:
        """The edges that an operator makes."""
        match node:
            case Source():
                return dict.fromkeys(node.edges, self._source(node))
            case Sink():
                self._written(node.topic, edges[node.flow])
                return {}
            case Forget():
                return {}
            case Fork():
                return dict.fromkeys(node.into, edges[node.flow])
            case Merge():
                found = [edges[name] for name in node.flows]
                key = {name: _union(each.key[name] for each in found) for name in found[0].key}
                return {
                    node.into: _Edge(
                        key, {name: _union(each.value.get(name) for each in found) for name in found[0].value}
                    )
                }
        edge = edges[node.flow]
        match node:
            case Process():
                every = edge.of_python()
                return {
                    name: _Edge(
                        dict.fromkeys(parse_columns(flow.key), every), dict.fromkeys(parse_columns(flow.value), every)
                    )
                    for name, flow in node.into.items()
                } or {node.flow: _Edge(dict.fromkeys(edge.key, every), dict.fromkeys(edge.value, every))}
            case Select():
                value = {name: edge.at(name) for name in node.keep}
                return {
                    node.flow: replace(edge, value=value | {new: edge.at(old) for new, old in node.columns.items()})
                }
            case Call():
                given = _union(edge.at(column) for column in node.arguments)
                return {node.flow: replace(edge, value={**edge.value, node.column: given})}
            case KeyBy():
                return {node.flow: replace(edge, key={new: edge.at(old) for new, old in node.key.items()})}
            case StreamTableJoin() | TableTableJoin():
                table = edges[node.table]
                added = {new: table.at(column) for new, column in node.values.items()}
                return {node.flow: replace(edge, value={**edge.value, **added})}
            case Subscribe():
                return {node.flow: _Edge({new: edge.at(old) for new, old in node.key.items()}, dict(edge.key))}
            case Answer():
                table = edges[node.table]
                added = {new: table.at(column) for new, column in node.values.items()}
                return {node.flow: _Edge({name: edge.at(name) for name in node.key}, added)}
            case ForeignKeyJoin():
                left = edges[node.table]
                ended = {node.ended: replace(left, value={})} if node.ended else {}
                return {node.into: replace(left, value={**left.value, **edge.value}), **ended}
            case StreamJoin():
                other = edges[node.other]
                added = {new: other.at(column) for new, column in node.values.items()}
                kept = {name: edge.value[name] for name in parse_columns(node.this_store.value)}
                key = {
                    name: _union(both)
                    for name, *both in zip(edge.key, edge.key.values(), other.key.values(), strict=True)
                }
                outer = node.how == "outer"
                return {node.flow: _Edge(key if outer else edge.key, {**kept, **added})}
            case GlobalJoin():
                topic = self._columns(node.table.topic)
                of = _Edge(*topic)
                added = {new: of.at(column) for new, column in node.values.items()}
                return {node.flow: replace(edge, value={**edge.value, **added})}
            case Aggregate() | AggregateSessions() | AggregateSliding():
                window = dict.fromkeys(WINDOW_COLUMNS, _NOTHING) if node.store.window is not None else {}
                values = {
                    each.name: edge.at(each.column) if each.column else _NOTHING for each in node.store.aggregates
                }
                return {node.flow: _Edge({**edge.key, **window}, values)}
            case Reduce() | AggregateWith():
                window = dict.fromkeys(WINDOW_COLUMNS, _NOTHING) if node.store.window is not None else {}
                made = dict.fromkeys(parse_columns(node.store.value), edge.of_python())
                return {node.flow: _Edge({**edge.key, **window}, made)}
        return {}  # the others leave columns as they are

    def _source(self, node: Source) -> _Edge:
        key, value = self._columns(node.topic)
        taken = parse_columns(source_columns(node).value)
        return _Edge(key, {name: value[name] for name in taken})

    def _columns(self, topic: Topic) -> tuple[dict[str, Inputs], dict[str, Inputs]]:
        known = self._known.get(topic.name)

        def inputs(column: str) -> Inputs:
            return frozenset({(topic.name, column)}) if known is None else known.get(column)

        return (
            {name: inputs(f"key.{name}") for name in key_columns(topic)},
            {name: inputs(f"value.{name}") for name in value_columns(topic)},
        )

    def _written(self, topic: Topic, edge: _Edge) -> None:
        found = {f"key.{name}": edge.key.get(name) for name in key_columns(topic)}
        found |= {f"value.{name}": edge.value.get(name) for name in value_columns(topic)}
        before = self._made.get(topic.name)  # several flows may write a topic
        self._made[topic.name] = (
            found if before is None else {name: _union((before[name], found[name])) for name in found}
        )


def _union(parts: Iterable[Inputs]) -> Inputs:
    found: set[tuple[str, str]] = set()
    for each in parts:
        if each is None:
            return None
        found |= each
    return frozenset(found)


def _read(sql: str, columns: Columns) -> Inputs:
    """What enters an expression; None if a name in it is no column."""
    try:
        tree = parse_expression(sql)
    except SqlglotError:
        return None
    bound = {each.name.lower() for function in tree.find_all(exp.Lambda) for each in function.expressions}
    by_name = {name.lower(): inputs for name, inputs in columns.items()}
    return _union(_inputs(column, by_name, bound) for column in tree.find_all(exp.Column))


def _inputs(column: exp.Column, by_name: Columns, bound: set[str]) -> Inputs:
    """Spark finds columns whatever the case of their letters. Of `a.b` it is `a`, where that is a column: a struct."""
    names = [part.name.lower() for part in column.parts]
    if names[0] in bound or names[0] in _OWN:
        return _NOTHING
    return by_name.get(names[0], by_name.get(".".join(names)))
