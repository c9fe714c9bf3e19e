"""Which committed changelog records bring a store, empty or an old copy, to its committed position.

The protocol is here and not in `restore`, where it is used, because `chosen_plugins.py`, which lies below `restore`,
checks plugins by it. The built-in strategy is `restore/changelog_strategy.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ..log.ranges import LogRange
from .catch_up import Slice


@dataclass(frozen=True)
class RestoreRequest:
    """A request to bring one store of one task from `position` to `target` of its changelog.

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
        """Adjacent slices from `position` to `target`. One transaction applies one or several of them, whole.

        Short ones are best (`RECORDS_PER_SLICE`): between two of them the work may stop and leave the client to epochs.
        Raises TaskCorruptedError if the ranges do not reach from `position` to `target`.
        """
        ...
