"""Window and session stores of processors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain
from typing import Any, ClassVar, NoReturn, overload

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
from .batches import SESSION, WINDOW, Columns, Item, Moment, OfEpoch, WithWords, column_of
from .epoch_rows import EpochRows, Found, StoreKeys, behind

# The rows of a processor's window or session store: by key and time, visible until they expire.

EVER = 2**62
"""Later than all times, ms."""

START, END = "_start", "_end"
"""The columns of the times of windows and sessions in batches: int64, ms."""

Times = tuple[int, ...]
"""The start of a window, or the end and the start of a session, ms."""


class TimedRows:
    """The rows of a window or session store. `names`: the columns of a key's times in batches, END before START.

    A row is visible while its first time is later than `clock` - retention. `clock`: the greatest first time of all
    rows that were put or deleted, ms; -1 before the first. `late`: how many rows had expired when they were put.
    """

    def __init__(self, store: Store, opened: EpochStore, moment: Moment, names: tuple[str, ...], clock: int) -> None:
        assert store.retention_ms is not None
        self.name = store.name
        self._retention = store.retention_ms
        self._length = segment_length(store.retention_ms)
        self._moment = moment
        self._names = names
        self.clock = clock
        self._keys = StoreKeys(store.name, parse_columns(store.key))
        self._rows = EpochRows(store.name, parse_columns(store.value), opened, moment)
        self._known: list[int] | None = None
        self.late = 0

    def put(self, key: Any, value: Any, *times: int) -> None:
        """Set the row of a key and times, with the timestamp of the current record or punctuation. None deletes it.

        A row that has expired already is not kept, and is counted in `late`.
        """
        self._moment.reject_outside()
        for time in times:
            if timestamp_error(time) is not None:
                self._reject_time(time)
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
        """(times, row) of a key with first times from `first` to `last`, both included, by time or in `reverse`."""
        encoded, first, last = self._keys.encoded(key), *self._span(first, last)
        bounds = [range_in_segment(at, encoded, first, last) for at in self._between(first, last, reverse)]
        parts = [self._rows.between(*each, reverse=reverse) for each in bounds]
        found = chain.from_iterable(chain.from_iterable(parts))
        return ((times_of(key, len(self._names)), row) for key, row, _ in found)

    def of_all(
        self, first: int, last: int, from_key: Any = None, to_key: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[Row, Times, Row]]:
        """(key, times, row) of all keys from `from_key` to `to_key`, with first times from `first` to `last`.

        Rows come by segment of time, and within a segment by key and times. None leaves a side open.
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
        """The iterator, valid in this epoch only."""
        return OfEpoch(found, self._moment)

    def get_columns(self, keys: Columns) -> pa.RecordBatch:
        """The rows of keys and times, see `EpochRows.get_columns`."""
        times = self._times(keys)
        there = (times >= 0).all(axis=1) & (times < EVER).all(axis=1) & (times[:, 0] >= self._oldest())
        # Invalid times are looked up as time 0, so that the result has a row for each key; `there` makes it null.
        return self._rows.get_columns(self._timed_keys(keys, np.where(there[:, np.newaxis], times, 0)), there)

    def put_columns(self, rows: Columns) -> None:
        """Set the rows of keys and times. `rows`: key, time and value columns, see `EpochRows.put_columns`."""
        given = len(rows)
        rows, times = self._kept(rows)
        self.late += given - len(rows)
        self._rows.put_columns(self._timed_keys(rows, times), rows, self._moment.timestamp)

    def delete_columns(self, keys: Columns) -> None:
        """Delete the rows of keys and times. `keys`: key and time columns."""
        keys, times = self._kept(keys)
        for key in self._timed_keys(keys, times):
            self._rows.put(key, None, self._moment.timestamp)

    def flush(self) -> None:
        """Write the epoch's changes to the store."""
        self._rows.flush()

    def _typed(self, found: Iterator[list[Found]], first: int, last: int) -> Iterator[tuple[Row, Times, Row]]:
        for batch in found:
            timed = [(key, times_of(key, len(self._names)), row) for key, row, _ in batch]
            there = [each for each in timed if first <= each[1][0] <= last]
            keys = self._keys.decoded([plain_key(key, len(self._names)) for key, _, _ in there])
            for key, (_, times, row) in zip(keys, there, strict=True):
                yield key, times, row

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """A span of time, limited to the times of visible rows."""
        return max(self.whole(first), self._oldest()), min(self.whole(last), EVER - 1)

    def _oldest(self) -> int:
        """The first time (ms) that has not expired."""
        return max(first_visible_start(self.clock, self._retention), 0)

    def whole(self, time: int) -> int:
        """Checks a time of a query, ms. Raises UnfitValueError."""
        if type(time) is not int:
            raise UnfitValueError(f"the store {self.name!r} is asked for times in whole ms, not for {time!r}")
        return time

    def _between(self, first: int, last: int, reverse: bool) -> list[int]:
        """The starts of the segments that may have rows with first times from `first` to `last`."""
        if first > last:
            return []
        segments = self._segments()
        start = bisect_left(segments, segment_of(first, self._length))
        found = segments[start : bisect_right(segments, last)]
        return found[::-1] if reverse else found

    def _kept(self, rows: Columns) -> tuple[Columns, Int64s]:
        """(The rows that have not expired, their times). Advances the clock, and notes the segments of these rows.

        The times are int64 of shape (rows, names). The result is the same as for one row after another: each row
        first advances the clock, and is kept if its first time is later than clock - retention.

        Example: clock 120, retention 60.

            first time   [ 100,    50,  160,    90]
            clocks       [ 120,   120,  160,   160]
            kept         [True, False, True, False]
        """
        times = self._times(rows)
        self._moment.reject_outside()
        wrong = times[invalid_timestamps(times)]
        if len(wrong):
            self._reject_time(int(wrong[0]))
        # As if the rows came one after another.
        clocks = np.maximum.accumulate(np.maximum(times[:, 0], self.clock))
        self.clock = int(clocks[-1]) if len(clocks) else self.clock
        kept = times[:, 0] > clocks - self._retention
        for segment in np.unique(times[kept, 0] // self._length).tolist():
            self._open(segment * self._length)
        return rows.filter(pa.array(kept)), times[kept]

    def _times(self, rows: Columns) -> Int64s:
        """The times of keys: int64 of shape (rows, names)."""
        columns = [column_of(rows, name, pa.int64(), self.name) for name in self._names]
        if any(column.null_count for column in columns):
            self._reject_time(None)
        return np.stack([to_numpy(column) for column in columns], axis=1)

    def _timed_keys(self, rows: Columns, times: Int64s) -> list[bytes]:
        pairs = zip(self._keys.encoded_many(rows), times.tolist(), strict=True)
        return [timed_key(self._length, key, *each) for key, each in pairs]

    def _reject_time(self, time: Any) -> NoReturn:
        what = f"a time in a key of the store {self.name!r}"
        raise UnfitValueError(f"{what} {timestamp_error(time)}: {time!r:.100}")

    def _open(self, time: int) -> None:
        """Add the segment of a time to the segments with rows."""
        segments, segment = self._segments(), segment_of(time, self._length)
        place = bisect_left(segments, segment)
        if place == len(segments) or segments[place] != segment:
            segments.insert(place, segment)

    def _segments(self) -> list[int]:
        """The starts of the segments with rows, sorted. Includes segments that lost their rows in this epoch."""
        if self._known is None:
            self._known = []
            lower = b""
            while (key := self._rows.first_key(lower)) is not None:
                self._known.append(segment_start(key))
                lower = first_window_key(self._known[-1] + self._length)
        return self._known


# Window and session stores as a processor uses them.


class TimedStore(WithWords):
    """The methods that window and session stores share. `_times`: the columns of a key's times, see `TimedRows`."""

    _times: ClassVar[tuple[str, ...]]

    def __init__(self, store: Store, opened: EpochStore, moment: Moment, clock: int) -> None:
        """`clock`: its value at the start of the epoch, see `TimedRows`."""
        self._rows = TimedRows(store, opened, moment, self._times, clock)

    def get_many(self, keys: Columns) -> pa.RecordBatch:
        """The rows of windows or sessions. `keys`: the key columns and `_start`, and `_end` of sessions.

        The result has the value columns and `_timestamp` (ms), one row for each key. All are null where no row exists.
        """
        return self._rows.get_columns(keys)

    def put_many(self, rows: Columns) -> None:
        """Set the rows of windows or sessions. `rows`: the columns of key and value, `_start`, and `_end` of sessions.

        The column `_timestamp` (ms) is optional. Without it, rows get the timestamp of the current record.
        """
        self._rows.put_columns(rows)

    def delete_many(self, keys: Columns) -> None:
        """Delete the rows of windows or sessions. `keys`: the key columns and `_start`, and `_end` of sessions."""
        self._rows.delete_columns(keys)

    @property
    def clock(self) -> int:
        """The clock of the store, ms, see `TimedRows`."""
        return self._rows.clock

    @property
    def late(self) -> int:
        """How many rows were not kept, because they had expired when they were put."""
        return self._rows.late

    def flush(self) -> None:
        """Write the epoch's changes to the store."""
        self._rows.flush()


class WindowStore(TimedStore):
    """Rows by key and window, with the methods of Kafka's `WindowStore`. All times are whole ms since 1970.

    A row is visible while its window's start is later than the latest start that was put - `retention`.
    """

    _words = WINDOW
    _times = (START,)

    def put(self, key: Any, value: Any, start: int) -> None:
        """Set the row of a key and of the window that starts at `start`. None deletes the row."""
        self._rows.put(key, value, start)

    @overload
    def fetch(self, key: Any, first: int) -> Row | None: ...

    @overload
    def fetch(self, key: Any, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, Row]]: ...

    def fetch(
        self, key: Any, first: int, last: int | None = None, *, reverse: bool = False
    ) -> Row | Iterator[tuple[int, Row]] | None:
        """With one time: the row of the window that starts at `first`, or None.

        With two times: (start, row) of the key's windows that start from `first` to `last`, both included, in the order
        of time. `reverse`: the latest first. Changes during the iteration are not visible.
        """
        if last is None:
            return self._rows.get(key, first)
        found = self._rows.of_key(key, first, last, reverse=reverse)
        return self._rows.of_epoch((start, row) for (start,), row in found)

    def fetch_all(
        self, first: int, last: int, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of the windows of all keys that start from `first` to `last`, both included.

        `from_key`, `to_key`: the range of keys, both included. None leaves a side open. Rows come by segment of time
        (`records/window_keys.py`), and within a segment by key and start. `reverse`: the opposite order.
        """
        found = self._rows.of_all(first, last, from_key, to_key, reverse=reverse)
        return self._rows.of_epoch((key, start, row) for key, (start,), row in found)

    def all(self, *, from_key: Any = None, to_key: Any = None, reverse: bool = False) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of all windows, optionally of a range of keys, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER, from_key=from_key, to_key=to_key, reverse=reverse)


class SessionStore(TimedStore):
    """Rows by key and session, with the methods of Kafka's `SessionStore`. All times are whole ms since 1970.

    A row is visible while its session's end is later than the latest end that was put - `retention`.
    """

    _words = SESSION
    _times = (END, START)

    def put(self, key: Any, value: Any, start: int, end: int) -> None:
        """Set the row of a key's session from `start` to `end`. None deletes the row."""
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
        """(start, end, row) of the key's sessions with end >= `earliest_end` and start <= `latest_start`, by end.

        `reverse`: the latest end first. Changes during the iteration are not visible.
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
        """`find_sessions` for all keys or a range of keys: (key, start, end, row) in the order of `fetch_all`."""
        latest = self._rows.whole(latest_start)
        found = self.fetch_all(earliest_end, EVER, from_key=from_key, to_key=to_key, reverse=reverse)
        return self._rows.of_epoch(each for each in found if each[1] <= latest)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[tuple[int, int, Row]]:
        """(start, end, row) of the key's sessions, by end. `reverse`: the latest end first."""
        return self.find_sessions(key, 0, EVER, reverse=reverse)

    def fetch_all(
        self, first: int, last: int, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of the sessions of all keys that end from `first` to `last`, both included.

        `from_key`, `to_key`: the range of keys, both included. None leaves a side open. Rows come by segment of time
        (`records/window_keys.py`), and within a segment by key and end. `reverse`: the opposite order.
        """
        found = self._rows.of_all(first, last, from_key, to_key, reverse=reverse)
        return self._rows.of_epoch((key, start, end, row) for key, (end, start), row in found)

    def all(
        self, *, from_key: Any = None, to_key: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of all sessions, optionally of a range of keys, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER, from_key=from_key, to_key=to_key, reverse=reverse)

    def put_many(self, rows: Columns) -> None:
        """See `TimedStore`. Raises UnfitValueError for a session that ends before its start."""
        bounds = zip(
            *(column_of(rows, name, pa.int64(), self._rows.name).to_pylist() for name in (START, END)), strict=True
        )
        for start, end in bounds:
            self._bounds(start, end)
        super().put_many(rows)

    def _bounds(self, start: int, end: int) -> tuple[int, int]:
        if type(start) is int and type(end) is int and end < start:
            raise UnfitValueError(f"a session of {self._rows.name!r} cannot end at {end}, before its start at {start}")
        return end, start
