"""The operator of the `aggregate` step: the rows of one key (and window) become one row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..records.arrays import Bools, Int8s, Int64s
from ..records.keys import encode_keys
from ..records.kinds import Kind
from ..records.window_keys import window_keys
from ..timed_parts import timed
from ..topology import Window
from . import declarations
from .aggregates.counts import stored_counts
from .aggregates.registry import aggregate, kept_aggregates, own_state, results, row_count
from .aggregates.sums import SumOverflowError
from .hidden_state import STATE, encoded_state, hide_state, travels
from .keyed.changes import Versions, at_points, changes
from .keyed.codes import by_key, by_window, bytes_of, group_by
from .keyed.groups import LOWEST, Groups
from .keyed.stored_rows import RowStore, StoredRows, stored_columns
from .node import Edges, RowFailedError, step_name
from .rows import Rows, is_old, null_keys
from .task_epoch import TaskEpoch
from .windows import assign, window_column


@dataclass(frozen=True)
class _Grouped:
    """Rows by key, or by key and window. `code`: the group of each row. `keys`: the groups' in the store, in its order.

    `columns`: the key columns of each group.
    """

    rows: Rows
    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]


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
        grouped = self._grouped(self._usable(edges[self.flow], epoch), epoch)
        rows, keys = grouped.rows, bytes_of(grouped.keys)
        store = RowStore(epoch.store(self.store), self._types)
        # One read for all keys of the epoch, in the order of the store.
        stored = store.get(keys)
        sign = np.where(is_old(rows.kind), -1, 1).astype(np.int8) if self.of == "table" else None
        groups = Groups(grouped.code, len(keys), self.emit == "each_update", stored.exists, sign)
        with timed("fold"):
            after, ends = self._fold(groups, rows, stored)
        exists = groups.ends(after.exists)
        if not travels(self.store):
            store.put(keys, ends, groups.ends(after.timestamp), exists, stored.exists)
        before = Versions(self._before(stored) if self.old else {}, stored.timestamp, stored.exists)
        context = at_points(groups, rows, grouped.columns)
        groups, context, after = _without_halves(groups, context, rows.kind, after)
        edges[self.flow] = hide_state(changes(groups, context, before, after, self.old))

    def _grouped(self, rows: Rows, epoch: TaskEpoch) -> _Grouped:
        """The rows by key, and by window: a row for each open window of each record."""
        code, first = group_by([*rows.keys.values()])
        code, first, keys = by_key(
            code, first, encode_keys([each.take(pa.array(first)) for each in rows.keys.values()])
        )
        columns = {name: column.take(pa.array(first)) for name, column in rows.keys.items()}
        window = self.store.window
        if window is None:
            return _Grouped(rows, code, keys, columns)
        assert isinstance(window, Window)
        rows, record, number = self._windowed(rows, window, epoch)
        groups = by_window(code if record is None else code[record], len(first), number)
        of_key, start = pa.array(groups.key), groups.window * window.advance_ms
        times = {"window_start": window_column(start), "window_end": window_column(start + window.size_ms)}
        columns = {name: column.take(of_key) for name, column in columns.items()} | times
        return _Grouped(rows, groups.code, window_keys(start, keys.take(of_key)), columns)

    @property
    def _types(self) -> dict[str, pa.DataType]:
        return stored_columns(self.store)

    def _usable(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        null = null_keys(list(rows.keys.values()), len(rows))
        epoch.drop(step_name(self), "null_key", int(null.sum()))
        if self.store.window is not None:
            return rows.filter(~null)
        empty = rows.kind == Kind.TOMBSTONE
        epoch.drop(step_name(self), "null_value", int((empty & ~null).sum()))
        return rows.filter(~null & ~empty)

    def _windowed(self, rows: Rows, window: Window, epoch: TaskEpoch) -> tuple[Rows, Int64s | None, Int64s]:
        """A row for each open window of each record, of which record it is (None: as they are), and which window."""
        windowed = assign(rows.timestamp, window, epoch.clock(self.store.name))
        epoch.advance(self.store.name, windowed.clock)
        record, number = windowed.record, windowed.number
        if windowed.late.any():
            epoch.drop(step_name(self), "late", int(windowed.late.sum()))
            record, number = record[~windowed.late], number[~windowed.late]
        # Each record has one open window, as in tumbling windows without late records: no copy is needed.
        if len(number) == len(rows) == len(windowed.record):
            return rows, None, number
        used = {agg.column for agg in self.store.aggregates}
        columns = {name: column for name, column in rows.columns.items() if name in used}
        narrow = replace(rows, columns=columns, key=(), value=())
        return narrow.take(record).deeper(number), record, number

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
        if travels(self.store):
            return self._with_state(groups, versions, ends), ends
        return versions, ends

    def _with_state(self, groups: Groups, versions: Versions, ends: Mapping[str, pa.Array]) -> Versions:
        times = groups.ends(versions.timestamp)
        state = encoded_state(self.store, ends, times)
        if groups.each:
            # Only the last point of a group is stored, so the other points carry no state through the pipe.
            index = np.zeros(groups.points, np.int64)
            index[groups.last] = np.arange(groups.count)
            absent = np.ones(groups.points, np.bool_)
            absent[groups.last] = False
            state = state.take(pa.array(index, mask=absent))
        return Versions({**versions.values, STATE: state}, versions.timestamp, versions.exists)

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
        carried = {STATE: pa.nulls(len(stored.exists), pa.binary())} if travels(self.store) else {}
        return results(self.store.aggregates, stored.columns) | carried


def _without_halves(groups: Groups, context: Rows, kind: Int8s, after: Versions) -> tuple[Groups, Rows, Versions]:
    """The changes without the points between a subtracted row and the row that follows it in the same group."""
    half = kind == Kind.OLD_SAME_GROUP
    if not groups.each or not half.any():
        return groups, context, after
    kept = np.flatnonzero(~half)
    index = pa.array(kept)
    return (
        Groups(groups.code[kept], groups.count, True, groups.exists),
        context.take(kept),
        Versions(
            {name: column.take(index) for name, column in after.values.items()},
            after.timestamp[kept],
            after.exists[kept],
        ),
    )
