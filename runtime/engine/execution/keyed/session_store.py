"""Stores of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s
from ....records.session_keys import Session, pack_segment, pack_segments, segments_of, unpack_segment
from ....records.window_keys import first_window_key, window_keys, without_window
from ..node import EpochStore
from .groups import bytes_of

# Changes of sessions, or sliding windows, as changes of the segments that hold them (`records.session_segments`).


@dataclass(frozen=True)
class ChangedSessions:
    """Sessions that are there afterwards, with their encoded rows, or that are not (None). `code`: the number of the
    key. Times in ms. Of several changes of one the last counts.
    """

    code: Int64s
    start: Int64s
    end: Int64s
    row: Sequence[bytes | None]


@dataclass(frozen=True)
class ChangedSegments:
    """The segments with changes, by start and key: `code` of the key, `start` (ms). `begin`: where the changes of each
    one begin in `sessions`, and at last where they end. Those are by end and start in each, and differ.
    """

    code: Int64s
    start: Int64s
    begin: Int64s
    sessions: ChangedSessions

    @classmethod
    def of(cls, changes: ChangedSessions, length: int) -> ChangedSegments:
        """`length`: of segments, ms."""
        columns = (segments_of(changes.end, length), changes.code, changes.end, changes.start)
        order = np.lexsort(columns[::-1])
        differs = np.logical_or.reduce([np.diff(column[order], append=-1) != 0 for column in columns])
        order = order[differs]
        segment, code, end, start = (column[order] for column in columns)
        heads = np.flatnonzero((np.diff(segment, prepend=-1) != 0) | (np.diff(code, prepend=-1) != 0))
        row = list(map(changes.row.__getitem__, order.tolist()))
        begin = np.append(heads, len(order))
        return cls(code[heads], segment[heads], begin, ChangedSessions(code, start, end, row))

    def values(self, before: Sequence[Sequence[Session]]) -> tuple[list[bytes | None], Int64s]:
        """(The value of each segment, None for one that is empty now; its greatest end, or the one that it had.)

        `before`: the sessions of each one so far.
        """
        sessions, begin = self.sessions, self.begin
        values: list[bytes | None] = [*pack_segments(sessions.start, sessions.end, sessions.row, begin)]
        last: Int64s = sessions.end[begin[1:] - 1]
        # Most segments are new, and none of their sessions is gone: that is all of them.
        others = np.fromiter(map(bool, before), np.bool_, len(before))
        if None in sessions.row:
            others |= np.logical_or.reduceat([row is None for row in sessions.row], begin[:-1])
        for place in np.flatnonzero(others).tolist():
            rows = {(end, start): row for end, start, row in before[place]} | self._changes(place)
            after = sorted((*bounds, row) for bounds, row in rows.items() if row is not None)
            values[place] = pack_segment(after) if after else None
            if after or before[place]:
                last[place] = (after or before[place])[-1][0]
        return values, last

    def _changes(self, place: int) -> dict[tuple[int, int], bytes | None]:
        """The changes of a segment by end and start."""
        here = range(self.begin[place], self.begin[place + 1])
        sessions = self.sessions
        return {(int(sessions.end[at]), int(sessions.start[at])): sessions.row[at] for at in here}


# A session store during one epoch: finds the sessions of keys, and changes single ones.

MOST_READS = 50_000
"""Most segments that are asked for by key in an epoch. Where late records may belong to more, as with a short gap and a
long grace period, most of them are not there, and it is faster to go through those that are."""


@dataclass(frozen=True)
class FoundSessions:
    """Sessions of keys, sorted by key, end and start. `code`: the number of the key. `row`: the encoded rows."""

    code: Int64s
    start: Int64s
    end: Int64s
    row: list[bytes]


class SessionStore:
    """The sessions, or sliding windows, of an epoch's store by encoded key. `length`: of its segments, ms."""

    def __init__(self, store: EpochStore, length: int) -> None:
        self._store = store
        self._length = length
        self._read: dict[bytes, list[Session]] = {}
        self._last_end: int | None = None

    def find(self, keys: Sequence[bytes], first_end: Int64s, last_end: int) -> FoundSessions:
        """The sessions of each key that end from `first_end` (one for each key, ms) to `last_end`, later than which
        no stored one ends.
        """
        length, self._last_end = self._length, last_end
        first = first_end // length
        counts = np.maximum(last_end // length - first + 1, 0)
        segments = (
            self._scanned(keys, int(first.min()) * length, last_end)
            if counts.sum() > MOST_READS
            else self._segments(keys, first, counts)
        )
        found = [
            (number, start, end, row)
            for number, segment in segments
            for end, start, row in segment
            if first_end[number] <= end <= last_end
        ]
        code, starts, ends, rows = zip(*found, strict=True) if found else ((), (), (), ())
        return FoundSessions(np.array(code, np.int64), np.array(starts, np.int64), np.array(ends, np.int64), list(rows))

    def _segments(self, keys: Sequence[bytes], first: Int64s, counts: Int64s) -> Iterable[tuple[int, list[Session]]]:
        """(The number of the key, a segment) for `counts` segments of each key, from the one with number `first`."""
        of_key = np.repeat(np.arange(len(keys)), counts)
        place = np.arange(len(of_key)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = (first[of_key] + place) * self._length
        found = self._load(self._keys([keys[number] for number in of_key.tolist()], starts))
        return zip(of_key.tolist(), found, strict=True)

    def _scanned(self, keys: Sequence[bytes], first_start: int, last_start: int) -> Iterable[tuple[int, list[Session]]]:
        """The same of all segments that are there and start within these times (ms)."""
        numbers = {key: number for number, key in enumerate(keys)}
        found: list[tuple[int, list[Session]]] = []
        for key, value in self._store.range(first_window_key(first_start), first_window_key(last_start + 1)):
            number = numbers.get(without_window(key))
            if number is not None:
                self._read[key] = unpack_segment(value)
                found.append((number, self._read[key]))
        # Those of one key stay in the order of time.
        return sorted(found, key=itemgetter(0))

    def rows(self, keys: Sequence[bytes], starts: Int64s, ends: Int64s) -> list[bytes | None]:
        """The rows of single sessions, as they were when the epoch began; None where there is none."""
        segments = self._load(self._keys(keys, segments_of(ends, self._length)))
        wanted = zip(ends.tolist(), starts.tolist(), strict=True)
        return [
            next((row for end, start, row in segment if (end, start) == bounds), None)
            for segment, bounds in zip(segments, wanted, strict=True)
        ]

    def change(self, keys: Sequence[bytes], changes: ChangedSessions) -> None:
        """Change single sessions, all of an epoch at once. `keys`: ascending, by their numbers."""
        segments = ChangedSegments.of(changes, self._length)
        names = bytes_of(window_keys(segments.start, pa.array(keys, pa.binary()).take(pa.array(segments.code))))
        before = self._before(names, segments.start)
        values, last = segments.values(before)
        changed = [place for place, value in enumerate(values) if value is not None or before[place]]
        self._store.put_many(
            [names[place] for place in changed], [values[place] for place in changed], last[np.array(changed, np.int64)]
        )

    def _before(self, names: Sequence[bytes], starts: Int64s) -> Sequence[list[Session]]:
        """The sessions of segments with these keys and starts (ms), which are read where there may be any."""
        if self._last_end is None:
            return self._load(names)
        # By the order of keys, those that start later are behind all others.
        there = int(np.searchsorted(starts, self._last_end, side="right"))
        return [*self._load(names[:there]), *([[]] * (len(names) - there))]

    def _keys(self, keys: Sequence[bytes], starts: Int64s) -> list[bytes]:
        return bytes_of(window_keys(starts, pa.array(keys, pa.binary())))

    def _load(self, keys: Sequence[bytes]) -> list[list[Session]]:
        """The segments with these keys, each of which is read once in an epoch."""
        missing = sorted({key for key in keys if key not in self._read})
        for key, value in zip(missing, self._store.get_many(missing), strict=True):
            self._read[key] = [] if value is None else unpack_segment(value)
        return [self._read[key] for key in keys]
