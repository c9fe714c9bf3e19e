"""Columns and numbers of stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..ir.declarations import (
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
from ..ir.topology import Store
from ..records.arrays import Bools, Int64s
from ..records.schema import WINDOW_COLUMNS
from ..records.types import TIMESTAMP, arrow_type, columns_ddl, parse_columns
from .execution.node import Edges, Node, TaskEpoch
from .execution.processing.together import ProcessTogether
from .execution.rows import physical_columns, physical_key, source_columns
from .sql_step import SqlStep

# The columns of each edge after each step. They follow from the steps, so generated code does not list them.
#
# A source has the columns of its topic, a join adds columns of its table, an aggregate has those of its store, and SQL
# gives the type of each column that it computes.

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


# Which record each row of a task comes from, and whether an operator has kept something of that record already.
#
# A record that fails can be left out by the stage behind the step, as long as no store and no topic has anything of it,
# and no operator has counted it. From then on it is *touched*: its rows have negative numbers. If one of them fails,
# the epoch is worked out again without the record.


class TouchedRecordError(HeadwaterError):
    """A step could not process a row of a record that is touched."""

    def __init__(self) -> None:
        super().__init__("a step cannot process a record of which a store or a topic has something already")


def refuse_touched(failed: Sequence[int]) -> None:
    """Raise TouchedRecordError if one of these records is touched."""
    if any(number < 0 for number in failed):
        raise TouchedRecordError


class Numbering:
    """The numbers of a task's rows in one stage. `numbers`: of the rows that came, by the first level of their path."""

    def __init__(self, numbers: Int64s) -> None:
        self._numbers = numbers
        self._touched: Bools = np.zeros(len(numbers), np.bool_)

    @classmethod
    def of_taken(cls, records: int) -> Numbering:
        """That of the first stage, whose rows are the records that the task takes."""
        # Where there is no record, what wall-clock punctuations forward has the number 0.
        return cls(np.arange(max(records, 1)))

    def run(self, node: Node, edges: Edges, epoch: TaskEpoch) -> None:
        """Run an operator, and note what it touches: all that it stores or writes, and of a join what it drops."""
        match node:
            case ProcessTogether():
                for name in node.reads:
                    self._touched[edges[name].path[0]] = True
                node.run(edges, epoch)
                for name in node.makes:
                    self._touched[edges[name].path[0]] = True
            case Process():
                # Also what it has not stored may decide what becomes of other records.
                self._touched[edges[node.flow].path[0]] = True
                node.run(edges, epoch)
                for name in node.into or (node.flow,):
                    self._touched[edges[name].path[0]] = True
            case (
                Table()
                | Aggregate()
                | AggregateSessions()
                | AggregateSliding()
                | Reduce()
                | AggregateWith()
                | Materialize()
                | Suppress()
                | Sink()
            ):
                self._touched[edges[node.flow].path[0]] = True
                node.run(edges, epoch)
            case Subscribe() | Answer() | ForeignKeyJoin():
                # Subscriptions and answers leave nothing out: what one of them asks for, others depend on.
                for name in (node.flow, *([] if isinstance(node, Subscribe) else [node.table])):
                    self._touched[edges[name].path[0]] = True
                node.run(edges, epoch)
            case StreamJoin():
                for name in (node.flow, node.other):
                    self._touched[edges[name].path[0]] = True
                node.run(edges, epoch)
            case StreamTableJoin() | GlobalJoin():
                came = edges[node.flow].path[0]
                node.run(edges, epoch)
                self._touched[np.setdiff1d(came, edges[node.flow].path[0])] = True
            case _:
                node.run(edges, epoch)

    def touch_all(self) -> None:
        """Leave no record out."""
        self._touched[:] = True

    @property
    def records(self) -> Int64s:
        """The numbers of the records, by the first level of their rows' path, whether they are touched or not."""
        return np.where(self._numbers < 0, -1 - self._numbers, self._numbers)

    def leave_out(self, records: Int64s, edges: Edges) -> tuple[int, ...]:
        """Remove all rows of the records that some rows come from, by the first level of their paths; their numbers.

        Raises TouchedRecordError.
        """
        failed = np.unique(self._numbers[records])
        refuse_touched(failed.tolist())
        gone = np.isin(self._numbers, failed)
        if (gone & self._touched).any():
            raise TouchedRecordError
        for name, rows in edges.items():
            edges[name] = rows.filter(~gone[rows.path[0]])
        return tuple(failed.tolist())

    def numbers(self) -> Int64s:
        """The numbers of the rows that go on, by the first level of their path."""
        if not self._touched.any():
            return self._numbers
        records = np.unique(self._numbers[self._touched])
        gone = np.isin(self._numbers, records) & (self._numbers >= 0)
        return np.where(gone, -1 - self._numbers, self._numbers)
