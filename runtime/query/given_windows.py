"""The rows of window and session stores of processors for queries: each of them has its times in its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..records.keys.row_steps import first_row_key
from ..records.keys.timed import times_of
from ..topology import Store

Encoded = tuple[bytes, bytes]


def times_in_keys(store: Store) -> int:
    """How many times the keys of a store end with: the start of a window, or the end and the start of a session."""
    return 2 if store.type == "session" else 1


@dataclass(frozen=True)
class WantedWindows:
    """The windows of a store that start within bounds (ms, the second one excluded) and have not expired: they start,
    or as sessions end, at `oldest` or later. `words`: see `times_in_keys`.
    """

    start: int | None
    end: int | None
    oldest: int | None
    words: int

    def lower(self, store: Store) -> bytes | None:
        """The first key of the first segment that may have some: no session ends before it starts."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The row of a key, if it is wanted."""
        times = times_of(key, self.words)
        there = self.oldest is None or times[0] >= self.oldest
        if there and (self.start is None or times[-1] >= self.start) and (self.end is None or times[-1] < self.end):
            yield key, value
