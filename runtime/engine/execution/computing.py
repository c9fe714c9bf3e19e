"""Operators that compute expressions: the SQL steps that can run in the task itself.

Each does to rows what the function of its step in `cluster/spark/sql_steps.py` does to those of a DataFrame. A failure
counts only for rows for which Spark would compute the expression: not for a null value, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...expressions.kernels import Batch, Value, either, within
from ...expressions.nested import elements_of
from ...expressions.nodes import Node
from ...ir.declarations import Place
from ...records.arrays import Bools
from ...records.types import TIMESTAMP, Kind
from .node import Edges, RowsFailedError, TaskEpoch
from .rows import Rows


@dataclass(frozen=True)
class Where:
    """Keeps the rows for which a condition is true. `table`: a new row that does not pass becomes a deletion."""

    flow: str
    condition: Node
    table: bool = False
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowsFailedError."""
        rows = edges[self.flow]
        value = self.condition.of(_batch(rows, epoch))
        asked = rows.kind >= Kind.VALUE if self.table else np.ones(len(rows), np.bool_)
        _refuse_failed(rows, within(value.failed, asked))
        passes = value.is_true(len(rows))
        if not self.table:
            edges[self.flow] = rows.filter(passes)
            return
        kind = np.where((rows.kind == Kind.VALUE) & ~passes, np.int8(Kind.TOMBSTONE), rows.kind)
        edges[self.flow] = replace(rows, kind=kind).filter((rows.kind <= Kind.VALUE) | passes)


@dataclass(frozen=True)
class Compute:
    """Computes value columns, or the key (`of_key`); of the others those of `keep` stay, with None all.

    `least`: the lowest kind of rows for which they are computed; they are null for others.
    """

    flow: str
    columns: Mapping[str, Node]
    keep: tuple[str, ...] | None = None
    of_key: bool = False
    least: Kind = Kind.VALUE
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowsFailedError."""
        rows = edges[self.flow]
        batch, asked = _batch(rows, epoch), rows.kind >= self.least
        values = {name: node.of(batch) for name, node in self.columns.items()}
        failed: Bools | None = None
        for value in values.values():
            failed = either(failed, within(value.failed, asked))
        _refuse_failed(rows, failed)
        computed = {name: _where(value, asked, self.columns[name].data_type) for name, value in values.items()}
        old = rows.values
        kept = {name: old[name] for name in (old if self.keep is None else self.keep) if name not in computed}
        if self.of_key:
            edges[self.flow] = rows.with_columns(computed, kept)
        else:
            edges[self.flow] = rows.with_columns(None, {**kept, **computed})


@dataclass(frozen=True)
class Explode:
    """Makes a row with a value for each element of an array, in order, and none of null or of an empty array.

    `column`: for the elements. `keep`: the other value columns that go on, None for all. A row without a value makes
    rows too, if the array does not depend on it.
    """

    flow: str
    column: str
    elements: Node
    keep: tuple[str, ...] | None = None
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowsFailedError."""
        rows = edges[self.flow]
        value = self.elements.of(_batch(rows, epoch))
        _refuse_failed(rows, value.failed)
        elements, of_row = elements_of(value.array(len(rows)))
        kept = [name for name in (rows.value if self.keep is None else self.keep) if name != self.column]
        made = kept_of(rows, tuple(kept)).take(of_row).deeper(np.arange(len(of_row)))
        made = replace(made, kind=np.where(made.kind == Kind.TOMBSTONE, np.int8(Kind.VALUE), made.kind))
        edges[self.flow] = made.with_columns(None, {**made.values, self.column: elements})


@dataclass(frozen=True)
class Branch:
    """Sends each row to the first edge whose condition is true; None takes the rest. Rows of no edge are left out.

    `keep`: the value columns that go on, None for all. Of `branches` only those of `into` are made.
    """

    flow: str
    branches: tuple[tuple[str, Node | None], ...]
    into: tuple[str, ...]
    keep: tuple[str, ...] | None = None
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowsFailedError."""
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
        _refuse_failed(rows, failed)
        del edges[self.flow]
        for name in self.into:
            edges[name] = kept_of(rows.filter(taken[name]), self.keep)


def kept_of(rows: Rows, keep: tuple[str, ...] | None) -> Rows:
    """The rows with only these value columns; None: with all."""
    if keep is None:
        return rows
    values = rows.values
    return rows.with_columns(None, {name: values[name] for name in keep})


@dataclass(frozen=True)
class _Columns:
    """The columns that an expression may read: those of the rows, `_ts` and `_now`. Made only where it reads them."""

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


def _refuse_failed(rows: Rows, failed: Bools | None) -> None:
    if failed is not None and failed.any():
        raise RowsFailedError(rows.path[0][failed], rows.order[failed])
