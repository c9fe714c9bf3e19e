"""Ids of tasks, and of the partitions of their stores.

A task has two ids. `TaskKey` names it in the log and lasts from version to version. `TaskId` numbers it in one version,
as Kafka Streams shows tasks and as assignors order them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

LATEST_OFFSET = -2
"""Instead of an offset or a lag: the task runs, so it is at the end of its changelogs, wherever that is by now."""

MAX_OFFSET_SUM = 2**63 - 1
"""The limit of an offset sum (KIP-441)."""


class TaskKey(NamedTuple):
    """A task among those of all applications, shown as `hourly_1`: by the names that commits use."""

    application: str
    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


def global_task(application: str) -> TaskKey:
    """The driver's own task in commits. No other task has a negative partition."""
    return TaskKey(application, "global", -1)


@dataclass(frozen=True, order=True)
class TaskId:
    """Subtopology number and partition, shown as `0_1` and ordered by both.

    `name`: the subtopology's name, which lasts if its number changes in another version. It is ignored in comparisons.
    """

    subtopology: int
    partition: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    def key(self, application: str) -> TaskKey:
        """The task's id in the log."""
        return TaskKey(application, self.name, self.partition)

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


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
