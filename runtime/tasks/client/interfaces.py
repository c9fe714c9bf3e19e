"""What a client's tasks need of others: its stores, the reader of their changelogs, and the sequence of commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from ...log.commit.records import TaskCommit
from ...task_id import StoreId, TaskId
from ..task import Task


class RemoteStores(Protocol):
    """The stores of a client's tasks, which lie where the client is."""

    def note(self, tasks: Iterable[Task]) -> None:
        """Epochs have brought the stores of those of the tasks that run to the tasks' offsets."""
        ...

    def checkpoint(self, tasks: Collection[Task]) -> None:
        """Make stores durable as they are, and write their positions down."""
        ...

    def close(self, tasks: Collection[Task], *, clean: bool) -> Mapping[TaskId, Exception]:
        """Let go of the tasks' stores; when clean, make them durable first. The errors there were."""
        ...


class ChangelogReader(Protocol):
    """Brings the stores of a client's tasks forward by their changelogs."""

    def register(self, task: Task) -> Mapping[str, int]:
        """Begin with a task; where its stores stand. Raises LockError while its stores are worked on."""
        ...

    def unregister(self, tasks: Collection[TaskId]) -> None:
        """Leave these tasks alone from now on."""
        ...

    def has(self, task: TaskId) -> bool:
        """Whether a task is registered."""
        ...

    def suspect(self, tasks: Collection[TaskId]) -> None:
        """Once these tasks are registered again, read their stores before anything else, and wipe those that cannot be
        read or are ahead of the commits."""
        ...

    def restore(self) -> Mapping[TaskId, Exception]:
        """Go on by a bounded step with what is registered, active tasks first; what went wrong with which task.

        Raises ClientLostError where the client is gone.
        """
        ...

    def offsets(self, task: TaskId) -> Mapping[str, int]:
        """Where the stores of a registered task stand: store -> changelog records applied."""
        ...

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """What is there of all tasks, whoever has them: store -> changelog records applied. Without those tasks whose
        stores are worked on just now."""
        ...

    def completed(self) -> Collection[StoreId]:
        """The stores of active tasks that stand where the commits say."""
        ...


class Commits(Protocol):
    """The application's sequence of commits."""

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        """Commit what tasks have come to, all or nothing; the commit's number."""
        ...
