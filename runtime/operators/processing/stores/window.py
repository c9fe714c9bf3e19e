"""A window store as a processor sees it: rows by key and by the start of their window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, overload

import pyarrow as pa

from ....python_functions.objects import Row
from ....topology import Store
from ...task_epoch import EpochStore
from ..columns import Columns
from ..moment import Moment
from ..unknown import WINDOW
from .timed_rows import EVER, START, TimedRows


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
        segments of time (`records/keys/timed.py`), and in each by key and start; `reverse`: just the other way round.
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
