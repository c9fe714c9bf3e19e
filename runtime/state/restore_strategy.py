"""How a store gets from nothing, or from an old copy, to where the commits say it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ..log.ranges import LogRange
from .changelog import Slice


@dataclass(frozen=True)
class RestoreRequest:
    """One store of one task to be brought from `position` to `target` (of its changelog).

    `ranges`: the committed ranges of the changelog that lie in between, in any order.
    """

    store: str
    partition: int
    position: int
    target: int
    ranges: tuple[LogRange, ...]


class RestoreStrategy(Protocol):
    """Decides which committed records bring a store to its target, and in which steps."""

    def slices(self, request: RestoreRequest) -> Iterator[Slice]:
        """Adjacent slices from `position` to `target`. Each is applied in one transaction, between epochs of the
        tasks that run: so short ones. Raises TaskCorruptedError when the ranges do not reach from one to the other.
        """
        ...
