"""Column lineage: which input columns of an application are used for which output columns.

An Engine that does no step: for every column of every edge it keeps the input columns that its values come from.
Columns that only decide whether or where a record exists are no inputs: conditions, join keys, times of windows.
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
"""Topics with columns (`key.<name>`, `value.<name>`); None if unknown."""

Columns = Mapping[str, Inputs]

_TIME_COLUMNS = ("_now", "_ts")
"""What expressions may read besides columns: the time of the epoch, and that of the record."""

_NOTHING: Inputs = frozenset()


def column_lineage(topology: Topology) -> dict[str, dict[str, Inputs]]:
    """Output topic -> column -> the columns of input topics that its values come from."""
    internal = {name for part in topology.subtopologies for name in part.repartition_topics}
    written: dict[str, dict[str, Inputs]] = {}
    for _ in range(len(internal) + 1):  # at most as often as records pass to another subtopology
        repartitioned = {name: columns for name, columns in written.items() if name in internal}
        written = {}
        for part in topology.subtopologies:
            part.build({}, _Tracing(repartitioned, written))
    return {name: columns for name, columns in written.items() if name not in internal}


@dataclass(frozen=True)
class _Edge:
    """The inputs of an edge's columns, by column name."""

    key: Columns = field(default_factory=dict)
    value: Columns = field(default_factory=dict)

    @classmethod
    def from_physical(cls, physical: Columns, flow: Flow) -> _Edge:
        value = parse_columns(flow.value)
        key = {name: physical.get(physical_key(name, value)) for name in parse_columns(flow.key)}
        return cls(key, {name: _NOTHING if name in _TIME_COLUMNS else physical.get(name) for name in value})

    def physical(self, flow: Flow) -> dict[str, Inputs]:
        value = parse_columns(flow.value)
        key = {physical_key(name, value): self.key.get(name) for name in parse_columns(flow.key)}
        return key | {name: _NOTHING if name in _TIME_COLUMNS else self.value.get(name) for name in value}

    def at(self, name: str) -> Inputs:
        """The inputs of the column with a physical name."""
        if name in _TIME_COLUMNS:
            return _NOTHING
        return self.value[name] if name in self.value else self.key.get(name, self.key.get(name.removeprefix("key.")))

    def of_python(self) -> Inputs:
        """The inputs of a column computed by Python code: all columns, as it is unknown which ones the code uses."""
        return _union([*self.key.values(), *self.value.values()])


class _Tracing:
    """An Engine.

    Its rows are edges: name -> physical columns. `known`: repartition topics; `made`: filled with outputs.
    """

    def __init__(self, known: Mapping[str, Columns], made: dict[str, dict[str, Inputs]]) -> None:
        self._known = known
        self._made = made

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """No step: all are traced as SQL."""
        return False

    def process(
        self,
        rows: Mapping[str, Columns],
        nodes: tuple[Any, ...],
        reads: Mapping[str, Flow],
        yields: Mapping[str, Flow],
    ) -> dict[str, dict[str, Inputs]]:
        """Trace the operators of a Python stage."""
        edges = {name: _Edge.from_physical(rows.get(name, {}), flow) for name, flow in reads.items()}
        for node in nodes:
            edges.update(self._outputs(node, edges))
        return {name: edges[name].physical(flow) for name, flow in yields.items()}

    def sql(self, rows: Mapping[str, Columns], step: str, arguments: Mapping[str, Any]) -> Mapping[str, Columns]:
        """Trace a step in SQL."""
        if step == "where":
            return rows
        if step == "merge":
            merged = [rows[name] for name in arguments["flows"]]
            others = {name: columns for name, columns in rows.items() if name not in arguments["flows"]}
            return {
                **others,
                arguments["into"]: {name: _union(columns[name] for columns in merged) for name in merged[0]},
            }
        flow = arguments["flow"] or next(iter(rows))
        before, others = rows[flow], {name: columns for name, columns in rows.items() if name != flow}
        keep = arguments["keep"]
        kept = {name: before.get(name) for name in (before if keep is None else keep)}
        if step in ("branch", "fork"):
            return {**others, **dict.fromkeys(arguments["into"], kept)}
        computed = arguments["key"] if step == "key_by" else arguments["columns"]
        renamed = {} if step == "key_by" else arguments["key"] or {}
        old = {new: before.get(name) for new, name in renamed.items()}
        return {
            **others,
            flow: {**kept, **old, **{name: _expression_inputs(sql, before) for name, sql in computed.items()}},
        }

    def _outputs(self, node: Declaration, edges: Mapping[str, _Edge]) -> dict[str, _Edge]:
        """The edges that an operator writes."""
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
                merged = [edges[name] for name in node.flows]
                key = {name: _union(edge_.key[name] for edge_ in merged) for name in merged[0].key}
                return {
                    node.into: _Edge(
                        key, {name: _union(edge_.value.get(name) for edge_ in merged) for name in merged[0].value}
                    )
                }
        edge = edges[node.flow]
        match node:
            case Process():
                inputs = edge.of_python()
                return {
                    name: _Edge(
                        dict.fromkeys(parse_columns(flow.key), inputs), dict.fromkeys(parse_columns(flow.value), inputs)
                    )
                    for name, flow in node.into.items()
                } or {node.flow: _Edge(dict.fromkeys(edge.key, inputs), dict.fromkeys(edge.value, inputs))}
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
                    aggregate.name: edge.at(aggregate.column) if aggregate.column else _NOTHING
                    for aggregate in node.store.aggregates
                }
                return {node.flow: _Edge({**edge.key, **window}, values)}
            case Reduce() | AggregateWith():
                window = dict.fromkeys(WINDOW_COLUMNS, _NOTHING) if node.store.window is not None else {}
                made = dict.fromkeys(parse_columns(node.store.value), edge.of_python())
                return {node.flow: _Edge({**edge.key, **window}, made)}
        return {}  # all others do not change columns

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
        columns = {f"key.{name}": edge.key.get(name) for name in key_columns(topic)}
        columns |= {f"value.{name}": edge.value.get(name) for name in value_columns(topic)}
        before = self._made.get(topic.name)  # several flows may write a topic
        self._made[topic.name] = (
            columns if before is None else {name: _union((before[name], columns[name])) for name in columns}
        )


def _union(parts: Iterable[Inputs]) -> Inputs:
    union: set[tuple[str, str]] = set()
    for part in parts:
        if part is None:
            return None
        union |= part
    return frozenset(union)


def _expression_inputs(sql: str, columns: Columns) -> Inputs:
    """The inputs of an expression; None if a name in it is no column."""
    try:
        tree = parse_expression(sql)
    except SqlglotError:
        return None
    bound = {parameter.name.lower() for function in tree.find_all(exp.Lambda) for parameter in function.expressions}
    by_name = {name.lower(): inputs for name, inputs in columns.items()}
    return _union(_inputs(column, by_name, bound) for column in tree.find_all(exp.Column))


def _inputs(column: exp.Column, by_name: Columns, bound: set[str]) -> Inputs:
    """The inputs of a column. As in Spark, case is ignored, and `a.b` is a field of `a` if `a` is a column."""
    names = [part.name.lower() for part in column.parts]
    if names[0] in bound or names[0] in _TIME_COLUMNS:
        return _NOTHING
    return by_name.get(names[0], by_name.get(".".join(names)))
