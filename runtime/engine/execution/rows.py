"""Rows of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.arrays import Bools, Int8s, Int64s, concat_some, to_numpy
from ...records.keys import normal_key
from ...records.types import Kind, parse_columns
from ..operators.operator import Flow

# The columns of the batches on an edge, by their physical names. They follow from the columns of the edge alone.


def physical_columns(flow: Flow) -> dict[str, pa.DataType]:
    """The columns of a flow's batch: key, then value. A key column with the name of a value column is `key.<name>`."""
    value = parse_columns(flow.value)
    key = parse_columns(flow.key)
    return {physical_key(name, value): data_type for name, data_type in key.items()} | value


def physical_key(name: str, value: dict[str, pa.DataType]) -> str:
    """The physical name of the key column `name` in a batch with the value columns `value`."""
    return f"key.{name}" if name in value else name


def key_name(physical: str, value: Sequence[str]) -> str:
    """A key column's own name, from its physical name in a batch with the value columns `value`."""
    name = physical.removeprefix("key.")
    return name if name in value else physical


# The rows on one edge of the topology, in columns and in order.
#
# This module defines the meaning of the kinds of rows and of their order. Operators take and return `Rows`. Stores,
# topics and Spark are unknown here.
#
# A *change* of a table is one row or two adjacent ones: the replaced row (`Kind.OLD`, only if a later step needs it),
# then the new row (`Kind.VALUE`) or its deletion (`Kind.TOMBSTONE`). A stream has only `VALUE` and `TOMBSTONE` (null
# value). An OLD row has its own timestamp, that of the record that once made it.

_MANY, _MOST = 4096, 0.75
"""Of so many rows, of which such a share stays, Arrow copies runs: a third of the time of taking row by row."""


@dataclass(frozen=True)
class Rows:
    """Records of one task and epoch on one edge, in the order in which the task takes them.

    `path`: int64 arrays, the most significant first. Their lexicographic order is Kafka Streams' depth-first order over
    all edges of the task. A fork, or a step that emits several rows, appends a level. Rows of one change share a path.
    `timestamp`: ms. `order`: the task's stream time when the source record was taken, in ms; it never falls along the
    path. `headers`: JSON strings or nulls; None if no row has any. `key`, `value`: names of the columns, by role.
    `state`: bytes that travel with the rows from one operator to another (`Materialize`), or None. `collapsed`: whether
    they are known to be changes of a table, one for each key, without replaced rows.
    """

    path: tuple[Int64s, ...]
    kind: Int8s
    timestamp: Int64s
    order: Int64s
    headers: pa.Array | None
    columns: dict[str, pa.Array]
    key: tuple[str, ...]
    value: tuple[str, ...]
    state: pa.Array | None = None
    collapsed: bool = False

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def keys(self) -> dict[str, pa.Array]:
        """The key columns by their own names (without `key.`)."""
        return {key_name(name, self.value): self.columns[name] for name in self.key}

    @property
    def values(self) -> dict[str, pa.Array]:
        """The value columns by name."""
        return {name: self.columns[name] for name in self.value}

    def take(self, index: Int64s) -> Rows:
        """The rows at `index`, in its order."""
        positions = pa.array(index)
        return replace(
            self,
            path=tuple(level[index] for level in self.path),
            kind=self.kind[index],
            timestamp=self.timestamp[index],
            order=self.order[index],
            headers=None if self.headers is None else self.headers.take(positions),
            columns={name: column.take(positions) for name, column in self.columns.items()},
            state=None if self.state is None else self.state.take(positions),
            collapsed=False,
        )

    def filter(self, mask: Bools) -> Rows:
        """The rows where `mask` is true."""
        if mask.all():
            return self
        if len(mask) < _MANY or np.count_nonzero(mask) < _MOST * len(mask):
            return replace(self.take(np.flatnonzero(mask)), collapsed=self.collapsed)
        chosen = pa.array(mask)

        def kept(level: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return to_numpy(pa.array(level).filter(chosen))

        return replace(
            self,
            path=tuple(map(kept, self.path)),
            kind=kept(self.kind),
            timestamp=kept(self.timestamp),
            order=kept(self.order),
            headers=None if self.headers is None else self.headers.filter(chosen),
            columns={name: column.filter(chosen) for name, column in self.columns.items()},
            state=None if self.state is None else self.state.filter(chosen),
        )

    def with_columns(
        self, key: Mapping[str, pa.Array] | None = None, value: Mapping[str, pa.Array] | None = None
    ) -> Rows:
        """The same rows with other key or value columns, by their own names. None keeps those they have."""
        columns, names = arrange(self.keys if key is None else key, self.values if value is None else value)
        collapsed = self.collapsed and key is None
        return replace(self, columns=columns, key=names, value=tuple(columns)[len(names) :], collapsed=collapsed)

    def deeper(self, level: Int64s) -> Rows:
        """The same rows with one more level of the path."""
        return replace(self, path=(*self.path, level))


def arrange(key: Mapping[str, pa.Array], value: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
    """Columns under their physical names, key first, and the physical names of the key.

    All keys pass through here and are normalised, so that equal keys are the same value (`normal_key`).
    """
    keys = {f"key.{name}" if name in value else name: normal_key(column) for name, column in key.items()}
    return {**keys, **value}, tuple(keys)


def is_old(kind: Int8s) -> Bools:
    """Where a row is one that another row replaces."""
    return kind >= Kind.OLD


def after_old(kind: Int8s) -> Bools:
    """Where a row follows the row that it replaces."""
    follows = np.zeros(len(kind), np.bool_)
    follows[1:] = is_old(kind[:-1])
    return follows


def null_keys(columns: Sequence[pa.Array], rows: int) -> Bools:
    """Where a key is null, which means that all its columns are. A key without columns is null everywhere."""
    null = np.ones(rows, np.bool_)
    for column in columns:
        if column.null_count == 0:
            return np.zeros(rows, np.bool_)
        null &= to_numpy(column.is_null())
    return null


def path_order(parts: Sequence[Rows]) -> Int64s:
    """The permutation that sorts the rows of all `parts`, taken one after another, in path order. Stable."""
    depth = max((len(part.path) for part in parts), default=0)
    levels = []
    for level in range(depth):
        padded = [part.path[level] if level < len(part.path) else np.full(len(part), -1) for part in parts]
        levels.append(np.concatenate(padded))
    if not levels:
        return np.zeros(0, np.int64)
    return np.argsort(levels[0], kind="stable") if depth == 1 else np.lexsort(levels[::-1])


def concat(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts (at least one; equal columns), one part after another."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    depth = max(len(part.path) for part in parts)
    return Rows(
        tuple(
            np.concatenate([p.path[level] if level < len(p.path) else np.full(len(p), -1) for p in parts])
            for level in range(depth)
        ),
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.timestamp for part in parts]),
        np.concatenate([part.order for part in parts]),
        concat_some([(part.headers, len(part)) for part in parts], pa.string()),
        {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in first.columns},
        first.key,
        first.value,
        concat_some([(part.state, len(part)) for part in parts], pa.binary()),
    )


def interleave(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts (at least one; equal columns) in path order."""
    return parts[0] if len(parts) == 1 else concat(parts).take(path_order(parts))
