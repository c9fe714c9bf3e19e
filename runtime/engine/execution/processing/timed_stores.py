"""Window and session stores of processors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
import pyarrow as pa

from ....ir.topology import Store
from ....python_functions.objects import Row
from ....python_functions.results import UnfitValueError
from ....records.arrays import Int64s, to_numpy
from ....records.schema import invalid_timestamps, timestamp_error
from ....records.types import parse_columns
from ....records.window_keys import (
    first_visible_start,
    first_window_key,
    plain_key,
    range_in_segment,
    segment_length,
    segment_of,
    segment_start,
    timed_key,
    times_of,
)
from ..node import EpochStore
from .batches import SESSION, WINDOW, Columns, Item, Moment, OfEpoch, column_of
from .epoch_rows import EpochRows, Found, StoreKeys, behind

# The rows of a window or session store of processors: found by key and time, and gone when their time is past.

EVER = 2**62
"""Later than all times, ms."""

START, END = "_start", "_end"
"""The columns of the times of windows and sessions, where many are given or asked for."""

Times = tuple[int, ...]
"""The start of a window, or the end and the start of a session, ms."""


class TimedRows:
    """`words`: how many times a row has. It is there while the first of them is later than the clock - retention.

    `clock`: the greatest first time that a row was put with, or deleted, ms; -1 before that.
    """

    def __init__(self, store: Store, opened: EpochStore, moment: Moment, words: int, clock: int) -> None:
        assert store.retention_ms is not None
        self._name = store.name
        self._retention = store.retention_ms
        self._length = segment_length(store.retention_ms)
        self._moment = moment
        self._words = words
        self.clock = clock
        self._keys = StoreKeys(store.name, parse_columns(store.key))
        self._rows = EpochRows(store.name, parse_columns(store.value), opened, moment)
        self._known: list[int] | None = None
        self.late = 0

    def put(self, key: Any, value: Any, *times: int) -> None:
        """Set the row of a key and times, with the timestamp of the record or punctuation at work; None deletes it.

        A row that would be gone at once is not kept, and counted (`late`).
        """
        self._moment.refuse_outside()
        for time in times:
            if timestamp_error(time) is not None:
                self._refuse_time(time)
        encoded, row = self._keys.encoded(key), self._rows.row(value)
        self.clock = max(self.clock, times[0])
        if times[0] < self._oldest():
            self.late += row is not None
            return
        self._open(times[0])
        self._rows.put(timed_key(self._length, encoded, *times), row, self._moment.timestamp)

    def get(self, key: Any, *times: int) -> Row | None:
        """The row of a key and times, or None."""
        encoded = self._keys.encoded(key)
        if not all(0 <= self.whole(time) < EVER for time in times) or times[0] < self._oldest():
            return None
        found = self._rows.get(timed_key(self._length, encoded, *times))
        return None if found is None else found[0]

    def of_key(self, key: Any, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[Times, Row]]:
        """(times, row) of a key whose first times are from `first` to `last`, in the order of times or in `reverse`."""
        encoded, first, last = self._keys.encoded(key), *self._span(first, last)
        bounds = [range_in_segment(at, encoded, first, last) for at in self._between(first, last, reverse)]
        parts = [self._rows.between(*each, reverse=reverse) for each in bounds]
        found = chain.from_iterable(chain.from_iterable(parts))
        return ((times_of(key, self._words), row) for key, row, _ in found)

    def of_all(
        self, first: int, last: int, from_key: Any = None, to_key: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[Row, Times, Row]]:
        """(key, times, row) of all keys from `from_key` to `to_key`, likewise: in the order of segments, and there of
        keys and times. A key that is None leaves its side open.
        """
        lowest = b"" if from_key is None else self._keys.encoded(from_key)
        beyond = None if to_key is None else behind(self._keys.encoded(to_key))
        first, last = self._span(first, last)
        parts = []
        for at in self._between(first, last, reverse):
            segment = first_window_key(at)
            upper = first_window_key(at + self._length) if beyond is None else segment + beyond
            parts.append(self._rows.between(segment + lowest, upper, reverse=reverse))
        return self._typed(chain.from_iterable(parts), first, last)

    def of_epoch(self, found: Iterator[Item]) -> Iterator[Item]:
        """What a store gives of these rows, in this epoch alone."""
        return OfEpoch(found, self._moment)

    def get_columns(self, keys: Columns, names: Sequence[str]) -> pa.RecordBatch:
        """The rows of keys and times, see `EpochRows.get_columns`. `names`: of the columns of the times."""
        times = self._times(keys, names)
        there = (times >= 0).all(axis=1) & (times < EVER).all(axis=1) & (times[:, 0] >= self._oldest())
        # A time that no row has is asked for as any other, so that there is a place for the answer.
        return self._rows.get_columns(self._timed_keys(keys, np.where(there[:, np.newaxis], times, 0)), there)

    def put_columns(self, rows: Columns, names: Sequence[str]) -> None:
        """Set the rows of keys and times, by their columns and those of the value, see `EpochRows.put_columns`."""
        given = len(rows)
        rows, times = self._kept(rows, names)
        self.late += given - len(rows)
        self._rows.put_columns(self._timed_keys(rows, times), rows, self._moment.timestamp)

    def delete_columns(self, keys: Columns, names: Sequence[str]) -> None:
        """Delete the rows of keys and times, by their columns."""
        keys, times = self._kept(keys, names)
        for key in self._timed_keys(keys, times):
            self._rows.put(key, None, self._moment.timestamp)

    def flush(self) -> None:
        """Give the epoch's changes to the store."""
        self._rows.flush()

    def _typed(self, found: Iterator[list[Found]], first: int, last: int) -> Iterator[tuple[Row, Times, Row]]:
        for batch in found:
            timed = [(key, times_of(key, self._words), row) for key, row, _ in batch]
            there = [each for each in timed if first <= each[1][0] <= last]
            keys = self._keys.decoded([plain_key(key, self._words) for key, _, _ in there])
            for key, (_, times, row) in zip(keys, there, strict=True):
                yield key, times, row

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """What is there of a span of time."""
        return max(self.whole(first), self._oldest()), min(self.whole(last), EVER - 1)

    def _oldest(self) -> int:
        """The first time, ms, that has not expired by now."""
        return max(first_visible_start(self.clock, self._retention), 0)

    def whole(self, time: int) -> int:
        """A time that something is asked by. Raises UnfitValueError."""
        if type(time) is not int:
            raise UnfitValueError(f"the store {self._name!r} is asked for times in whole ms, not for {time!r}")
        return time

    def _between(self, first: int, last: int, reverse: bool) -> list[int]:
        """The segments that may have rows with first times from `first` to `last`."""
        if first > last:
            return []
        segments = self._segments()
        start = bisect_left(segments, segment_of(first, self._length))
        found = segments[start : bisect_right(segments, last)]
        return found[::-1] if reverse else found

    def _kept(self, rows: Columns, names: Sequence[str]) -> tuple[Columns, Int64s]:
        """Those of some rows to change that have not expired, and their times. Notes their segments."""
        times = self._times(rows, names)
        self._moment.refuse_outside()
        wrong = times[invalid_timestamps(times)]
        if len(wrong):
            self._refuse_time(int(wrong[0]))
        # As if they were changed one after another.
        clocks = np.maximum.accumulate(np.maximum(times[:, 0], self.clock))
        self.clock = int(clocks[-1]) if len(clocks) else self.clock
        kept = times[:, 0] > clocks - self._retention
        for segment in np.unique(times[kept, 0] // self._length).tolist():
            self._open(segment * self._length)
        return rows.filter(pa.array(kept)), times[kept]

    def _times(self, rows: Columns, names: Sequence[str]) -> Int64s:
        """The times of keys, a row of them for each."""
        columns = [column_of(rows, name, pa.int64(), self._name) for name in names]
        if any(column.null_count for column in columns):
            self._refuse_time(None)
        return np.stack([to_numpy(column) for column in columns], axis=1)

    def _timed_keys(self, rows: Columns, times: Int64s) -> list[bytes]:
        pairs = zip(self._keys.encoded_many(rows), times.tolist(), strict=True)
        return [timed_key(self._length, key, *each) for key, each in pairs]

    def _refuse_time(self, time: Any) -> NoReturn:
        what = f"a time in a key of the store {self._name!r}"
        raise UnfitValueError(f"{what} {timestamp_error(time)}: {time!r:.100}")

    def _open(self, time: int) -> None:
        """Note that the segment of a time has rows."""
        segments, segment = self._segments(), segment_of(time, self._length)
        place = bisect_left(segments, segment)
        if place == len(segments) or segments[place] != segment:
            segments.insert(place, segment)

    def _segments(self) -> list[int]:
        """The starts of the segments that have rows, or have had them in this epoch, in order."""
        if self._known is None:
            self._known = []
            lower = b""
            while (key := self._rows.first_key(lower)) is not None:
                self._known.append(segment_start(key))
                lower = first_window_key(self._known[-1] + self._length)
        return self._known


# A window store as a processor sees it: rows by key and by the start of their window.


class WindowStore:
    """Rows by key and window; the words are those of Kafka's `WindowStore`, all times whole ms since 1970.

    A row is there while its window's start is later than the latest one that was put - `retention`.
    """

    if not TYPE_CHECKING:  # a type checker knows which there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say which words there are. Raises AttributeError."""
            raise WINDOW.unknown(name)

    def __init__(self, store: Store, opened: EpochStore, moment: Moment, clock: int) -> None:
        """`clock`: where it has come to, see `TimedRows`."""
        self._rows = TimedRows(store, opened, moment, words=1, clock=clock)

    def put(self, key: Any, value: Any, start: int) -> None:
        """Set the row of a key and of the window that starts at `start`; None deletes it."""
        self._rows.put(key, value, start)

    @overload
    def fetch(self, key: Any, first: int) -> Row | None: ...

    @overload
    def fetch(self, key: Any, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, Row]]: ...

    def fetch(
        self, key: Any, first: int, last: int | None = None, *, reverse: bool = False
    ) -> Row | Iterator[tuple[int, Row]] | None:
        """With one time: the row of the window that starts then, or None.

        With two: (start, row) of the key's windows that start from `first` to `last`, both included, in the order of
        time; `reverse`: the latest first. What changes meanwhile is not seen.
        """
        if last is None:
            return self._rows.get(key, first)
        found = self._rows.of_key(key, first, last, reverse=reverse)
        return self._rows.of_epoch((start, row) for (start,), row in found)

    def fetch_all(
        self, first: int, last: int, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of the windows of all keys that start from `first` to `last`, both included.

        `from_key`, `to_key`: only of keys between these, both included; None leaves a side open. They come by
        segments of time (`records/window_keys.py`), and in each by key and start; `reverse`: just the other way round.
        """
        found = self._rows.of_all(first, last, from_key, to_key, reverse=reverse)
        return self._rows.of_epoch((key, start, row) for key, (start,), row in found)

    def all(self, *, from_key: Any = None, to_key: Any = None, reverse: bool = False) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of all windows, or of those of keys between two, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER, from_key=from_key, to_key=to_key, reverse=reverse)

    def get_many(self, keys: Columns) -> pa.RecordBatch:
        """The rows of windows, by the key's columns and `_start`: the value's columns and `_timestamp`, all null where
        there is none.
        """
        return self._rows.get_columns(keys, [START])

    def put_many(self, rows: Columns) -> None:
        """Set the rows of windows, given by the columns of key and value and `_start`.

        `_timestamp`: of each row, ms; without it that of the last record at work.
        """
        self._rows.put_columns(rows, [START])

    def delete_many(self, keys: Columns) -> None:
        """Remove the rows of windows, given by the columns of the key and `_start`."""
        self._rows.delete_columns(keys, [START])

    @property
    def clock(self) -> int:
        """Where it has come to."""
        return self._rows.clock

    @property
    def late(self) -> int:
        """How many rows were not kept, as they had expired when they were put."""
        return self._rows.late

    def flush(self) -> None:
        """Give the epoch's changes to the store."""
        self._rows.flush()


# A session store as a processor sees it: rows by key and by the start and end of their session.


class SessionStore:
    """Rows by key and session; the words are those of Kafka's `SessionStore`, all times whole ms since 1970.

    A row is there while its session's end is later than the latest one that was put - `retention`.
    """

    if not TYPE_CHECKING:  # a type checker knows which there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say which words there are. Raises AttributeError."""
            raise SESSION.unknown(name)

    def __init__(self, store: Store, opened: EpochStore, moment: Moment, clock: int) -> None:
        """`clock`: where it has come to, see `TimedRows`."""
        self._name = store.name
        self._rows = TimedRows(store, opened, moment, words=2, clock=clock)

    def put(self, key: Any, value: Any, start: int, end: int) -> None:
        """Set the row of a key's session from `start` to `end`; None deletes it."""
        self._rows.put(key, value, *self._bounds(start, end))

    def remove(self, key: Any, start: int, end: int) -> None:
        """Delete the row of a key's session."""
        self.put(key, None, start, end)

    def fetch_session(self, key: Any, start: int, end: int) -> Row | None:
        """The row of a key's session, or None."""
        return self._rows.get(key, *self._bounds(start, end))

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, Row]]:
        """(start, end, row) of the key's sessions that end at `earliest_end` or later, and start at `latest_start` or
        earlier, in the order of their ends; `reverse`: the last one first. What changes meanwhile is not seen.
        """
        found, latest = self._rows.of_key(key, earliest_end, EVER, reverse=reverse), self._rows.whole(latest_start)
        return self._rows.of_epoch((start, end, row) for (end, start), row in found if start <= latest)

    def find_all_sessions(
        self,
        earliest_end: int,
        latest_start: int,
        *,
        from_key: Any = None,
        to_key: Any = None,
        reverse: bool = False,
    ) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of such sessions of all keys, or of those between two, in the order of `fetch_all`."""
        latest = self._rows.whole(latest_start)
        found = self.fetch_all(earliest_end, EVER, from_key=from_key, to_key=to_key, reverse=reverse)
        return self._rows.of_epoch(each for each in found if each[1] <= latest)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[tuple[int, int, Row]]:
        """(start, end, row) of the key's sessions, in the order of their ends; `reverse`: the last one first."""
        return self.find_sessions(key, 0, EVER, reverse=reverse)

    def fetch_all(
        self, first: int, last: int, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of the sessions of all keys that end from `first` to `last`, both included.

        `from_key`, `to_key`: only of keys between these, both included; None leaves a side open. They come by
        segments of time (`records/window_keys.py`), and in each by key and end; `reverse`: just the other way round.
        """
        found = self._rows.of_all(first, last, from_key, to_key, reverse=reverse)
        return self._rows.of_epoch((key, start, end, row) for key, (end, start), row in found)

    def all(
        self, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of all sessions, or of those of keys between two, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER, from_key=from_key, to_key=to_key, reverse=reverse)

    def get_many(self, keys: Columns) -> pa.RecordBatch:
        """The rows of sessions, by the key's columns, `_start` and `_end`: the value's columns and `_timestamp`, all
        null where there is none.
        """
        return self._rows.get_columns(keys, [END, START])

    def put_many(self, rows: Columns) -> None:
        """Set the rows of sessions, given by the columns of key and value, `_start` and `_end`.

        `_timestamp`: of each row, ms; without it that of the last record at work.
        """
        ends = zip(*(column_of(rows, name, pa.int64(), self._name).to_pylist() for name in (START, END)), strict=True)
        for start, end in ends:
            self._bounds(start, end)
        self._rows.put_columns(rows, [END, START])

    def delete_many(self, keys: Columns) -> None:
        """Remove the rows of sessions, given by the columns of the key, `_start` and `_end`."""
        self._rows.delete_columns(keys, [END, START])

    @property
    def clock(self) -> int:
        """Where it has come to."""
        return self._rows.clock

    @property
    def late(self) -> int:
        """How many rows were not kept, as they had expired when they were put."""
        return self._rows.late

    def flush(self) -> None:
        """Give the epoch's changes to the store."""
        self._rows.flush()

    def _bounds(self, start: int, end: int) -> tuple[int, int]:
        if type(start) is int and type(end) is int and end < start:
            raise UnfitValueError(f"a session of {self._name!r} cannot end at {end}, before its start at {start}")
        return end, start
