"""The id of a task: subtopology and partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self


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
