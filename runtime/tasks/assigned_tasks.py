"""Tasks that are assigned to a client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..log.commit.records import TaskCommit
from ..task_id import StoreId, TaskId, TopicPartition
from .errors import IllegalTaskStateError, LockError, TaskCorruptedError, TaskMigratedError
from .state import State, TaskType
from .stream_task import StandbyTask, StreamTask
from .task import Task, TaskTimeoutError

# The tasks that one client has in one role, by the state they are in.
#
# Source: `AssignedTasks` of Kafka Streams before 2.6, with the rules of its later `Tasks` where they differ. There a
# task was moved from one registry to the next; here its own state says in which registry it is, so it can never be in
# two.

T = TypeVar("T", StreamTask, StandbyTask)


@dataclass(frozen=True)
class TaskDescription:
    """A task as people are shown it. `offsets`: store -> changelog records applied."""

    id: TaskId
    type: TaskType
    state: State
    offsets: Mapping[str, int]


class AssignedTasks(Generic[T]):
    """All that visits tasks does so in the order of their ids.

    `previous`: the ids of the tasks that ran when tasks were suspended last.
    """

    def __init__(self) -> None:
        self._tasks: dict[TaskId, T] = {}
        self._in_order: tuple[T, ...] | None = ()
        self.previous: frozenset[TaskId] = frozenset()

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[T]:
        if self._in_order is None:  # sorted once for each change: the loop goes through all tasks many times a second
            self._in_order = tuple(self._tasks[task_id] for task_id in sorted(self._tasks))
        return iter(self._in_order)

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, task: TaskId) -> T | None:
        """The task of this id."""
        return self._tasks.get(task)

    def in_state(self, *states: State) -> list[T]:
        """The tasks that are in one of the states."""
        return [task for task in self if task.state in states]

    @property
    def created(self) -> list[T]:
        """Tasks that do not have their stores yet."""
        return self.in_state(State.CREATED)

    @property
    def restoring(self) -> list[T]:
        """Tasks whose stores are being restored."""
        return self.in_state(State.RESTORING)

    @property
    def running(self) -> list[T]:
        """Tasks that process, or follow their changelogs."""
        return self.in_state(State.RUNNING)

    @property
    def suspended(self) -> list[T]:
        """Tasks that another assignment closes or resumes."""
        return self.in_state(State.SUSPENDED)

    @property
    def running_by_partition(self) -> Mapping[TopicPartition, T]:
        """Input partition -> the running task that reads it."""
        return {partition: task for task in self.running for partition in task.inputs}

    @property
    def restoring_by_partition(self) -> Mapping[TopicPartition, T]:
        """Input partition -> the restoring task that reads it."""
        return {partition: task for task in self.restoring for partition in task.inputs}

    def running_task_for(self, partition: TopicPartition) -> T | None:
        """The running task that reads a partition."""
        return self.running_by_partition.get(partition)

    @property
    def uninitialized_partitions(self) -> frozenset[TopicPartition]:
        """What the created tasks that have stores read: nothing is taken of it yet."""
        return frozenset(partition for task in self.created if task.stores for partition in task.inputs)

    @property
    def all_running(self) -> bool:
        """Whether no task waits for its stores. A suspended task waits for an assignment, not for its stores."""
        return not self.in_state(State.CREATED, State.RESTORING)

    def add(self, task: T) -> None:
        """Take up a task that was just created. Raises IllegalTaskStateError where one of its id is here."""
        if task.id in self._tasks:
            raise IllegalTaskStateError(task.id, "be added", f"here already, and {self._tasks[task.id].state.value}")
        self._tasks[task.id] = task
        self._in_order = None

    def remove(self, task: T) -> None:
        """Forget a task that has ended. Raises IllegalTaskStateError unless it is closed or suspended."""
        if task.state not in (State.CLOSED, State.SUSPENDED):
            raise IllegalTaskStateError(task.id, "be removed", task.state.value)
        del self._tasks[task.id]
        self._in_order = None

    def initialize_new(self, open_stores: Callable[[T], Mapping[str, int]], now_ms: int) -> Mapping[TaskId, Exception]:
        """Give each created task its stores: `open_stores` gets them, and tells at which positions they stand.

        A task whose stores are locked, or not to be reached in time, stays created and is tried again next time. What
        else went wrong, by task; TaskTimeoutError for one whose stores cannot be reached for too long.
        """
        failed: dict[TaskId, Exception] = {}
        for task in self.created:
            try:
                task.initialize_if_needed(open_stores(task))
                task.timeout.clear()
            except LockError:
                continue
            except TimeoutError as error:
                try:
                    task.timeout.start(now_ms, error)
                except TaskTimeoutError as ended:
                    failed[task.id] = ended
            except Exception as error:  # whatever a store's backend raises
                failed[task.id] = error
        return failed

    def update_restored(self, stores: Collection[StoreId]) -> None:
        """`stores`: all that stand where the commits say. A task runs once that is so for all of its stores."""
        waiting = self.restoring
        restored = set(stores) if waiting else set()
        for task in waiting:
            if restored.issuperset(StoreId(store, task.id.partition) for store in task.stores):
                self.transition_to_running(task)

    def transition_to_running(self, task: T) -> None:
        """Have a restored task process records."""
        task.complete_restoration()
        task.timeout.clear()

    def suspend(self, tasks: Collection[TaskId]) -> None:
        """Suspend those of the tasks that are here, whatever state they are in."""
        self.previous = frozenset(task.id for task in self.running)
        for task in self:
            if task.id in tasks:
                task.suspend()

    def non_assigned_suspended(self, assignment: Mapping[TaskId, frozenset[TopicPartition]]) -> list[T]:
        """The suspended tasks to close: `assignment` does not have them, or has them with other inputs."""
        return [task for task in self.suspended if assignment.get(task.id) != task.inputs]

    def maybe_resume_suspended(self, task_id: TaskId, inputs: frozenset[TopicPartition]) -> bool:
        """Resume a task if it is suspended and has these inputs; whether it was so."""
        task = self._tasks.get(task_id)
        if task is None or task.state is not State.SUSPENDED or task.inputs != inputs:
            return False
        task.resume()
        return True

    def apply_to_running(self, action: Callable[[T], None]) -> None:
        """Do the same with every running task.

        A task that has migrated is closed and removed, and TaskMigratedError raised at once. Of other errors all tasks
        are visited first, then the first one is raised.
        """
        first: Exception | None = None
        for task in self.running:
            try:
                action(task)
            except TaskMigratedError:
                self.close_zombie(task)
                raise
            except Exception as error:  # whatever the action raises
                first = first or error
        if first is not None:
            raise first

    def close_zombie(self, task: T) -> None:
        """End and forget a task that another owner has taken over: nothing of it is committed."""
        task.suspend()
        task.close_dirty()
        self.remove(task)

    def clear(self) -> None:
        """Forget all tasks."""
        self._tasks.clear()
        self._in_order = None

    def describe(self) -> tuple[TaskDescription, ...]:
        """All tasks."""
        return tuple(TaskDescription(task.id, task.type, task.state, dict(task.offsets)) for task in self)


# What a client's tasks need of others: its stores, the reader of their changelogs, and the sequence of commits.


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


# Decides which of several errors is raised when all tasks are visited first.


class Failures:
    """Errors of tasks, of which the worst one is raised.

    From the worst: an error that is not about ownership or state (the last of them, noted with its task), then
    TaskMigratedError (the last), then TaskCorruptedError (one, with all its tasks). Kafka Streams has the same order
    when it handles an assignment.
    """

    def __init__(self) -> None:
        self._fatal: Exception | None = None
        self._migrated: TaskMigratedError | None = None
        self._corrupted: dict[TaskId, TaskCorruptedError] = {}

    def add(self, task: TaskId, error: Exception) -> None:
        """Record the error of `task`."""
        match error:
            case TaskMigratedError():
                self._migrated = error
            case TaskCorruptedError():
                self._corrupted.update(dict.fromkeys(error.tasks or {task}, error))
            case _:
                error.add_note(f"in task {task}")
                self._fatal = error

    def raise_worst(self) -> None:
        """Raise the worst error, if there is any."""
        if self._fatal is not None:
            raise self._fatal
        if self._migrated is not None:
            raise self._migrated
        if self._corrupted:
            reasons = dict.fromkeys(error.reason for error in self._corrupted.values())
            ways_out = dict.fromkeys(error.way_out for error in self._corrupted.values())
            way_out = next(iter(ways_out)) if len(ways_out) == 1 else None
            raise TaskCorruptedError("; ".join(reasons), tasks=self._corrupted, way_out=way_out)
