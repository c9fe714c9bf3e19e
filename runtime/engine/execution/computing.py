"""Operators of SQL steps that run in the task itself, without Spark.

They run in an adjacent Python stage, so that no row goes to Spark SQL and back. This applies only if the type checker
accepts every expression of a step (`expressions/reading.py`). Then they give the same results as the functions of
`cluster/spark/sql_steps.py` give for a DataFrame. A failure counts only for rows for which Spark would compute the
expression. For example, it does not count for a row with a null value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...expressions.kernels import Batch, Value, either, within
from ...expressions.nested import elements_of
from ...expressions.nodes import Node as Expression
from ...expressions.reading import node_of, predicate_of
from ...records.arrays import Bools
from ...records.types import TIMESTAMP, Kind, arrow_type
from ..operators.operator import Flow, Node, Place, Touched
from ..operators.stateless import Fork, Merge
from ..sql_step import SqlStep
from .node import Edges, RowsFailedError, TaskEpoch
from .rows import Rows, conform, physical_columns


@dataclass(frozen=True)
class OfStep(Node):
    """An operator of one SQL step. It takes location, edges and flow from the step."""

    step: SqlStep

    touches = Touched()
    is_stateful = False

    @property
    def at(self) -> Place:
        return self.step.at

    @property
    def flow(self) -> str:
        """The edge to read."""
        return self.step.flow

    @property
    def reads(self) -> tuple[str, ...]:
        return self.step.reads

    @property
    def makes(self) -> tuple[str, ...]:
        return self.step.makes


@dataclass(frozen=True)
class Where(OfStep):
    """Keeps the rows for which a condition is true. In a table, a new row that does not pass becomes a deletion."""

    condition: Expression

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowsFailedError."""
        rows = edges[self.flow]
        value = self.condition.of(_batch(rows, epoch))
        asked = rows.kind >= Kind.VALUE if self.step.table else np.ones(len(rows), np.bool_)
        _reject_failed(rows, within(value.failed, asked))
        passes = value.is_true(len(rows))
        if not self.step.table:
            edges[self.flow] = rows.filter(passes)
            return
        kind = np.where((rows.kind == Kind.VALUE) & ~passes, np.int8(Kind.TOMBSTONE), rows.kind)
        edges[self.flow] = replace(rows, kind=kind).filter((rows.kind <= Kind.VALUE) | passes)


@dataclass(frozen=True)
class Compute(OfStep):
    """Computes value columns, or the key. Of the other value columns, `keep` of the step stay (None: all).

    A computed value column is null for a row without a value, unless the step has `null_values`.
    """

    columns: Mapping[str, Expression]

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowsFailedError."""
        rows = edges[self.flow]
        of_key, keep = self.step.kind == "key_by", self.step.keep
        least = Kind.TOMBSTONE if of_key or self.step.null_values else Kind.VALUE
        batch, asked = _batch(rows, epoch), rows.kind >= least
        values = {name: node.of(batch) for name, node in self.columns.items()}
        failed: Bools | None = None
        for value in values.values():
            failed = either(failed, within(value.failed, asked))
        _reject_failed(rows, failed)
        computed = {name: _where(value, asked, self.columns[name].data_type) for name, value in values.items()}
        old = rows.values
        kept = {name: old[name] for name in (old if keep is None else keep) if name not in computed}
        if of_key:
            edges[self.flow] = rows.with_columns(computed, kept)
        else:
            edges[self.flow] = rows.with_columns(None, {**kept, **computed})


@dataclass(frozen=True)
class Explode(OfStep):
    """Emits a row for each element of an array, in order; no row for null or an empty array.

    `column`: the new column of elements. A row without a value emits rows too, if the array does not depend on it.
    """

    column: str
    elements: Expression

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowsFailedError."""
        rows = edges[self.flow]
        value = self.elements.of(_batch(rows, epoch))
        _reject_failed(rows, value.failed)
        elements, of_row = elements_of(value.array(len(rows)))
        keep = rows.value if self.step.keep is None else self.step.keep
        kept = [name for name in keep if name != self.column]
        made = kept_of(rows, tuple(kept)).take(of_row).deeper(np.arange(len(of_row)))
        made = replace(made, kind=np.where(made.kind == Kind.TOMBSTONE, np.int8(Kind.VALUE), made.kind))
        edges[self.flow] = made.with_columns(None, {**made.values, self.column: elements})


@dataclass(frozen=True)
class Branch(OfStep):
    """Sends each row to the first edge with a true condition. Rows without an edge are dropped.

    `branches`: (edge, condition), in order; the condition None is always true. `into`: the edges to emit; rows of other
    branches are dropped.
    """

    branches: tuple[tuple[str, Expression | None], ...]
    into: tuple[str, ...]

    @property
    def makes(self) -> tuple[str, ...]:
        return self.into

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowsFailedError."""
        rows = edges[self.flow]
        batch = _batch(rows, epoch)
        left: Bools = np.ones(len(rows), np.bool_)
        failed: Bools | None = None
        taken: dict[str, Bools] = {}
        for name, condition in self.branches:
            value = Value(pa.scalar(True)) if condition is None else condition.of(batch)
            failed = either(failed, within(value.failed, left))
            taken[name] = left & value.is_true(len(rows))
            left &= ~taken[name]
        _reject_failed(rows, failed)
        del edges[self.flow]
        for name in self.into:
            edges[name] = kept_of(rows.filter(taken[name]), self.step.keep)


def kept_of(rows: Rows, keep: tuple[str, ...] | None) -> Rows:
    """The rows with only these value columns; None keeps all."""
    if keep is None:
        return rows
    values = rows.values
    return rows.with_columns(None, {name: values[name] for name in keep})


@dataclass(frozen=True)
class _Columns:
    """The columns that an expression may read: those of the rows, `_ts` and `_now`. Created on access."""

    rows: Rows
    epoch: TaskEpoch

    def __getitem__(self, name: str) -> pa.Array | pa.Scalar:
        if name == "_ts":
            return pa.array(self.rows.timestamp)
        if name == "_now" and name not in self.rows.columns:
            return pa.scalar(self.epoch.now * 1000, pa.int64()).cast(TIMESTAMP)
        return self.rows.columns[name]


def _batch(rows: Rows, epoch: TaskEpoch) -> Batch:
    return Batch(_Columns(rows, epoch), len(rows))


def _where(value: Value, asked: Bools, data_type: pa.DataType) -> pa.Array:
    data = value.array(len(asked))
    if asked.all():
        return data
    if data_type.num_fields == 0:
        return pc.if_else(pa.array(asked), data, pa.scalar(None, data_type))
    return data.take(pa.array(np.arange(len(asked)), pa.int64(), mask=~asked))


def _reject_failed(rows: Rows, failed: Bools | None) -> None:
    if failed is not None and failed.any():
        raise RowsFailedError(rows.path[0][failed], rows.order[failed])


# Chooses the operators of a step. They have exactly the input and output columns of the step in the pipe.


@dataclass(frozen=True)
class Handover(Node):
    """The work of the pipe between two steps: keeps the edges `going`, and casts those in `flows` to its columns."""

    going: tuple[str, ...]
    flows: Mapping[str, Flow]
    at: Place = ""

    touches = Touched()
    is_stateful = False

    @property
    def reads(self) -> tuple[str, ...]:
        return self.going

    @property
    def makes(self) -> tuple[str, ...]:
        return self.going

    @classmethod
    def between(cls, made: Mapping[str, Flow], wanted: Mapping[str, Flow], at: Place = "") -> tuple[Handover, ...]:
        """The operator that turns the edges `made` into the edges `wanted`. Empty if both are equal."""
        if made == wanted:
            return ()
        return (cls(tuple(wanted), {name: flow for name, flow in wanted.items() if made[name] != flow}, at),)

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        going = {name: edges[name] for name in self.going}
        edges.clear()
        edges.update(going)
        for name, flow in self.flows.items():
            edges[name] = conform(edges[name], flow, epoch.now)


def operators_of(step: SqlStep, before: Mapping[str, Flow], behind: Mapping[str, Flow]) -> tuple[Any, ...]:
    """The operators for a step. `before`: the edges before it. `behind`: the edges that are passed on after it.

    Raises UnprovenError.
    """
    read = before[step.flow]
    made: Mapping[str, Flow] = {**before, **{name: behind[name] for name in step.makes if name in behind}}
    operators: tuple[Any, ...]
    match step.kind:
        case "fork":
            operators, made = (Fork(step.flow, step.into, step.at),), {**before, **dict.fromkeys(step.into, read)}
        case "merge":
            alike = {**before, **dict.fromkeys(step.flows, behind[step.into[0]])}
            operators = (*Handover.between(before, alike, step.at), Merge(step.flows, step.into[0], step.at))
        case _:
            operators = (computing(step, read, tuple(name for name in step.makes if name in behind)),)
    return (*operators, *Handover.between(made, behind, step.at))


def computing(step: SqlStep, read: Flow, into: tuple[str, ...]) -> Where | Compute | Explode | Branch:
    """The operator of a step with expressions. `read`: the columns of its edge. `into`: the output edges that are used.

    Raises UnprovenError.
    """
    columns = {**physical_columns(read), "_ts": pa.int64(), "_now": TIMESTAMP}
    match step.kind:
        case "where":
            return Where(step, predicate_of(step.condition, columns))
        case "select" | "with_columns" | "key_by":
            nodes = {name: node_of(sql, columns, arrow_type(step.types[name])) for name, sql in step.columns.items()}
            return Compute(step, nodes)
        case "explode":
            ((name, sql),) = step.columns.items()
            elements = node_of(sql, columns, arrow_type(f"array<{step.types[name]}>"))
            return Explode(step, name, elements)
        case "branch":
            asked = {
                name: None if condition is None else predicate_of(condition, columns)
                for name, condition in step.branches.items()
            }
            return Branch(step, tuple(asked.items()), into)
        case "fork" | "merge":
            raise ValueError(f"a {step.kind} computes nothing")
        case unknown:
            assert_never(unknown)


def alone_in_sql(stay: Sequence[bool]) -> range:
    """The range of steps, between two Python stages, from the first to the last that stays in Spark SQL.

    `stay`: whether each step stays in Spark SQL. Steps outside the range are adjacent to a Python stage or to another
    step that is: they can run in that stage. For example, [False, True, False, True, False] gives range(1, 4).
    """
    staying = [number for number, stays in enumerate(stay) if stays]
    return range(staying[0], staying[-1] + 1) if staying else range(0)
