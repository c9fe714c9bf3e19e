"""A table of sliding windows: a record is a part of all windows of its key that reach over it.

Which windows these are, `finding` says; how their records become rows, a `SlidingFold`. Here they are read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ...records.keys.encoding import encode_keys
from ...records.keys.session_segments import segment_length
from ...records.kinds import Kind
from ...state.codec import RowCodec
from ...timed_parts import timed
from ...topology import Store
from ...windows import SlidingWindow
from ..declarations import Emit
from ..hidden_state import STATE, encoded_state, hide_state
from ..keyed.changes import Versions, changes
from ..keyed.codes import by_key, bytes_of, group_by
from ..keyed.groups import Groups
from ..keyed.session_changes import ChangedSessions
from ..keyed.session_store import FoundSessions, SessionStore
from ..keyed.stored_rows import StoredRows, stored_columns
from ..rows import Rows, null_keys
from ..task_epoch import TaskEpoch
from ..windows import window_column
from .finding import find
from .folding import Folded
from .updates import StoredWindows, Updates


class SlidingFold(Protocol):
    """How the records of windows become rows. `travels`: whether another operator stores them, see `hidden_state`."""

    @property
    def travels(self) -> bool: ...  # noqa: D102

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> Folded:
        """Fold the rows into their windows. `stored`: the columns of the stored windows; `each`: with a value for each
        update, otherwise for the last one of each window. Raises RowFailedError.
        """

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The value columns of stored windows."""


@dataclass(frozen=True)
class SlidingTable:
    """Folds by key and sliding window. `emit`, `old`: see `Aggregate`.

    Null keys and null values are dropped and counted, by `step`; of late records each closed window that they belong
    to. A row's timestamp is the greatest of its records'.
    """

    store: Store
    fold: SlidingFold
    emit: Emit
    old: bool
    step: str

    def run(self, came: Rows, epoch: TaskEpoch) -> Rows:
        """The changes that records make. Raises RowFailedError."""
        window, kept = self.store.window, self.store.kept_ms
        assert isinstance(window, SlidingWindow)
        assert kept is not None
        rows = self._usable(came, epoch)
        code, first = group_by([*rows.keys.values()])
        distinct = encode_keys([column.take(pa.array(first)) for column in rows.keys.values()])
        code, _, ordered = by_key(code, first, distinct)
        keys = bytes_of(ordered)
        clock = epoch.clock(self.store.name)
        store = SessionStore(epoch.store(self.store), segment_length(window))
        latest = epoch.clock(self._latest)
        there = store.find(
            keys, _first_ends(code, len(keys), rows.timestamp, window, clock), clock + window.difference_ms
        )
        stored = StoredRows.of(stored_columns(self.store), there.row)
        with timed("windows"):
            known = StoredWindows(there.code, there.start, stored.timestamp, latest)
            found = find(code, rows.timestamp, known, window, kept, clock)
        epoch.advance(self.store.name, found.clock)
        epoch.advance(self._latest, found.latest)
        epoch.let_pass(self.store.name)
        epoch.let_pass(self._latest, window.difference_ms)
        epoch.drop(self.step, "late", found.late)
        with timed("fold"):
            each = self.emit == "each_update"
            folded = self.fold.fold(rows, found, stored.columns, each)
        if not self.fold.travels:
            store.change(keys, self._changed(found, folded))
        return hide_state(self._changes(rows, found, folded, there, stored))

    @property
    def _latest(self) -> str:
        """The clock of the greatest start of a window: by that, and not by time itself, windows cannot be found any
        more. Where a record is at time t, its windows start at t less the difference.
        """
        return f"{self.store.name}.latest"

    def _usable(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        null = null_keys(list(rows.keys.values()), len(rows))
        empty = rows.kind == Kind.TOMBSTONE
        epoch.drop(self.step, "null_key", int(null.sum()))
        epoch.drop(self.step, "null_value", int((empty & ~null).sum()))
        return rows.filter(~null & ~empty)

    def _changed(self, found: Updates, folded: Folded) -> ChangedSessions:
        """The windows that are other ones now."""
        window = folded.window
        codec = RowCodec(stored_columns(self.store))
        encoded = codec.encode([folded.states[name] for name in codec.types], folded.timestamp)
        start = found.start[window]
        assert isinstance(self.store.window, SlidingWindow)
        return ChangedSessions(found.key[window], start, start + self.store.window.difference_ms, encoded)

    def _changes(self, rows: Rows, found: Updates, folded: Folded, there: FoundSessions, stored: StoredRows) -> Rows:
        """The changes of the table, in the order of the records and of what each of them does."""
        assert isinstance(self.store.window, SlidingWindow)
        window = folded.window
        exists = window < len(there.start)
        groups = Groups(folded.group, len(window), self.emit == "each_update", exists)
        values = dict(folded.values)
        if self.fold.travels:
            values[STATE] = self._states(groups, folded)
        taken = slice(None) if groups.each else groups.last
        after = Versions(values, found.timestamp[taken], np.ones(groups.points, np.bool_))
        before = self._before(np.where(exists, window, -1), stored)
        place = np.arange(len(found.row)) - np.searchsorted(found.row, found.row)
        row, start, place = found.row[taken], found.start[found.window[taken]], place[taken]
        bare = replace(rows, columns={}, key=(), value=(), state=None).take(row)
        key = {name: column.take(pa.array(row)) for name, column in rows.keys.items()}
        end = start + self.store.window.difference_ms
        times = {"window_start": window_column(start), "window_end": window_column(end)}
        context = bare.deeper(place).with_columns(key | times)
        return changes(groups, context, before, after, self.old)

    def _before(self, place: Int64s, stored: StoredRows) -> Versions:
        """The rows of windows when the epoch began. `place`: in the store; -1 for those that were not there."""
        index = pa.array(np.maximum(place, 0), mask=place < 0)
        exists = place >= 0
        times = np.where(exists, stored.timestamp[np.maximum(place, 0)], -1) if len(stored.timestamp) else place
        values: Mapping[str, pa.Array] = {}
        if self.old:
            values = {name: column.take(index) for name, column in self.fold.results(stored.columns).items()}
            if self.fold.travels:
                values |= {STATE: pa.nulls(len(place), pa.binary())}
        return Versions(values, times, exists)

    def _states(self, groups: Groups, folded: Folded) -> pa.Array:
        """The state of each window, at its last update; null at others."""
        encoded = encoded_state(self.store, folded.states, folded.timestamp)
        if not groups.each:
            return encoded
        place = np.full(groups.points, -1)
        place[groups.last] = np.arange(groups.count)
        return encoded.take(pa.array(np.maximum(place, 0), mask=place < 0))


def _first_ends(code: Int64s, keys: int, timestamps: Int64s, window: SlidingWindow, clock: int) -> Int64s:
    """The earliest end (ms) of windows that matter to the records of each key. Earlier records are late."""
    first = np.full(keys, np.iinfo(np.int64).max)
    np.minimum.at(first, code, timestamps)
    earliest = clock - window.grace_ms - window.difference_ms
    ends: Int64s = np.maximum(np.maximum(first, earliest) - window.difference_ms, 0)
    return ends
