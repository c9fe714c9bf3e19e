"""The rows of the stores of a join of streams for queries: of each record, whose key has its time among others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ..records.keys.joins import split_side_keys
from ..records.keys.row_steps import first_row_key
from ..topology import Store

Encoded = tuple[bytes, bytes]


@dataclass(frozen=True)
class WantedRecords:
    """The records of a store from `start` and `oldest` on and before `end`, ms."""

    start: int | None
    end: int | None
    oldest: int | None

    def lower(self, store: Store) -> bytes | None:
        """The first key of the first segment that may have some."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The record of a key, if it is wanted."""
        time = int(split_side_keys(pa.array([key], pa.binary()))[1][0])
        late_enough = all(bound is None or time >= bound for bound in (self.start, self.oldest))
        if late_enough and (self.end is None or time < self.end):
            yield key, value
