"""The rows of stores with segments for queries: each session or sliding window of a segment as a row of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..records.keys.row_steps import first_row_key
from ..records.keys.session_segments import unpacked
from ..records.keys.windows import first_window_key, without_window
from ..topology import Store

Encoded = tuple[bytes, bytes]


@dataclass(frozen=True)
class WantedSessions:
    """The sessions of a store that start within bounds (ms, the second one excluded) and end at `oldest` or later."""

    start: int | None
    end: int | None
    oldest: int | None

    def lower(self, store: Store) -> bytes | None:
        """The first key of a segment that may have some: no session ends before it starts."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The sessions of a segment. Their keys are start, end, and the key without the window (`split_sessions`)."""
        plain = without_window(key)
        for end, start, row in unpacked(value):
            there = self.oldest is None or end >= self.oldest
            if there and (self.start is None or start >= self.start) and (self.end is None or start < self.end):
                yield first_window_key(start) + first_window_key(end) + plain, row
