"""Ids of tasks, store partitions and topic partitions.

A task has two ids. `TaskKey` identifies it in the log, by name, across versions of a topology. `TaskId` identifies it
in one version, by the number of the subtopology. Kafka Streams shows tasks like that, and assignors order them by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

LATEST_OFFSET = -2
"""A value in place of an offset or a lag: the task is running, so it is at the end of its changelogs."""

UNKNOWN_OFFSET = -4
"""An offset of a store without known applied records. Kafka Streams' `OFFSET_UNKNOWN`."""

MAX_OFFSET_SUM = 2**63 - 1
"""The maximum offset sum (KIP-441)."""


class TaskKey(NamedTuple):
    """A task of any application, as in commits. Shown as `hourly_1`: subtopology and partition."""

    application: str
    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


def global_task(application: str) -> TaskKey:
    """The key of the driver's own task in commits. No other task has a negative partition."""
    return TaskKey(application, "global", -1)


@dataclass(frozen=True, order=True)
class TaskId:
    """Subtopology number and partition, shown as `0_1` and ordered by both.

    `name`: the name of the subtopology, which stays if its number changes in another version. Comparisons ignore it.
    """

    subtopology: int
    partition: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    def key(self, application: str) -> TaskKey:
        """The id of the task in the log."""
        return TaskKey(application, self.name, self.partition)

    @classmethod
    def parse(cls, text: str, name: str = "") -> Self:
        """The inverse of `str`. Raises ValueError for any other text."""
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
