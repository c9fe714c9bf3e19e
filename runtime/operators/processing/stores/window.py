"""A window store as a processor sees it: rows by key and by the start of their window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

from ....python_functions.objects import Row
from ....topology import Store
from ...task_epoch import EpochStore
from ..moment import Moment
from .timed_rows import EVER, TimedRows


class WindowStore:
    """Rows by key and window; the words are those of Kafka's `WindowStore`, all times whole ms since 1970.

    A row is there while its window's start is later than stream time - `retention`.
    """

    def __init__(self, store: Store, opened: EpochStore, moment: Moment) -> None:
        self._rows = TimedRows(store, opened, moment, words=1)

    def put(self, key: Any, value: Any, start: int) -> None:
        """Set the row of a key and of the window that starts at `start`; None deletes it."""
        self._rows.put(key, value, start)

    @overload
    def fetch(self, key: Any, first: int) -> Row | None: ...

    @overload
    def fetch(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Row]]: ...

    def fetch(self, key: Any, first: int, last: int | None = None) -> Row | Iterator[tuple[int, Row]] | None:
        """With one time: the row of the window that starts then, or None.

        With two: (start, row) of the key's windows that start from `first` to `last`, both included, in the order of
        time. What changes meanwhile is not seen.
        """
        if last is None:
            return self._rows.get(key, first)
        return ((start, row) for (start,), row in self._rows.of_key(key, first, last))

    def fetch_all(self, first: int, last: int) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of the windows of all keys that start from `first` to `last`, both included.

        They come half a retention after another, and in each by key and start.
        """
        return ((key, start, row) for key, (start,), row in self._rows.of_all(first, last))

    def all(self) -> Iterator[tuple[Row, int, Row]]:
        """(key, start, row) of all windows, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER)

    @property
    def late(self) -> int:
        """How many rows were not kept, as they had expired when they were put."""
        return self._rows.late

    def flush(self) -> None:
        """Give the epoch's changes to the store."""
        self._rows.flush()
