"""A session store as a processor sees it: rows by key and by the start and end of their session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from ....python_functions.objects import Row
from ....python_functions.values import UnfitValueError
from ....topology import Store
from ...task_epoch import EpochStore
from ..columns import Columns, column_of
from ..moment import Moment
from ..unknown import SESSION
from .timed_rows import END, EVER, START, TimedRows


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
        segments of time (`records/keys/timed.py`), and in each by key and end; `reverse`: just the other way round.
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
