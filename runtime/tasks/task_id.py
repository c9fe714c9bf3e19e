"""Ids of tasks and of their stores' partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

MAX_OFFSET_SUM = 2**63 - 1
"""Where an offset sum stops growing (KIP-441)."""


@dataclass(frozen=True, order=True)
class TaskId:
    """Subtopology number and partition, shown as `0_1`, ordered by both.

    `name`: the subtopology's name, which lasts where its number may change from version to version; it takes no part
    in comparing.
    """

    subtopology: int
    partition: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str, name: str = "") -> Self:
        """The id that is shown as `text`. Raises ValueError for any other text."""
        subtopology, _, partition = text.partition("_")
        task = cls(int(subtopology), int(partition), name)
        if str(task) != text:
            raise ValueError(f"not a task id: {text!r}")
        return task


@dataclass(frozen=True, order=True)
class StoreId:
    """One partition of one store of an application."""

    store: str
    partition: int

    def __str__(self) -> str:
        return f"{self.store}/{self.partition}"
