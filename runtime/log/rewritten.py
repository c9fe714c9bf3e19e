"""Records that take the place of what commits list: merged, compacted, expired, or repaired."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..records.arrays import Int64s


@dataclass(frozen=True)
class Rewritten:
    """What is left of a lane's records with positions from `start` up to `end`, and offsets from `start_offset` up to
    `end_offset`: the places of all ranges whose place it takes, the first to the last.

    `records`: with all their columns, maybe none. `positions`, `offsets`: those that the records have always had.
    """

    partition: int
    lane: int
    start: int
    end: int
    start_offset: int
    end_offset: int
    records: pa.Table
    positions: Int64s
    offsets: Int64s
