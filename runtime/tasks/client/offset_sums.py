"""How far a client's copy of a task is, as one number (KIP-441)."""

from __future__ import annotations

from collections.abc import Iterable

from ....errors import HeadwaterError
from ...task_id import LATEST_OFFSET, MAX_OFFSET_SUM

UNKNOWN_OFFSET = -4
"""Instead of an offset: nothing is known of the store, which counts as empty. Kafka Streams' `OFFSET_UNKNOWN`."""


class OffsetError(HeadwaterError):
    """An offset that cannot be one. `offset`: it."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a store cannot stand at offset {offset}")
        self.offset = offset


def offset_sum(offsets: Iterable[int]) -> int | None:
    """The sum, at most MAX_OFFSET_SUM; LATEST_OFFSET if one is; None where there are none.

    Raises OffsetError for any other negative number.
    """
    given = list(offsets)
    known = [offset for offset in given if offset != UNKNOWN_OFFSET]
    if LATEST_OFFSET in known:
        return LATEST_OFFSET
    for offset in known:
        if offset < 0:
            raise OffsetError(offset)
    return min(sum(known), MAX_OFFSET_SUM) if given else None
