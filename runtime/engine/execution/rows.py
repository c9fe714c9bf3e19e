"""The rows on an edge: columns, kinds, and path order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.arrays import Bools, Int8s, Int64s, cast_to, concat_some, to_numpy
from ...records.keys import normal_key
from ...records.types import TIMESTAMP, Kind, parse_columns
from ..operators.operator import Flow

# The columns of the batches on an edge, by physical names. They depend only on the columns of the edge.


def physical_columns(flow: Flow) -> dict[str, pa.DataType]:
    """The columns of a flow's batch: key, then value. A key column with the name of a value column is `key.<name>`."""
    value = parse_columns(flow.value)
    key = parse_columns(flow.key)
    return {physical_key(name, value): data_type for name, data_type in key.items()} | value


def physical_key(name: str, value: dict[str, pa.DataType]) -> str:
    """The physical name of the key column `name` in a batch with the value columns `value`."""
    return f"key.{name}" if name in value else name


def key_name(physical: str, value: Sequence[str]) -> str:
    """The own name of a key column, from its physical name in a batch with the value columns `value`."""
    name = physical.removeprefix("key.")
    return name if name in value else physical


# The rows on one edge of the topology. Operators take and return `Rows`.
#
# This module defines the kinds of rows and their order. It does not know stores, topics or Spark.
#
# A *change* of a table is one row, or two adjacent rows: the replaced row (`Kind.OLD`, only if a later step needs it),
# then the new row (`Kind.VALUE`) or its deletion (`Kind.TOMBSTONE`). An OLD
# row has the timestamp of the record that made it. A stream has only `VALUE` and `TOMBSTONE` (null value).

_MANY, _MOST = 4096, 0.75
"""`filter` uses Arrow's filter from this many rows and this share of kept rows: a third of the time of `take`."""


@dataclass(frozen=True)
class Rows:
    """Records of one task and epoch on one edge, in the order in which the task takes them.

    `path`: int64 arrays, one for each level, the most significant first. Their lexicographic order is Kafka Streams'
    depth-first order over all edges of the task. A fork, or a step that emits several rows, appends a level. Rows of
    one change share a path. `timestamp`: ms. `order`: the task's stream time when the source record was taken, ms; it
    never falls along the path. `headers`: JSON strings or nulls; None if no row has any. `columns`: by physical name.
    `key`, `value`: the physical names of key and value columns. `state`: bytes that travel with rows from an aggregate
    to `Materialize`, or None. `collapsed`: True if the rows are changes of a table, one for each key, without replaced
    rows.

    Example: a task takes two records. A step emits two rows for the first one, and one row for the second.

        path before    ([0, 1],)
        path after     ([0, 0, 1], [0, 1, 0])
    """

    path: tuple[Int64s, ...]
    kind: Int8s
    timestamp: Int64s
    order: Int64s
    headers: pa.Array | None = None
    columns: dict[str, pa.Array] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
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
        """The rows where `mask` (bool, one entry for each row) is True."""
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
        """The same rows with other key or value columns, by their own names. None keeps the present ones."""
        columns, names = arrange(self.keys if key is None else key, self.values if value is None else value)
        collapsed = self.collapsed and key is None
        return replace(self, columns=columns, key=names, value=tuple(columns)[len(names) :], collapsed=collapsed)

    def bare(self) -> Rows:
        """The same rows without columns and state."""
        return replace(self, columns={}, key=(), value=(), state=None, collapsed=False)

    def deeper(self, level: Int64s) -> Rows:
        """The same rows with one more path level, int64."""
        return replace(self, path=(*self.path, level))


def no_rows(flow: Flow) -> Rows:
    """An empty edge with the columns of a flow."""
    none = np.zeros(0, np.int64)
    keys, values = (
        {name: pa.nulls(0, kind) for name, kind in parse_columns(side).items()} for side in (flow.key, flow.value)
    )
    return Rows((none,), none.astype(np.int8), none, none).with_columns(keys, values)


def taken(columns: Mapping[str, pa.Array], index: Int64s, null: Bools | None = None) -> dict[str, pa.Array]:
    """The values of columns at `index`. `null`: where the result is null, whatever the index."""
    places = pa.array(index, mask=null)
    return {name: column.take(places) for name, column in columns.items()}


def arrange(key: Mapping[str, pa.Array], value: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], tuple[str, ...]]:
    """(Columns by physical name, key columns first; physical names of the key columns).

    Key columns are normalised here, so that equal keys have identical values (`normal_key`).
    """
    keys = {f"key.{name}" if name in value else name: normal_key(column) for name, column in key.items()}
    return {**keys, **value}, tuple(keys)


def conform(rows: Rows, flow: Flow, now: int) -> Rows:
    """The rows, cast to exactly the flow's columns. `now`: the epoch's planned time in ms, for a flow with `_now`."""
    keys, values, value = rows.keys, rows.values, parse_columns(flow.value)
    if "_now" in value and "_now" not in values:
        values["_now"] = pa.repeat(pa.scalar(now * 1000, pa.int64()), len(rows)).cast(TIMESTAMP)
    return rows.with_columns(
        {name: cast_to(keys[name], data_type) for name, data_type in parse_columns(flow.key).items()},
        {name: cast_to(values[name], data_type) for name, data_type in value.items()},
    )


def is_old(kind: Int8s) -> Bools:
    """Whether each row is a replaced row (OLD or OLD_SAME_GROUP)."""
    return kind >= Kind.OLD


def after_old(kind: Int8s) -> Bools:
    """Whether each row directly follows the row that it replaces. Kinds [OLD, VALUE, VALUE]: [False, True, False]."""
    follows = np.zeros(len(kind), np.bool_)
    follows[1:] = is_old(kind[:-1])
    return follows


def null_keys(columns: Sequence[pa.Array], rows: int) -> Bools:
    """Whether each key is null: all of its columns are null. A key without columns is always null. `rows`: a count."""
    null = np.ones(rows, np.bool_)
    for column in columns:
        if column.null_count == 0:
            return np.zeros(rows, np.bool_)
        null &= to_numpy(column.is_null())
    return null


def path_order(parts: Sequence[Rows]) -> Int64s:
    """The permutation that sorts the rows of all `parts`, concatenated, by path. Stable.

    A missing level counts as -1, so a row comes before the rows made of it.

    Example: the paths (0) and (2) in the first part, (0, 0), (0, 1) and (1, 0) in the second.

        path_order([first, second])    [0, 2, 3, 4, 1]: (0), (0, 0), (0, 1), (1, 0), (2)
    """
    levels = _levels(parts)
    if not levels:
        return np.zeros(0, np.int64)
    return np.argsort(levels[0], kind="stable") if len(levels) == 1 else np.lexsort(levels[::-1])


def _levels(parts: Sequence[Rows]) -> list[Int64s]:
    """The path levels of all parts, concatenated. Missing levels become -1."""
    depth = max((len(part.path) for part in parts), default=0)
    return [
        np.concatenate([part.path[level] if level < len(part.path) else np.full(len(part), -1) for part in parts])
        for level in range(depth)
    ]


def concat(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows. `parts`: at least one, with equal columns. Missing path levels become -1."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Rows(
        tuple(_levels(parts)),
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
    """Merge rows in path order. `parts`: at least one, with equal columns."""
    return parts[0] if len(parts) == 1 else concat(parts).take(path_order(parts))
