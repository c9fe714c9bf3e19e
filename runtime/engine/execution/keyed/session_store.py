"""Stores of sessions and sliding windows, in segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s
from ....records.window_keys import (
    Session,
    first_window_key,
    pack_segment,
    pack_segments,
    segments_of,
    unpack_segment,
    window_keys,
    without_window,
)
from ..node import EpochStore
from .groups import bytes_of

# A store row is a segment: the sessions, or sliding windows, of one key that end in one span of time. This part turns
# changes of sessions into changes of segments. Their encoding is in `records.window_keys`.


@dataclass(frozen=True)
class Sessions:
    """Sessions or changes of sessions, one entry for each. `code`: number of the key. `start`, `end`: ms.

    `row`: the encoded row. As a change, None deletes the session, and the last of several changes counts.
    """

    code: Int64s
    start: Int64s
    end: Int64s
    row: Sequence[bytes | None] = ()


@dataclass(frozen=True)
class ChangedSegments:
    """Changed segments, sorted by start and key. `code`: number of the key. `start`: ms.

    `begin`: index of each segment's first change in `sessions`, then the number of changes. `sessions`: the changes,
    sorted by end and start in each segment, each session once.

    Example: segments of 10 ms. Key 0 changes the session 1 to 5 twice, and the session 11 to 12. Key 1 changes 4 to 6.

        changes = Sessions(code=[0, 0, 1, 0], start=[1, 1, 4, 11], end=[5, 5, 6, 12], row=[a, b, c, d])
        ChangedSegments.of(changes, length=10)
            code        [0, 1, 0]
            start       [0, 0, 10]
            begin       [0, 1, 2, 3]
            sessions    code [0, 1, 0], start [1, 4, 11], end [5, 6, 12], row [b, c, d]
    """

    code: Int64s
    start: Int64s
    begin: Int64s
    sessions: Sessions

    @classmethod
    def of(cls, changes: Sessions, length: int) -> ChangedSegments:
        """Group changes by segment. `length`: of segments, ms."""
        columns = (segments_of(changes.end, length), changes.code, changes.end, changes.start)
        order = np.lexsort(columns[::-1])
        differs = np.logical_or.reduce([np.diff(column[order], append=-1) != 0 for column in columns])
        order = order[differs]
        segment, code, end, start = (column[order] for column in columns)
        heads = np.flatnonzero((np.diff(segment, prepend=-1) != 0) | (np.diff(code, prepend=-1) != 0))
        row = list(map(changes.row.__getitem__, order.tolist()))
        begin = np.append(heads, len(order))
        return cls(code[heads], segment[heads], begin, Sessions(code, start, end, row))

    def values(self, before: Sequence[Sequence[Session]]) -> tuple[list[bytes | None], Int64s]:
        """(The new value of each segment, its greatest end in ms). An empty one has None, and the end that it had.

        `before`: the sessions of each segment before the changes.
        """
        sessions, begin = self.sessions, self.begin
        values: list[bytes | None] = [*pack_segments(sessions.start, sessions.end, sessions.row, begin)]
        last: Int64s = sessions.end[begin[1:] - 1]
        # Most segments are new and have no deletions, so their changes are all their sessions.
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
        """The changes of a segment: (end, start) -> encoded row, or None. `place`: index of the segment."""
        here = range(self.begin[place], self.begin[place + 1])
        sessions = self.sessions
        return {(int(sessions.end[at]), int(sessions.start[at])): sessions.row[at] for at in here}


# A session store during one epoch: finds the sessions of keys, and changes single sessions.

MOST_READS = 50_000
"""The most segments to read by key in an epoch; beyond this, all segments in the range of time are scanned.

With a short gap and a long grace period, late records may belong to many segments. Most of these do not exist, so a
scan of the existing ones is faster."""


class SessionStore:
    """The sessions, or sliding windows, of a store during an epoch, by encoded key. `length`: of its segments, ms."""

    def __init__(self, store: EpochStore, length: int) -> None:
        self._store = store
        self._length = length
        self._read: dict[bytes, list[Session]] = {}
        self._last_end: int | None = None

    def find(self, keys: Sequence[bytes], first_end: Int64s, last_end: int) -> Sessions:
        """The sessions of each key with `first_end` <= end <= `last_end`, sorted by key, end and start.

        `first_end`: one for each key, ms. `last_end`: the latest end of all stored sessions, ms.
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
        return Sessions(np.array(code, np.int64), np.array(starts, np.int64), np.array(ends, np.int64), list(rows))

    def _segments(self, keys: Sequence[bytes], first: Int64s, counts: Int64s) -> Iterable[tuple[int, list[Session]]]:
        """(Number of the key, a segment). Reads `counts` segments of each key, from the segment number `first` on.

        Example: counts [2, 1] and first [5, 7] read the segments 5 and 6 of key 0, and the segment 7 of key 1.
        """
        of_key = np.repeat(np.arange(len(keys)), counts)
        place = np.arange(len(of_key)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = (first[of_key] + place) * self._length
        found = self._load(self._keys([keys[number] for number in of_key.tolist()], starts))
        return zip(of_key.tolist(), found, strict=True)

    def _scanned(self, keys: Sequence[bytes], first_start: int, last_start: int) -> Iterable[tuple[int, list[Session]]]:
        """The same by a scan of all stored segments with starts in this range, ms, both inclusive."""
        numbers = {key: number for number, key in enumerate(keys)}
        found: list[tuple[int, list[Session]]] = []
        for key, value in self._store.range(first_window_key(first_start), first_window_key(last_start + 1)):
            number = numbers.get(without_window(key))
            if number is not None:
                self._read[key] = unpack_segment(value)
                found.append((number, self._read[key]))
        # The sort is stable: segments of one key stay in the order of time.
        return sorted(found, key=itemgetter(0))

    def rows(self, keys: Sequence[bytes], starts: Int64s, ends: Int64s) -> list[bytes | None]:
        """The encoded rows of single sessions at the start of the epoch; None for a missing one. Times in ms."""
        segments = self._load(self._keys(keys, segments_of(ends, self._length)))
        wanted = zip(ends.tolist(), starts.tolist(), strict=True)
        return [
            next((row for end, start, row in segment if (end, start) == bounds), None)
            for segment, bounds in zip(segments, wanted, strict=True)
        ]

    def change(self, keys: Sequence[bytes], changes: Sessions) -> None:
        """Change sessions. Call it once an epoch. `keys`: encoded, ascending; `changes.code` holds indexes of them."""
        segments = ChangedSegments.of(changes, self._length)
        names = bytes_of(window_keys(segments.start, pa.array(keys, pa.binary()).take(pa.array(segments.code))))
        before = self._before(names, segments.start)
        values, last = segments.values(before)
        changed = [place for place, value in enumerate(values) if value is not None or before[place]]
        self._store.put_many(
            [names[place] for place in changed], [values[place] for place in changed], last[np.array(changed, np.int64)]
        )

    def _before(self, names: Sequence[bytes], starts: Int64s) -> Sequence[list[Session]]:
        """The sessions of segments. `names`: their store keys. Segments that cannot exist yet are not read."""
        if self._last_end is None:
            return self._load(names)
        # Store keys are in the order of starts, so the segments that start later are the last ones.
        there = int(np.searchsorted(starts, self._last_end, side="right"))
        return [*self._load(names[:there]), *([[]] * (len(names) - there))]

    def _keys(self, keys: Sequence[bytes], starts: Int64s) -> list[bytes]:
        return bytes_of(window_keys(starts, pa.array(keys, pa.binary())))

    def _load(self, keys: Sequence[bytes]) -> list[list[Session]]:
        """The segments with these store keys. A segment is read once an epoch."""
        missing = sorted({key for key in keys if key not in self._read})
        for key, value in zip(missing, self._store.get_many(missing), strict=True):
            self._read[key] = [] if value is None else unpack_segment(value)
        return [self._read[key] for key in keys]
