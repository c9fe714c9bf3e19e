"""Causes for which the tasks of an application wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.log import Log
from ..progress.committed import Committed, Network
from ..progress.planner import Planner
from ..task_id import TaskId, TaskKey
from ..tasks.measured import TaskOutcome
from ..tasks.state import State
from ..timed_parts import wall_ms
from .errors import LASTING, Stop, WaitsFor
from .events import Observer, TasksWait, WaitEnded
from .failures import FailedTasks
from .status import RunStatus, TaskStatus

EVERY_SECONDS = 1.0
"""The least time between two reads of a status."""


class OtherRuns:
    """The state of other applications' runs, from their statuses in the log. Used from the loop's thread.

    `starts`: whether the run of this process is about to claim an application. `generation`: the last committed
    generation of an application; -1: it was never claimed.
    """

    def __init__(self, log: Log, starts: Callable[[str], bool], generation: Callable[[str], int]) -> None:
        self._generation = generation
        self._log = log
        self._starts = starts
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._known: dict[str, tuple[float, RunStatus | None]] = {}

    def causes_of_task(self, task: TaskKey) -> tuple[WaitsFor, ...]:
        """Why a task of another application still has unread records."""
        application, subtopology, partition = task
        whole = self.cause_of_application(application)
        if whole is not None and whole.reason == "starting":
            return (whole,)  # the status is that of the previous run
        status = self._status(application)
        active = None if status is None else _active(status, task)
        stop = None if status is None or active is None else status.stop(active)
        if stop is not None:
            return (WaitsFor(application, "stopped", subtopology, partition, stop),)
        if whole is not None:
            return (whole,)
        if status is None or active is None:
            return (WaitsFor(application, "no_client", subtopology),)
        if active.state in ("created", "restoring"):
            return (WaitsFor(application, "restoring", subtopology),)
        return status.waits_for(active) or (WaitsFor(application, "behind", subtopology),)

    def cause_of_application(self, application: str) -> WaitsFor | None:
        """Why an application as a whole does not work; None if its run is at work."""
        status = self._status(application)
        condition = "ended" if status is None else status.condition(wall_ms())
        claimed = -1 if status is None else status.generation
        if self._generation(application) > claimed:  # a newer run, which has not written a status yet
            return WaitsFor(application, "starting")
        match condition:
            case "running":
                paused = status is not None and status.paused
                return WaitsFor(application, "paused") if paused else None
            case "silent":
                return WaitsFor(application, "silent")
            case _:
                return WaitsFor(application, "starting" if self._starts(application) else "not_running")

    def unwritten(self, application: str, topic: str) -> WaitsFor:
        """Why a topic of another application has no writer yet."""
        if self._starts(application):
            return WaitsFor(application, "starting")
        return WaitsFor(application, "unwritten", topic=topic)

    def _status(self, application: str) -> RunStatus | None:
        at, status = self._known.get(application, (float("-inf"), None))
        if time.monotonic() - at >= self._every:
            with suppress(HeadwaterError, OSError):  # of a newer version, or it cannot be read just now
                text = self._log.read_status(application)
                status = None if text is None else RunStatus.from_text(application, text)
            self._known[application] = time.monotonic(), status
        return status


def _active(status: RunStatus, task: TaskKey) -> TaskStatus | None:
    wanted = "active", task.subtopology, task.partition
    tasks = (task_status for client in status.clients for task_status in client.tasks)
    return next(
        (candidate for candidate in tasks if (candidate.role, candidate.subtopology, candidate.partition) == wanted),
        None,
    )


Lane = tuple[str, int]
"""A topic, and one of its lanes."""


class Waits:
    """Finds the waiting tasks of an application and their causes. Used from the loop's thread only.

    The outcome of an epoch has the lanes for which a task's remaining records wait (`TaskOutcome.held_by`). The
    committed state has the tasks upstream with unread records for these lanes. Why these do not consume them is known
    here for tasks of this application, and from the status of their run for others.
    """

    def __init__(
        self,
        topology: Topology,
        committed: Committed,
        planner: Planner,
        failed: FailedTasks,
        observer: Observer,
        starts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`starts`: whether this run will start another application that it has not claimed yet."""
        self._application = topology.application
        self._parts = {part.name: part for part in topology.subtopologies}
        self._committed = committed
        self._planner = planner
        self._failed = failed
        self._others = OtherRuns(committed.log, starts, self._generation)
        self._observer = observer
        self._reported: dict[WaitsFor, set[TaskId]] = {}
        self._held: dict[TaskKey, tuple[Lane, ...]] = {}

    def took(self, outcomes: Iterable[TaskOutcome]) -> None:
        """Note the outcomes of an epoch."""
        for outcome in outcomes:
            key = outcome.key(self._application)
            if outcome.held_by:
                self._held[key] = outcome.held_by
            else:
                self._held.pop(key, None)

    @property
    def stops(self) -> Mapping[TaskKey, Stop]:
        """The stopped tasks of the application."""
        return self._failed.stops

    def look(self, states: Mapping[TaskId, State]) -> dict[WaitsFor, list[TaskId]]:
        """Cause -> tasks that wait for it with unread records. Reports changes to the observer.

        `states`: of the active tasks, in order.
        """
        look = _Look(self._committed.network(), {task.key(self._application): state for task, state in states.items()})
        waiting: dict[WaitsFor, list[TaskId]] = {}
        for task, state in states.items():
            key = task.key(self._application)
            if state is State.RUNNING and key not in self._failed.tasks:
                for cause in self._held_back(key, look):
                    waiting.setdefault(cause, []).append(task)
        self._report({cause: tasks for cause, tasks in waiting.items() if cause.reason in LASTING})
        return {cause: waiting[cause] for cause in sorted(waiting, key=lambda cause: cause.order)}

    def _report(self, causes: Mapping[WaitsFor, Collection[TaskId]]) -> None:
        """Report what has changed: new lasting causes, more tasks of a cause, causes that are over."""
        for cause, waiting in list(self._reported.items()):
            # A task may consume some records before it waits for the same task again.
            if cause not in causes and not self._still(cause):
                del self._reported[cause]
                self._observer.on(WaitEnded(self._application, tuple(sorted(waiting)), cause))
        for cause, tasks in causes.items():
            reported = self._reported.setdefault(cause, set())
            if not reported.issuperset(tasks):
                reported.update(tasks)
                self._observer.on(TasksWait(self._application, tuple(sorted(reported)), cause))

    def _still(self, cause: WaitsFor) -> bool:
        """Whether a lasting cause persists, also while no task waits for it."""
        if cause.topic is not None:
            return self._committed.network().writer(cause.topic) is None
        if cause.subtopology is None or cause.partition is None:
            other = cause.application != self._application
            return other and cause == self._others.cause_of_application(cause.application)
        task = TaskKey(cause.application, cause.subtopology, cause.partition)
        if cause.application == self._application:
            return self._failed.stops.get(task) == cause.stop
        return cause in self._others.causes_of_task(task) and self._is_behind(task)

    def _generation(self, application: str) -> int:
        state = self._committed.states.get(application)
        return -1 if state is None else state.generation

    def _is_behind(self, task: TaskKey) -> bool:
        state = self._committed.states.get(task.application)
        if state is None or task.subtopology not in state.topology.subtopologies:
            return False
        return self._committed.unread(task) > 0

    def _held_back(self, task: TaskKey, look: _Look) -> set[WaitsFor]:
        """Why a task of this application consumes none of its unread records; empty if it may, or has none."""
        causes: set[WaitsFor] = set()
        if not self._is_behind(task):
            return causes
        for topic, lane in self._held.get(task, ()):
            part = self._parts[task.subtopology]
            key = part.name, topic, lane
            if key not in look.behind:  # the same for all partitions
                look.behind[key] = self._planner.behind(part, topic, lane, look.network)
            behind = look.behind[key]
            if behind is None:
                writer = next(source.writer for source in part.sources if source.name == topic)
                causes.add(self._others.unwritten(writer or "", topic))
            for task_behind in behind or ():
                if task_behind not in look.causes:
                    look.causes[task_behind] = set()  # ends a cycle of tasks
                    look.causes[task_behind] = self._causes(task_behind, look)
                causes |= look.causes[task_behind]
        return causes

    def _causes(self, task: TaskKey, look: _Look) -> set[WaitsFor]:
        """Why a task with unread records has not consumed them."""
        application, subtopology, partition = task
        if application != self._application:
            # The other status may be older than the state of this application.
            behind = WaitsFor(application, "behind", subtopology)
            reported = self._others.causes_of_task(task)
            return {
                behind if cause.application == self._application and not self._still(cause) else cause
                for cause in reported
            }
        if task in self._failed.tasks:
            return {WaitsFor(application, "stopped", subtopology, partition, self._failed.stops[task])}
        state = look.states.get(task)
        if state is None:
            return {WaitsFor(application, "no_client", subtopology)}
        if state in (State.CREATED, State.RESTORING):
            return {WaitsFor(application, "restoring", subtopology)}
        return self._held_back(task, look) or {WaitsFor(application, "behind", subtopology)}


@dataclass
class _Look:
    """Results shared by all tasks of one `look`. `behind`: by subtopology, topic and lane."""

    network: Network
    states: Mapping[TaskKey, State]
    behind: dict[tuple[str, str, int], tuple[TaskKey, ...] | None] = field(default_factory=dict)
    causes: dict[TaskKey, set[WaitsFor]] = field(default_factory=dict)
