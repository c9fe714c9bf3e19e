"""The tasks assigned to a client, and the interfaces that a task manager works with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from ..log.commit.records import TaskCommit
from ..task_id import StoreId, TaskId, TopicPartition
from .errors import IllegalTaskStateError, LockError, TaskCorruptedError, TaskMigratedError
from .state import State
from .task import StandbyTask, StreamTask, Task, TaskTimeoutError

# The tasks of one client in one role, by state.
#
# Source: `AssignedTasks` of Kafka Streams before 2.6, with the rules of its later `Tasks` where they differ. Kafka
# Streams moved a task from one registry to the next. Here the task's own state names the registry, so a task can never
# be in two.

T = TypeVar("T", StreamTask, StandbyTask)


class AssignedTasks(Generic[T]):
    """The tasks of one client in one role. Every iteration visits them in the order of their ids.

    `previous`: the ids of the tasks that were running at the last suspension.
    """

    def __init__(self) -> None:
        self._tasks: dict[TaskId, T] = {}
        self._in_order: tuple[T, ...] | None = ()
        self.previous: frozenset[TaskId] = frozenset()

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[T]:
        if self._in_order is None:  # sorted once per change: the epoch loop visits all tasks many times a second
            self._in_order = tuple(self._tasks[task_id] for task_id in sorted(self._tasks))
        return iter(self._in_order)

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, task: TaskId) -> T | None:
        """The task with this id, or None."""
        return self._tasks.get(task)

    def in_state(self, *states: State) -> list[T]:
        """The tasks in one of these states."""
        return [task for task in self if task.state in states]

    @property
    def created(self) -> list[T]:
        """Tasks without stores so far."""
        return self.in_state(State.CREATED)

    @property
    def restoring(self) -> list[T]:
        """Tasks whose stores are being restored."""
        return self.in_state(State.RESTORING)

    @property
    def running(self) -> list[T]:
        """Tasks that process records or follow their changelogs."""
        return self.in_state(State.RUNNING)

    @property
    def suspended(self) -> list[T]:
        """Tasks that the next assignment closes or resumes."""
        return self.in_state(State.SUSPENDED)

    @property
    def running_by_partition(self) -> Mapping[TopicPartition, T]:
        """Input partition -> running task that reads it."""
        return {partition: task for task in self.running for partition in task.inputs}

    @property
    def restoring_by_partition(self) -> Mapping[TopicPartition, T]:
        """Input partition -> restoring task that reads it."""
        return {partition: task for task in self.restoring for partition in task.inputs}

    def running_task_for(self, partition: TopicPartition) -> T | None:
        """The running task that reads a partition, or None."""
        return self.running_by_partition.get(partition)

    @property
    def uninitialized_partitions(self) -> frozenset[TopicPartition]:
        """Input partitions of created tasks with stores. Their records are not taken yet."""
        return frozenset(partition for task in self.created if task.stores for partition in task.inputs)

    @property
    def all_running(self) -> bool:
        """Whether no task waits for its stores. A suspended task waits for an assignment instead."""
        return not self.in_state(State.CREATED, State.RESTORING)

    def add(self, task: T) -> None:
        """Register a new task. Raises IllegalTaskStateError if its id is registered already."""
        if task.id in self._tasks:
            raise IllegalTaskStateError(task.id, "be added", f"here already, and {self._tasks[task.id].state.value}")
        self._tasks[task.id] = task
        self._in_order = None

    def remove(self, task: T) -> None:
        """Unregister a task. Raises IllegalTaskStateError unless the task is closed or suspended."""
        if task.state not in (State.CLOSED, State.SUSPENDED):
            raise IllegalTaskStateError(task.id, "be removed", task.state.value)
        del self._tasks[task.id]
        self._in_order = None

    def initialize_new(self, open_stores: Callable[[T], None], now_ms: int) -> Mapping[TaskId, Exception]:
        """Open the stores of all created tasks. `now_ms`: any one clock.

        A task stays created, for the next call, if its stores are locked or a request for them times out. Returns all
        other errors by task, and TaskTimeoutError for a task with timeouts over more than `TASK_TIMEOUT_MS`.
        """
        failed: dict[TaskId, Exception] = {}
        for task in self.created:
            try:
                open_stores(task)
                task.initialize_if_needed()
                task.timeout.clear()
            except LockError:
                continue
            except TimeoutError as error:
                try:
                    task.timeout.start(now_ms, error)
                except TaskTimeoutError as timed_out:
                    failed[task.id] = timed_out
            except Exception as error:  # a store's backend may raise anything
                failed[task.id] = error
        return failed

    def update_restored(self, stores: Collection[StoreId]) -> None:
        """Run the tasks with all their stores in `stores`, which are the stores at their committed positions."""
        restoring = self.restoring
        restored = set(stores) if restoring else set()
        for task in restoring:
            if restored.issuperset(StoreId(store, task.id.partition) for store in task.stores):
                self.transition_to_running(task)

    def transition_to_running(self, task: T) -> None:
        """Move a restored task to RUNNING."""
        task.complete_restoration()
        task.timeout.clear()

    def suspend(self, tasks: Collection[TaskId]) -> None:
        """Suspend the registered tasks among `tasks`, in any state."""
        self.previous = frozenset(task.id for task in self.running)
        for task in self:
            if task.id in tasks:
                task.suspend()

    def non_assigned_suspended(self, assignment: Mapping[TaskId, frozenset[TopicPartition]]) -> list[T]:
        """The suspended tasks to close: not in `assignment`, or there with other inputs."""
        return [task for task in self.suspended if assignment.get(task.id) != task.inputs]

    def maybe_resume_suspended(self, task_id: TaskId, inputs: frozenset[TopicPartition]) -> bool:
        """Resume a task if it is suspended and has these inputs. Returns whether it was resumed."""
        task = self._tasks.get(task_id)
        if task is None or task.state is not State.SUSPENDED or task.inputs != inputs:
            return False
        task.resume()
        return True

    def apply_to_running(self, action: Callable[[T], None]) -> None:
        """Call `action` with every running task.

        A task that has migrated is closed and removed, and its TaskMigratedError is raised at once. Of other errors the
        first one is raised after all tasks were visited.
        """
        first: Exception | None = None
        for task in self.running:
            try:
                action(task)
            except TaskMigratedError:
                self.close_zombie(task)
                raise
            except Exception as error:  # an action may raise anything
                first = first or error
        if first is not None:
            raise first

    def close_zombie(self, task: T) -> None:
        """Close and unregister a task that another owner has taken over. Nothing of it is committed."""
        task.suspend()
        task.close_dirty()
        self.remove(task)

    def clear(self) -> None:
        """Unregister all tasks."""
        self._tasks.clear()
        self._in_order = None


# Interfaces of a task manager: the client's stores, the reader of their changelogs, and the application's commits.


class RemoteStores(Protocol):
    """The stores of a client's tasks. They are on the client's machine."""

    def advance(self, task: TaskId, applied: Mapping[str, int]) -> None:
        """Record that an epoch has brought the stores of a task to these positions, by name."""
        ...

    def close(self, tasks: Collection[Task], *, clean: bool) -> Mapping[TaskId, Exception]:
        """Close the tasks' stores. `clean`: flush them first. Returns errors by task."""
        ...


class ChangelogReader(Protocol):
    """Restores the stores of a client's tasks from their changelogs."""

    def register(self, task: Task) -> None:
        """Start with a task. Raises LockError while a request still works on a store."""
        ...

    def unregister(self, tasks: Collection[TaskId]) -> None:
        """Stop with these tasks."""
        ...

    def has(self, task: TaskId) -> bool:
        """Whether a task is registered."""
        ...

    def verify_on_register(self, tasks: Collection[TaskId]) -> None:
        """Verify the stores of these tasks as soon as they are registered again. Stores that cannot be read, or are
        ahead of the commits, are wiped."""
        ...

    def restore(self) -> Mapping[TaskId, Exception]:
        """Do a bounded piece of work for the registered tasks, active tasks first. Returns errors by task.

        Raises ClientLostError if the client is gone.
        """
        ...

    def offsets(self, task: TaskId) -> Mapping[str, int]:
        """Store -> position in its changelog, for the stores of a task."""
        ...

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """The offsets of all stores on the client, by task, whichever client owns the task. Tasks with a store that is
        being worked on are missing."""
        ...

    def completed(self) -> Collection[StoreId]:
        """The stores of active tasks at their committed positions."""
        ...


class Commits(Protocol):
    """The application's sequence of commits."""

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        """Commit results of tasks, all or nothing. Returns the commit's number."""
        ...


# Several tasks may fail before one error is raised.


class Failures:
    """Collects errors of tasks and raises the worst one.

    From the worst: an error about neither ownership nor state (the last one, with its task as a note), then
    TaskMigratedError (the last one), then TaskCorruptedError (one for all corrupted tasks). Kafka Streams has the same
    order when it handles an assignment.
    """

    def __init__(self) -> None:
        self._fatal: Exception | None = None
        self._migrated: TaskMigratedError | None = None
        self._corrupted: dict[TaskId, TaskCorruptedError] = {}

    def add(self, task: TaskId, error: Exception) -> None:
        """Add the error of `task`."""
        match error:
            case TaskMigratedError():
                self._migrated = error
            case TaskCorruptedError():
                self._corrupted.update(dict.fromkeys(error.tasks or {task}, error))
            case _:
                error.add_note(f"in task {task}")
                self._fatal = error

    def raise_worst(self) -> None:
        """Raise the worst error, if any."""
        if self._fatal is not None:
            raise self._fatal
        if self._migrated is not None:
            raise self._migrated
        if self._corrupted:
            reasons = dict.fromkeys(error.reason for error in self._corrupted.values())
            ways_out = dict.fromkeys(error.way_out for error in self._corrupted.values())
            way_out = next(iter(ways_out)) if len(ways_out) == 1 else None
            raise TaskCorruptedError("; ".join(reasons), tasks=self._corrupted, way_out=way_out)
