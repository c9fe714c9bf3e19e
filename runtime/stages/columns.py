"""The columns of each edge after each step. They follow from the steps, so generated code does not list them.

A source has the columns of its topic, a join adds columns of its table, an aggregate has those of its store, and SQL
gives the type of each column that it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from ..operators.batch_columns import physical_columns, physical_key, source_columns
from ..operators.declarations import (
    ANSWER,
    FOUND,
    HASH,
    SUBSCRIBE,
    Aggregate,
    AggregateSessions,
    AggregateSliding,
    AggregateWith,
    Answer,
    Call,
    Declaration,
    FinalResults,
    Flow,
    ForeignKeyJoin,
    Forget,
    Fork,
    GlobalJoin,
    KeyBy,
    Materialize,
    Merge,
    Process,
    Reduce,
    Select,
    Settle,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    Subscribe,
    Suppress,
    Table,
    TableTableJoin,
    ToStream,
)
from ..records.schema import WINDOW_COLUMNS
from ..records.types import TIMESTAMP, arrow_type, columns_ddl, parse_columns
from ..topology import Store
from .sql_step import SqlStep

NOW = "_now"
"""The epoch's planned time: a column that a Python stage adds to an edge for SQL steps that use it."""

Flows = dict[str, Flow]
"""The columns of edges, by name."""


def edges_of(node: Declaration | SqlStep) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The edges that an operator or a step reads, and those that it makes. An edge that it changes is in both."""
    match node:
        case SqlStep():
            return node.flows, node.makes
        case Source():
            return (), node.edges
        case Sink():
            return (node.flow,), ()
        case StreamTableJoin():
            return (node.flow, node.table, *node.made_of), (node.flow,)
        case Answer():
            return (node.flow, node.table), (node.flow,)
        case TableTableJoin():
            return (node.flow, node.table, *node.this_made_of, *node.other_made_of), (node.flow,)
        case ForeignKeyJoin():
            return (node.flow, node.table), (node.into, *([node.ended] if node.ended else []))
        case Forget():
            return (node.flow,), ()
        case StreamJoin():
            return (node.flow, node.other), (node.flow,)
        case Fork():
            return (node.flow,), node.into
        case Merge():
            return node.flows, (node.into,)
        case Process():
            return (node.flow,), tuple(node.into) or (node.flow,)
        case Table() | Select() | KeyBy() | Call() | GlobalJoin() | Materialize() | Settle() | ToStream():
            return (node.flow,), (node.flow,)
        case Subscribe():
            return (node.flow,), (node.flow,)
        case (
            Aggregate()
            | AggregateSessions()
            | AggregateSliding()
            | Reduce()
            | AggregateWith()
            | FinalResults()
            | Suppress()
        ):
            return (node.flow,), (node.flow,)
        case unknown:
            assert_never(unknown)


def behind_operator(node: Declaration | SqlStep, flows: Mapping[str, Flow]) -> Flows:
    """The edges after an operator, or after a step that runs among operators."""
    if isinstance(node, SqlStep):
        return behind_sql(node, flows)
    _, makes = edges_of(node)
    if isinstance(node, Process):
        return {**flows, **(node.into or {node.flow: flows[node.flow]})}
    if isinstance(node, ForeignKeyJoin) and node.ended:
        return {**flows, node.into: _made(node, flows), node.ended: replace(flows[node.flow], value="")}
    return {**flows, **{name: _made(node, flows) for name in makes}}


def _made(node: Declaration, flows: Mapping[str, Flow]) -> Flow:
    """The columns of the edges that an operator makes."""
    match node:
        case Source():
            return source_columns(node)
        case Select():
            types = physical_columns(flows[node.flow])
            renamed = {name: types[column] for name, column in node.columns.items()}
            return replace(
                flows[node.flow], value=columns_ddl({**{name: types[name] for name in node.keep}, **renamed})
            )
        case KeyBy():
            types = physical_columns(flows[node.flow])
            return replace(
                flows[node.flow], key=columns_ddl({name: types[column] for name, column in node.key.items()})
            )
        case Call():
            flow = flows[node.flow]
            made = {node.column: arrow_type(node.udf.returns)}
            return replace(flow, value=columns_ddl(parse_columns(flow.value) | made))
        case StreamTableJoin():
            return _joined(flows[node.flow], node.values, node.store)
        case TableTableJoin():
            return _joined(flows[node.flow], node.values, node.other_store)
        case StreamJoin():
            stored = replace(flows[node.flow], value=node.this_store.value)
            return _joined(stored, node.values, node.other_store)
        case GlobalJoin():
            return _joined(flows[node.flow], node.values, node.table.store)
        case Subscribe():
            return _subscribing(node, flows[node.flow])
        case Answer():
            return _answering(node, flows[node.flow])
        case ForeignKeyJoin():
            return _responding(node, flows[node.flow])
        case Aggregate() | AggregateSessions() | AggregateSliding():
            return Flow(_group_key(node.store), columns_ddl(_results(node.store)))
        case Reduce() | AggregateWith():
            return Flow(_group_key(node.store), node.store.value)
        case Merge():
            return flows[node.flows[0]]
        case Table() | Materialize() | Suppress() | Settle() | ToStream() | FinalResults() | Fork():
            return flows[node.flow]
        case Sink() | Forget():
            raise AssertionError("it makes no edge")
        case Process():
            raise AssertionError("a processor says the columns of its edges")
        case unknown:
            assert_never(unknown)


def _joined(flow: Flow, values: Mapping[str, str], store: Store) -> Flow:
    types = parse_columns(store.key) | parse_columns(store.value)
    return replace(
        flow,
        value=columns_ddl(parse_columns(flow.value) | {name: types[column] for name, column in values.items()}),
    )


def _subscribing(node: Subscribe, flow: Flow) -> Flow:
    types = physical_columns(flow)
    value = {**parse_columns(flow.key), HASH: pa.binary(), SUBSCRIBE: pa.bool_(), ANSWER: pa.bool_()}
    return Flow(columns_ddl({name: types[column] for name, column in node.key.items()}), columns_ddl(value))


def _answering(node: Answer, flow: Flow) -> Flow:
    asked, rows = parse_columns(flow.value), parse_columns(node.rows.value)
    value = {HASH: pa.binary(), FOUND: pa.bool_(), **{new: rows[name] for new, name in node.values.items()}}
    return Flow(columns_ddl({name: asked[name] for name in node.key}), columns_ddl(value))


def _responding(node: ForeignKeyJoin, flow: Flow) -> Flow:
    other = {name: kind for name, kind in parse_columns(flow.value).items() if name not in (HASH, FOUND)}
    return replace(flow, value=columns_ddl({**parse_columns(node.store.value), **other}))


def _group_key(store: Store) -> str:
    """The key behind an aggregation, with that of the window."""
    key = parse_columns(store.key)
    if store.window is not None:
        key |= dict.fromkeys(WINDOW_COLUMNS, TIMESTAMP)
    return columns_ddl(key)


def _results(store: Store) -> dict[str, pa.DataType]:
    return {each.name: arrow_type(each.type) for each in store.aggregates}


def behind_sql(step: SqlStep, flows: Mapping[str, Flow]) -> Flows:
    """The edges after a step in SQL."""
    others = {name: flow for name, flow in flows.items() if name not in step.flows}
    made = _computed(step, flows[step.flow])
    return {**others, **dict.fromkeys(step.makes, made)}


def _computed(step: SqlStep, flow: Flow) -> Flow:
    """The columns of the edges that a step makes."""
    if step.kind == "where":
        return flow
    value = parse_columns(flow.value)
    kept = {name: value[name] for name in (value if step.keep is None else step.keep)}
    computed = {name: arrow_type(step.types[name]) for name in step.columns}
    if step.kind == "key_by":
        return Flow(columns_ddl(computed), columns_ddl(kept))
    unchanged = {name: data_type for name, data_type in kept.items() if name not in computed}
    return replace(flow, value=columns_ddl({**unchanged, **computed}))


def narrowed(flow: Flow, keep: Iterable[str]) -> Flow:
    """The flow with only the value columns in `keep`, which may include `NOW`."""
    value: dict[str, pa.DataType] = {**parse_columns(flow.value), NOW: TIMESTAMP}
    return replace(flow, value=columns_ddl({name: value[name] for name in keep}))


def physical_names(flow: Flow) -> dict[str, str]:
    """The physical name of each key column."""
    value = parse_columns(flow.value)
    return {name: physical_key(name, value) for name in parse_columns(flow.key)}
