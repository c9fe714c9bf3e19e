"""How a store gets from nothing, or from an old copy, to where the commits say it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ..log.records import Segment
from .changelog import Slice


@dataclass(frozen=True)
class RestoreRequest:
    """One store of one task to be brought from `position` to `target` (changelog records applied).

    `segments`: the committed changelog segments that hold records in between, in any order.
    """

    store: str
    partition: int
    position: int
    target: int
    segments: tuple[Segment, ...]


class RestoreStrategy(Protocol):
    """Decides which committed records bring a store to its target, and in which steps."""

    def slices(self, request: RestoreRequest) -> Iterator[Slice]:
        """Adjacent slices from `position` to `target`. Each is applied in one transaction, between epochs of the
        tasks that run: so short ones. Raises TaskCorruptedError when the segments do not reach from one to the other.
        """
        ...
