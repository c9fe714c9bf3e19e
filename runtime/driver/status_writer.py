"""Writes the status of a run to the log, about once a second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ...errors import HeadwaterError, MachineError
from ..assignment.balance import tasks_of
from ..log.errors import LogError
from ..task_id import StoreId, TaskKey
from ..tasks.measured import StoreSize
from ..tasks.state import State, TaskType
from ..tasks.task import StreamTask, Task
from ..timed_parts import wall_ms
from .counters import Counters
from .epoch_plans import ClaimedApplication
from .errors import Stop, TasksOfCause
from .events import Observer, StatusTaken
from .failures import FailedTasks
from .kafka_watch import KafkaWatch
from .member import GroupMember
from .status import ClientStatus, RunStatus, StoreStatus, TaskStatus, this_process
from .waiting import Waits

EVERY_SECONDS = 1.0
"""The least time between two statuses."""

LOOKS_TO_A_STATUS = 5
"""The interval of statuses, in poll intervals of the log: object stores charge ten times as much for a write."""

MOST_SHARE = 0.02
"""The most of the loop's time for statuses: with thousands of tasks they are less frequent."""

WITH_TEXT = 1.5
"""The cost of a status with its JSON and its file, as a multiple of the cost of its data."""

SAMPLES = 6
"""Statuses over which a rate is measured, from the oldest to the newest."""

_Kept = tuple[str, TaskType, State]


class StatusWriter:
    """Writes statuses of an application from its claim on; before, the log has the status of the previous run.

    Used from the loop's thread. The observer gets every status, too. A status that cannot be written is dropped: the
    next commit reports what is wrong with the disk.
    """

    def __init__(self, app: ClaimedApplication, counters: Counters, waits: Waits, observer: Observer) -> None:
        self._topology = app.topology
        self._application = app.name
        self._parts = {part.number: part for part in app.topology.subtopologies}
        self._committed = app.committed
        self._planner = app.planner
        self._generation = app.committer.generation
        self._group = app.group
        self._tally = app.commits.tally
        self._counters = counters
        self._waits = waits
        self._observer = observer
        self._kafka = KafkaWatch(app.topology, app.committed, observer, time.monotonic)
        self._host, self._owner = this_process()
        self._started = wall_ms()
        self._due = self._due_in_log = float("-inf")
        self._every_in_log = LOOKS_TO_A_STATUS * app.committed.log.look_seconds()
        self._since: dict[tuple[str, str], tuple[_Kept, int]] = {}
        self._samples: deque[tuple[float, dict[tuple[str, str], tuple[_Kept, int]]]] = deque(maxlen=SAMPLES)
        self._last: RunStatus | None = None
        self._members: Mapping[str, GroupMember] = {}
        self._sizes = _sizes(self._before()) if any(part.stores for part in self._parts.values()) else {}
        """(client, store) -> last known size, of this run or of the previous one."""

    @property
    def last(self) -> RunStatus | None:
        """The last status; None before the first one."""
        return self._last

    def write_if_due(self, rebalancing: bool, paused: bool = False) -> None:
        """Write a status if one is due. Costs nothing before.

        `paused`: no epoch is open, and none starts.
        """
        if self._last is not None and paused != self._last.paused:
            self.write(rebalancing, paused)
        elif time.monotonic() >= self._due:
            status = self._taken(rebalancing, paused)
            if time.monotonic() >= self._due_in_log:
                self._write(status)

    def write(self, rebalancing: bool = False, paused: bool = False) -> None:
        """Write a status."""
        self._write(self._taken(rebalancing, paused))

    def end(self, how: str, error: HeadwaterError | None = None, failed: Collection[TaskKey] = ()) -> None:
        """Write the final status, with the last state of the tasks. `how`: a `Status` of `results.py`.

        `error`: that has ended the run. `failed`: the stopped tasks. A run that was taken over does not write, as the
        newer run does.
        """
        if self._last is not None:
            self._last = replace(
                self._last,
                written_at=wall_ms(),
                clients=tuple(self._with_sizes(client) for client in self._last.clients),
                records=self._tally.records,
                commits=self._tally.commits,
                rebalancing=False,
                paused=False,
                ended=how,
                dropped=dict(self._tally.dropped),
                epochs=self._counters.epochs,
                seconds=self._counters.seconds(),
                error=None if error is None else error.message,
                hint=None if error is None else error.hint,
                failed_tasks=tuple(
                    str(task) for task in sorted(tasks_of(self._topology)) if task.key(self._application) in failed
                ),
            )
            self._observer.on(StatusTaken(self._application, self._last))
            if how != "fenced":
                self._write(self._last)

    def _taken(self, rebalancing: bool, paused: bool) -> RunStatus:
        begun = time.monotonic()
        status = replace(self._status(rebalancing, begun), paused=paused)
        every = max(EVERY_SECONDS, WITH_TEXT * (time.monotonic() - begun) / MOST_SHARE)
        self._due = begun + every
        self._last = replace(status, every=round(max(every, self._every_in_log) * 1000))
        self._observer.on(StatusTaken(self._application, self._last))
        return self._last

    def _write(self, status: RunStatus) -> None:
        self._due_in_log = time.monotonic() + self._every_in_log
        with suppress(OSError, MachineError, LogError):
            self._committed.log.write_status(self._application, status.to_text())

    def _status(self, rebalancing: bool, seconds: float) -> RunStatus:
        now = wall_ms()
        sample: dict[tuple[str, str], tuple[_Kept, int]] = {}
        active = self._active()
        self._kafka.look()
        waiting = self._waits.look({task.id: task.state for task in active})
        stops = {str(task.id): stop for task in active if (stop := self._stop(task)) is not None}
        clients = tuple(
            ClientStatus(
                member.client.name,
                member.client.threads,
                member.client.executor.host if member.client.executor else "",
                tuple(self._tasks(member, now, seconds, sample)),
                tuple(self._counters.unit(member.client.name, part.name) for part in self._parts.values()),
            )
            for member in self._group.members.values()
        )
        self._members = dict(self._group.members)
        self._since = {key: self._since[key] for key in sample}
        self._samples.append((seconds, sample))
        return RunStatus(
            application=self._application,
            generation=self._generation,
            host=self._host,
            owner=self._owner,
            started_at=self._started,
            written_at=now,
            every=round(EVERY_SECONDS * 1000),
            records=self._tally.records,
            commits=self._tally.commits,
            rebalancing=rebalancing,
            clients=clients,
            failed_tasks=tuple(stops),
            stops=stops,
            waits=tuple(TasksOfCause(cause, tuple(map(str, tasks))) for cause, tasks in waiting.items()),
            dropped=dict(self._tally.dropped),
            epochs=self._counters.epochs,
            seconds=self._counters.seconds(),
            kafka={
                str(task.id): late
                for task in active
                if (late := self._kafka.lag(task.id.key(self._application))) is not None
            },
        )

    def _active(self) -> list[StreamTask]:
        """The active tasks of all clients, in the order of their ids."""
        tasks = (task for member in self._group.members.values() for task in member.tasks.active)
        return sorted(tasks, key=lambda task: task.id)

    def _stop(self, task: Task) -> Stop | None:
        return self._waits.stops.get(task.id.key(self._application))

    def _tasks(
        self, member: GroupMember, now: int, seconds: float, sample: dict[tuple[str, str], tuple[_Kept, int]]
    ) -> Iterator[TaskStatus]:
        for task in member.tasks.all:
            key, kept = (member.client.name, str(task.id)), (member.client.name, task.type, task.state)
            if self._since.get(key, (None, 0))[0] != kept:
                self._since[key] = kept, now
            stores = tuple(self._stores(member, task))
            processes = task.type is TaskType.ACTIVE and task.state is State.RUNNING
            done = self._consumed(task) if processes else sum(store.position for store in stores)
            sample[key] = kept, done
            yield TaskStatus(
                id=str(task.id),
                subtopology=task.id.name,
                partition=task.id.partition,
                role=task.type.value,
                state=task.state.value,
                since=self._since[key][1],
                lag=self._committed.unread(task.id.key(self._application))
                if processes
                else sum(max(0, store.end - store.position) for store in stores),
                rate=self._rate(key, kept, done, seconds),
                stores=stores,
                counts=self._counters.task_rounded(task.id.name, task.id.partition)
                if task.type is TaskType.ACTIVE
                else None,
            )

    def _stores(self, member: GroupMember, task: Task) -> Iterator[StoreStatus]:
        for store in task.stores:
            at = StoreId(store, task.id.partition)
            yield StoreStatus(store, member.stores.position(at), self._planner.end(at), self._size(member, at))

    def _size(self, member: GroupMember, store: StoreId) -> StoreSize | None:
        size = member.stores.sizes.get(store)
        if size is not None:
            self._sizes[member.client.name, store] = size
        return self._sizes.get((member.client.name, store))

    def _with_sizes(self, client: ClientStatus) -> ClientStatus:
        """A client with the sizes of its stores when they were closed."""
        member = self._members.get(client.name)
        if member is None:
            return client
        tasks = (
            replace(
                task,
                stores=tuple(
                    replace(store, size=self._size(member, StoreId(store.name, task.partition)))
                    for store in task.stores
                ),
            )
            for task in client.tasks
        )
        return replace(client, tasks=tuple(tasks))

    def _before(self) -> RunStatus | None:
        """The last status of the previous run; None if it cannot be read."""
        with suppress(OSError, HeadwaterError):
            text = self._committed.log.read_status(self._application)
            return None if text is None else RunStatus.from_text(self._application, text)
        return None

    def _consumed(self, task: Task) -> int:
        """The sum of its positions in its topics. Only differences of sums have a meaning."""
        topics = self._committed.own.tasks.last_commit(task.id.key(self._application)).positions
        return sum(sum(lanes.values()) for lanes in topics.values())

    def _rate(self, key: tuple[str, str], kept: _Kept, done: int, seconds: float) -> float:
        """Records per second, since the oldest sample in which the task had the same client, role and state."""
        for then, sample in self._samples:
            before = sample.get(key)
            if before is not None and before[0] == kept and seconds > then:
                return round(max(0, done - before[1]) / (seconds - then), 1)
        return 0.0


@dataclass(frozen=True)
class Monitor:
    """What a run knows and reports of its tasks: the stopped and waiting ones, counters, and the status."""

    failed: FailedTasks
    waits: Waits
    counters: Counters
    status: StatusWriter

    @classmethod
    def build(cls, app: ClaimedApplication, observer: Observer, starts: Callable[[str], bool]) -> Monitor:
        """The monitor of a claimed application. `starts`: see `Waits`."""
        failed, counters = FailedTasks(app.name, observer), Counters()
        waits = Waits(app.topology, app.committed, app.planner, failed, observer, starts)
        return cls(failed, waits, counters, StatusWriter(app, counters, waits, observer))


def _sizes(status: RunStatus | None) -> dict[tuple[str, StoreId], StoreSize]:
    return {
        (client.name, StoreId(store.name, task.partition)): store.size
        for client in (() if status is None else status.clients)
        for task in client.tasks
        for store in task.stores
        if store.size is not None
    }
