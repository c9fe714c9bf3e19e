"""The operator of the `aggregate` step: the rows of one key (and window) become one row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..records.arrays import Bools, Int64s
from ..records.keys import encode_keys
from ..records.kinds import Kind
from ..records.window_keys import window_keys
from ..state.codec import RowCodec
from ..timed_parts import timed
from . import declarations
from .aggregates.counts import stored_counts
from .aggregates.registry import aggregate, kept_aggregates, own_state, results, row_count, state_columns
from .aggregates.sums import SumOverflowError
from .keyed.changes import Versions, changes
from .keyed.groups import LOWEST, Groups, by_key, group_by
from .keyed.stored_rows import RowStore, StoredRows, stored_columns
from .node import Edges, RowFailedError, step_name
from .rows import Rows, is_old, null_keys
from .task_epoch import TaskEpoch
from .windows import assign, window_column

_STATE = "_state"
"""The column with encoded hidden state on its way to `Rows.state`."""


@dataclass(frozen=True)
class Aggregate(declarations.Aggregate):
    """Aggregates by key, and by window if `store.window` is set. The aggregates are in `store.aggregates`.

    `of`: a stream, or a table that was re-grouped. Then OLD rows are subtracted, and all aggregates must support that.
    `emit`: every update, or one change for each key and epoch. `old`: with the replaced rows.

    | | null key | null value | late |
    |---|---|---|---|
    | stream | dropped, counted | dropped, counted | - |
    | stream, windows | dropped, counted | aggregated | counted for each closed window |

    A row's timestamp is the greatest of its records'. If the store has value columns that are no aggregates,
    expressions over aggregates follow. Then the state of each key travels with its last change (`Rows.state`), and
    `Materialize` stores both.
    """

    def __post_init__(self) -> None:
        if self.of == "table" and row_count(self.store.aggregates) is None:
            raise ValueError(f"store {self.store.name} has an aggregate that cannot take back rows of a table")

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises SumOverflowError."""
        rows = self._usable(edges[self.flow], epoch)
        key: Mapping[str, pa.Array] = rows.keys
        starts = None
        if self.store.window is not None:
            rows, starts = self._windowed(rows, epoch)
            key = rows.keys
        code, first = group_by([*key.values()] if starts is None else [*key.values(), pa.array(starts)])
        encoded = encode_keys([column.take(pa.array(first)) for column in key.values()])
        if starts is not None:
            encoded = window_keys(starts[first], encoded)
            key = rows.keys | {"window_start": window_column(starts), "window_end": window_column(starts + self._size)}
        code, first, keys = by_key(code, first, encoded)
        store = RowStore(epoch.store(self.store), self._types)
        # One read for all keys of the epoch, in the order of the store.
        stored = store.get(keys)
        sign = np.where(is_old(rows.kind), -1, 1).astype(np.int8) if self.of == "table" else None
        groups = Groups(code, len(first), self.emit == "each_update", stored.exists, sign)
        with timed("fold"):
            at_points, ends = self._fold(groups, rows, stored)
        exists = groups.ends(at_points.exists)
        times = groups.ends(at_points.timestamp)
        if not self._carries:
            store.put(keys, ends, times, exists, stored.exists)
        before = Versions(self._before(stored) if self.old else {}, stored.timestamp, stored.exists)
        groups, rows, key, at_points = _without_halves(groups, rows, key, at_points)
        edges[self.flow] = _hide_state(changes(groups, rows, key, before, at_points, self.old))

    @property
    def _types(self) -> dict[str, pa.DataType]:
        return stored_columns(self.store)

    @property
    def _size(self) -> int:
        assert self.store.window is not None
        return self.store.window.size_ms

    @property
    def _carries(self) -> bool:
        """Whether expressions over aggregates follow, so that `Materialize` writes the store."""
        return len(self._types) > len(state_columns(self.store.aggregates))

    def _usable(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        null = null_keys(list(rows.keys.values()), len(rows))
        epoch.drop(step_name(self), "null_key", int(null.sum()))
        if self.store.window is not None:
            return rows.filter(~null)
        empty = rows.kind == Kind.TOMBSTONE
        epoch.drop(step_name(self), "null_value", int((empty & ~null).sum()))
        return rows.filter(~null & ~empty)

    def _windowed(self, rows: Rows, epoch: TaskEpoch) -> tuple[Rows, Int64s]:
        """A row for each open window of each record, and the windows' starts."""
        assert self.store.window is not None
        windowed = assign(rows.timestamp, self.store.window, epoch.clock(self.store.name))
        epoch.advance(self.store.name, windowed.clock)
        epoch.drop(step_name(self), "late", int(windowed.late.sum()))
        taken = np.flatnonzero(~windowed.late)
        starts = windowed.start[taken]
        # Each record has one open window, as in tumbling windows without late records: no copy is needed.
        if len(taken) == len(rows) == len(windowed.record):
            return rows, starts
        return rows.take(windowed.record[taken]).deeper(starts), starts

    def _fold(self, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Versions, dict[str, pa.Array]]:
        """The groups' rows at the points, and their hidden state at the end."""
        values: dict[str, pa.Array] = {}
        ends: dict[str, pa.Array] = {}
        for agg in kept_aggregates(self.store.aggregates):
            argument = None if agg.column is None else rows.columns[agg.column]
            try:
                values[agg.name], state = aggregate(agg).fold(groups, own_state(agg, stored.columns), argument)
            except SumOverflowError as error:
                raise error if error.row is None else RowFailedError(int(rows.order[error.row]), error) from error
            ends |= {f"{agg.name}.{suffix}": column for suffix, column in state.items()}
        times, exists = self._times(groups, rows, stored)
        versions = Versions({agg.name: values[agg.name] for agg in self.store.aggregates}, times, exists)
        if self._carries:
            return self._with_state(groups, versions, ends), ends
        return versions, ends

    def _with_state(self, groups: Groups, versions: Versions, ends: Mapping[str, pa.Array]) -> Versions:
        times = groups.ends(versions.timestamp)
        types = state_columns(self.store.aggregates)
        state = pa.array(RowCodec(types).encode([ends[name] for name in types], times), pa.binary())
        if groups.each:
            # Only the last point of a group is stored, so the other points carry no state through the pipe.
            index = np.zeros(groups.points, np.int64)
            index[groups.last] = np.arange(groups.count)
            absent = np.ones(groups.points, np.bool_)
            absent[groups.last] = False
            state = state.take(pa.array(index, mask=absent))
        return Versions({**versions.values, _STATE: state}, versions.timestamp, versions.exists)

    def _times(self, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Int64s, Bools]:
        """Timestamp and existence of the groups' rows at the points."""
        # A missing row has the timestamp -1, which must not win against a record's.
        start = np.where(stored.exists, stored.timestamp, LOWEST)
        counter = row_count(self.store.aggregates)
        if groups.sign is None or counter is None:
            return groups.maxima(start, rows.timestamp), np.ones(groups.points, np.bool_)
        by_row = Groups(groups.code, groups.count, True, groups.exists, groups.sign)
        before = stored_counts(own_state(counter, stored.columns))
        counts = by_row.counts(before, np.ones(len(rows), np.bool_))
        gone = (counts == 0) & (rows.kind != Kind.OLD_SAME_GROUP)
        # A group that was deleted starts again: its next row does not depend on earlier timestamps.
        life, lives = by_row.split_after(gone)
        starts = np.concatenate([start, np.full(lives - groups.count, LOWEST)])
        times = Groups(life, lives, True, groups.exists).maxima(starts, rows.timestamp)
        return (times, ~gone) if groups.each else (times[groups.last], ~gone[groups.last])

    def _before(self, stored: StoredRows) -> dict[str, pa.Array]:
        carried = {_STATE: pa.nulls(len(stored.exists), pa.binary())} if self._carries else {}
        return results(self.store.aggregates, stored.columns) | carried


def _hide_state(rows: Rows) -> Rows:
    """Move encoded state out of the columns, as SQL does not need it."""
    values = rows.values
    if _STATE not in values:
        return rows
    state = values.pop(_STATE)
    return replace(rows.with_columns(None, values), state=state)


def _without_halves(
    groups: Groups, rows: Rows, key: Mapping[str, pa.Array], versions: Versions
) -> tuple[Groups, Rows, Mapping[str, pa.Array], Versions]:
    """The changes without the points between a subtracted row and the row that follows it in the same group."""
    half = rows.kind == Kind.OLD_SAME_GROUP
    if not groups.each or not half.any():
        return groups, rows, key, versions
    kept = np.flatnonzero(~half)
    index = pa.array(kept)
    return (
        Groups(groups.code[kept], groups.count, True, groups.exists),
        rows.take(kept),
        {name: column.take(index) for name, column in key.items()},
        Versions(
            {name: column.take(index) for name, column in versions.values.items()},
            versions.timestamp[kept],
            versions.exists[kept],
        ),
    )
