"""A table of sessions: the records of one session become one row, whichever way they are folded.

A record that extends a session moves its row: the row of the old bounds is deleted, and one with the new bounds is
there. The rules are Kafka Streams' (`KStreamSessionWindowAggregate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s
from ...records.keys.encoding import encode_keys
from ...records.keys.session_segments import segment_length
from ...state.codec import RowCodec
from ...timed_parts import timed
from ...topology import Store
from ...windows import SessionWindow
from ..declarations import Emit
from ..hidden_state import STATE, encoded_state, hide_state
from ..keyed.changes import Versions, changes
from ..keyed.codes import by_key, bytes_of, group_by
from ..keyed.groups import Groups
from ..keyed.session_changes import ChangedSessions
from ..keyed.session_store import FoundSessions, SessionStore
from ..keyed.stored_rows import stored_columns
from ..rows import Rows, null_keys
from ..task_epoch import TaskEpoch
from ..windows import window_column
from .folding import Folded
from .merging import Merged, Records, Sessions, merge

_ROWS_BITS = 26
"""A row's order is the place in the store's changelog when the epoch began, then its number in these bits."""


class SessionFold(Protocol):
    """How the records of sessions become rows. `travels`: whether another operator stores them, see `hidden_state`."""

    @property
    def travels(self) -> bool: ...  # noqa: D102

    def fold(self, rows: Rows, merged: Merged, stored: Mapping[str, pa.Array], order: Int64s, each: bool) -> Folded:
        """Fold the rows into their sessions. `stored`: the columns of the stored sessions; `order`: a number of each
        row that grows from epoch to epoch; `each`: with a value for each row. Raises RowFailedError.
        """

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The value columns of stored sessions."""


@dataclass(frozen=True)
class SessionTable:
    """Folds by key and session. `emit`, `old`: see `Aggregate`. `headers`: whether changes have those of their records.

    Null keys are dropped and counted, by `step`, and records for a session that is closed. Null values are folded. A
    row's timestamp is the end of its session.
    """

    store: Store
    fold: SessionFold
    emit: Emit
    old: bool
    step: str
    headers: bool = False

    def run(self, came: Rows, epoch: TaskEpoch) -> Rows:
        """The changes that records make. Raises RowFailedError."""
        window, kept = self.store.window, self.store.kept_ms
        assert isinstance(window, SessionWindow)
        assert kept is not None
        null = null_keys(list(came.keys.values()), len(came))
        epoch.drop(self.step, "null_key", int(null.sum()))
        rows = came.filter(~null)
        if not self.headers:
            rows = replace(rows, headers=None)
        code, first = group_by([*rows.keys.values()])
        distinct = encode_keys([column.take(pa.array(first)) for column in rows.keys.values()])
        code, _, ordered = by_key(code, first, distinct)
        keys = bytes_of(ordered)
        clock = epoch.clock(self.store.name)
        records = Records.of(code, len(keys), rows.timestamp, clock)
        opened = epoch.store(self.store)
        store = SessionStore(opened, segment_length(window))
        found = store.find(keys, _first_ends(records, window.gap_ms, clock - kept), clock)
        with timed("sessions"):
            merged = merge(records, Sessions(found.code, found.start, found.end), window, kept)
        epoch.advance(self.store.name, int(records.clock.max(initial=clock)))
        epoch.let_pass(self.store.name)
        epoch.drop(self.step, "late", int(merged.late.sum()))
        codec = RowCodec(stored_columns(self.store))
        stored = dict(zip(codec.types, codec.decode(found.row)[0], strict=True))
        order = (opened.position << _ROWS_BITS) + np.arange(len(rows))
        each = self.emit == "each_update"
        with timed("fold"):
            folded = self.fold.fold(rows, merged, stored, order, each)
        if not self.fold.travels:
            store.change(keys, _changed(code, found, merged, folded, codec))
        return hide_state(self._changes(rows, code, found, merged, folded, stored))

    def _changes(
        self,
        rows: Rows,
        code: Int64s,
        found: FoundSessions,
        merged: Merged,
        folded: Folded,
        stored: Mapping[str, pa.Array],
    ) -> Rows:
        """The deletions of sessions that were joined or extended, and the rows in their place."""
        row, place, version, exists = _events(merged)
        start, end = (
            _of_versions(version, *bounds) for bounds in ((merged.start, found.start), (merged.end, found.end))
        )
        # The stored sessions are among the groups, to know which of them have a row.
        of_key = np.concatenate([found.code, code[row]])
        bounds = [np.concatenate([found.start, start]), np.concatenate([found.end, end])]
        every, _ = group_by([pa.array(each) for each in (of_key, *bounds)])
        present, group = np.unique(every[len(found.code) :], return_inverse=True)
        before = np.full(int(every.max(initial=-1)) + 1, -1)
        before[every[: len(found.code)]] = np.arange(len(found.code))
        before = before[present]
        groups = Groups(group, len(present), self.emit == "each_update", before >= 0)
        values = dict(folded.values)
        if self.fold.travels:
            values[STATE] = self._states(merged, folded)
        points = np.where(exists, folded.point[np.where(exists, version, 0)], -1)
        taken = slice(None) if groups.each else groups.last
        after = _versions(values, points[taken], end[taken], exists[taken])
        was = self._before(before, found, stored)
        context = replace(rows, columns={}, key=(), value=(), state=None).take(row)
        if place.any():
            context = context.deeper(place)
        key = {name: column.take(pa.array(row)) for name, column in rows.keys.items()}
        times = {"window_start": window_column(start), "window_end": window_column(end)}
        context = context.with_columns(key | times)
        if not groups.each:
            context = context.take(groups.last)
        return changes(groups, context, was, after, self.old)

    def _before(self, before: Int64s, found: FoundSessions, stored: Mapping[str, pa.Array]) -> Versions:
        exists = before >= 0
        times = np.where(exists, found.end[np.maximum(before, 0)], -1) if len(found.end) else np.full(len(before), -1)
        if not self.old:
            return Versions({}, times, exists)
        values = self.fold.results(stored)
        if self.fold.travels:
            values[STATE] = pa.nulls(len(found.end), pa.binary())
        return _versions(values, before, times, exists)

    def _states(self, merged: Merged, folded: Folded) -> pa.Array:
        """The state at the end of each chain, at the points of values; null at others."""
        last = np.full(len(merged.level), -1)
        accepted = np.flatnonzero(~merged.late)
        last[merged.chain[accepted]] = accepted
        states = {name: column.take(pa.array(folded.chain_end)) for name, column in folded.states.items()}
        encoded = encoded_state(self.store, states, merged.end[last])
        points = len(next(iter(folded.values.values())))
        place = np.full(points, -1)
        place[folded.point[last]] = np.arange(len(last))
        return encoded.take(pa.array(np.maximum(place, 0), mask=place < 0))


def _first_ends(records: Records, gap: int, hidden: int) -> Int64s:
    """The earliest end (ms) of sessions that matter to the records of each key. Those up to `hidden` have expired."""
    earliest = np.full(records.keys, np.iinfo(np.int64).max)
    np.minimum.at(earliest, records.code, records.timestamp)
    ends: Int64s = np.maximum(np.maximum(earliest - gap, hidden), 0)
    return ends


def _events(merged: Merged) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """(row, place within what the row does, version, whether it is there then) of all changes, in order."""
    by_row, version = merged.removed
    accepted = np.flatnonzero(~merged.late)
    removed = np.bincount(by_row, minlength=len(merged.late))
    starts = np.cumsum(removed) - removed
    row = np.concatenate([by_row, accepted])
    place = np.concatenate([np.arange(len(by_row)) - starts[by_row], removed[accepted]])
    order = np.lexsort((place, row))
    exists = np.arange(len(row)) >= len(by_row)
    return row[order], place[order], np.concatenate([version, accepted])[order], exists[order]


def _of_versions(version: Int64s, of_rows: Int64s, of_stored: Int64s) -> Int64s:
    """A property of versions: that of the stored sessions, or that of the rows that made them."""
    return np.concatenate([of_stored[::-1], of_rows])[version + len(of_stored)]


def _versions(values: Mapping[str, pa.Array], points: Int64s, times: Int64s, exists: Bools) -> Versions:
    places = pa.array(np.maximum(points, 0), mask=points < 0)
    return Versions({name: column.take(places) for name, column in values.items()}, times, exists)


def _changed(code: Int64s, found: FoundSessions, merged: Merged, folded: Folded, codec: RowCodec) -> ChangedSessions:
    """The stored sessions that are gone, then those that are there at the end of the epoch."""
    gone = -1 - merged.replaced[merged.replaced < 0]
    there = ~merged.late
    there[merged.replaced[merged.replaced >= 0]] = False
    rows = np.flatnonzero(there)
    ends = pa.array(folded.chain_end[merged.chain[rows]])
    encoded = codec.encode([folded.states[name].take(ends) for name in codec.types], merged.end[rows])
    return ChangedSessions(
        np.concatenate([found.code[gone], code[rows]]),
        np.concatenate([found.start[gone], merged.start[rows]]),
        np.concatenate([found.end[gone], merged.end[rows]]),
        [*([None] * len(gone)), *encoded],
    )
