"""A session store during one epoch: finds the sessions of keys, and changes single ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ...records.session_segments import Session, packed, segments_of, unpacked
from ...records.window_keys import first_window_key, window_keys, without_window
from ..task_epoch import EpochStore

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


@dataclass(frozen=True)
class Change:
    """A session that is there afterwards, with its encoded row, or that is not (None). Times in ms."""

    key: bytes
    start: int
    end: int
    row: bytes | None


class SessionStore:
    """The sessions, or sliding windows, of an epoch's store by encoded key. `length`: of its segments, ms."""

    def __init__(self, store: EpochStore, length: int) -> None:
        self._store = store
        self._length = length
        self._read: dict[bytes, list[Session]] = {}

    def find(self, keys: Sequence[bytes], first_end: Int64s, last_end: int) -> FoundSessions:
        """The sessions of each key that end from `first_end` (one for each key, ms) to `last_end`."""
        length = self._length
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
                self._read[key] = unpacked(value)
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

    def change(self, changes: Iterable[Change]) -> None:
        """Change single sessions, all of an epoch at once; of several changes of one the last counts."""
        listed = list(changes)
        starts = segments_of(np.array([each.end for each in listed], np.int64), self._length)
        keys = self._keys([each.key for each in listed], starts)
        self._load(keys)
        changed: dict[bytes, dict[tuple[int, int], bytes | None]] = {}
        for key, each in zip(keys, listed, strict=True):
            changed.setdefault(key, {})[each.end, each.start] = each.row
        written: list[tuple[bytes, bytes | None, int]] = []
        for key in sorted(changed):
            before = self._read[key]
            rows = {(end, start): row for end, start, row in before} | changed[key]
            after = sorted((*bounds, row) for bounds, row in rows.items() if row is not None)
            if after:
                written.append((key, packed(after), after[-1][0]))
            elif before:
                written.append((key, None, before[-1][0]))
        self._store.put_many(
            [key for key, _, _ in written],
            [value for _, value, _ in written],
            np.array([time for _, _, time in written], np.int64),
        )

    def _keys(self, keys: Sequence[bytes], starts: Int64s) -> list[bytes]:
        found: list[bytes] = window_keys(starts, pa.array(keys, pa.binary())).to_pylist()
        return found

    def _load(self, keys: Sequence[bytes]) -> list[list[Session]]:
        """The segments with these keys, each of which is read once in an epoch."""
        missing = sorted({key for key in keys if key not in self._read})
        for key, value in zip(missing, self._store.get_many(missing), strict=True):
            self._read[key] = [] if value is None else unpacked(value)
        return [self._read[key] for key in keys]
