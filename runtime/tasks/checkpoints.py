"""When the positions of a task's stores are due to be written down."""

from __future__ import annotations

from collections.abc import Mapping

MOST_UNWRITTEN = 10_000
"""Changelog records that may be applied, over all stores of a task, before their positions are written down again.
Source: `OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT` of Kafka Streams 4.0."""


MOST_UNWRITTEN_BYTES = 16 << 20
"""Or bytes: what is not on the disk is in memory, and is lost with its process."""


class Checkpoints:
    """Positions as they were written down last: a process that ends without warning restores from there.

    Nothing is ever written for a task whose stores have not been opened: it would tell that they are empty.
    """

    def __init__(self) -> None:
        self._written: Mapping[str, int] | None = None

    def begin(self) -> None:
        """The stores have been opened. What they stand at counts as not written."""
        self._written = {}

    def forget(self) -> None:
        """The stores are gone."""
        self._written = None

    def due(self, offsets: Mapping[str, int], *, enforce: bool, size: int = 0) -> bool:
        """Whether to write `offsets` down (store -> changelog records applied).

        `enforce`: however few have come. Otherwise the records that came since, summed over the stores, decide, or
        their `size` in bytes, where it is known.
        """
        if self._written is None:
            return False
        written = self._written
        records = sum(offset - written.get(store, 0) for store, offset in offsets.items())
        return enforce or records > MOST_UNWRITTEN or size > MOST_UNWRITTEN_BYTES

    def wrote(self, offsets: Mapping[str, int]) -> None:
        """These have been written down."""
        self._written = dict(offsets)
