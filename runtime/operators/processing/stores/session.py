"""A session store as a processor sees it: rows by key and by the start and end of their session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....python_functions.objects import Row
from ....python_functions.values import UnfitValueError
from ....topology import Store
from ...task_epoch import EpochStore
from ..moment import Moment
from .timed_rows import EVER, TimedRows


class SessionStore:
    """Rows by key and session; the words are those of Kafka's `SessionStore`, all times whole ms since 1970.

    A row is there while its session's end is later than stream time - `retention`.
    """

    def __init__(self, store: Store, opened: EpochStore, moment: Moment) -> None:
        self._name = store.name
        self._rows = TimedRows(store, opened, moment, words=2)

    def put(self, key: Any, value: Any, start: int, end: int) -> None:
        """Set the row of a key's session from `start` to `end`; None deletes it."""
        self._rows.put(key, value, *self._bounds(start, end))

    def remove(self, key: Any, start: int, end: int) -> None:
        """Delete the row of a key's session."""
        self.put(key, None, start, end)

    def fetch_session(self, key: Any, start: int, end: int) -> Row | None:
        """The row of a key's session, or None."""
        return self._rows.get(key, *self._bounds(start, end))

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[int, int, Row]]:
        """(start, end, row) of the key's sessions that end at `earliest_end` or later, and start at `latest_start` or
        earlier, in the order of their ends. What changes meanwhile is not seen.
        """
        found, latest = self._rows.of_key(key, earliest_end, EVER), self._rows.whole(latest_start)
        return ((start, end, row) for (end, start), row in found if start <= latest)

    def fetch(self, key: Any) -> Iterator[tuple[int, int, Row]]:
        """(start, end, row) of the key's sessions, in the order of their ends."""
        return self.find_sessions(key, 0, EVER)

    def fetch_all(self, first: int, last: int) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of the sessions of all keys that end from `first` to `last`, both included.

        They come half a retention after another, and in each by key and end.
        """
        return ((key, start, end, row) for key, (end, start), row in self._rows.of_all(first, last))

    def all(self) -> Iterator[tuple[Row, int, int, Row]]:
        """(key, start, end, row) of all sessions, in the order of `fetch_all`."""
        return self.fetch_all(0, EVER)

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
