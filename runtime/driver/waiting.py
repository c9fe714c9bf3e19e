"""Why a run waits: its tasks, and other runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
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
from .errors import LASTING, Stop, WaitsFor
from .events import Observer
from .failures import FailedTasks
from .status import RunStatus, TaskStatus
from .wait_texts import Telling

# What the runs of other applications say of themselves, as far as somebody waits for these.

EVERY_SECONDS = 1.0
"""The least time between two looks at a status."""


class OtherRuns:
    """Used from the loop's thread. `starts`: whether the run of this process is about to claim an application.
    `generation`: with which an application was claimed last, as far as is committed; -1: never.

    `seconds`: a clock that never goes back.
    """

    def __init__(
        self,
        log: Log,
        starts: Callable[[str], bool],
        generation: Callable[[str], int],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generation = generation
        self._log = log
        self._starts = starts
        self._seconds = seconds
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._known: dict[str, tuple[float, RunStatus | None]] = {}

    def of_task(self, task: TaskKey) -> tuple[WaitsFor, ...]:
        """Why a task of another application that has records to take is not done with them."""
        application, subtopology, partition = task
        whole = self.of_application(application)
        if whole is not None and whole.reason == "starting":
            return (whole,)  # what the run before has come to does not count any more
        status = self._status(application)
        found = None if status is None else _active(status, task)
        stop = None if status is None or found is None else status.stop(found)
        if stop is not None:
            return (WaitsFor(application, "stopped", subtopology, partition, stop),)
        if whole is not None:
            return (whole,)
        if status is None or found is None:
            return (WaitsFor(application, "no_client", subtopology),)
        if found.state in ("created", "restoring"):
            return (WaitsFor(application, "restoring", subtopology),)
        return status.waits_for(found) or (WaitsFor(application, "behind", subtopology),)

    def of_application(self, application: str) -> WaitsFor | None:
        """Why an application as a whole does nothing; None if its run is at work."""
        status = self._status(application)
        condition = "ended" if status is None else status.condition(time.time_ns() // 1_000_000)
        claimed = -1 if status is None else status.generation
        if self._generation(application) > claimed:  # another run, which has not said anything yet
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
        """Why nobody writes a topic of another application yet."""
        if self._starts(application):
            return WaitsFor(application, "starting")
        return WaitsFor(application, "unwritten", topic=topic)

    def _status(self, application: str) -> RunStatus | None:
        at, status = self._known.get(application, (float("-inf"), None))
        if self._seconds() - at >= self._every:
            with suppress(HeadwaterError, OSError):  # of a newer version, or it cannot be read just now
                text = self._log.read_status(application)
                status = None if text is None else RunStatus.of_text(application, text)
            self._known[application] = self._seconds(), status
        return status


def _active(status: RunStatus, task: TaskKey) -> TaskStatus | None:
    wanted = "active", task.subtopology, task.partition
    tasks = (each for client in status.clients for each in client.tasks)
    return next((each for each in tasks if (each.role, each.subtopology, each.partition) == wanted), None)


# Which tasks of an application wait, and for whom.
#
# An epoch says of each task which lanes the records that it leaves wait for (`TaskOutcome.held_by`). The committed
# state says which tasks upstream have records for these. Why they do not take them, they themselves know: those of this
# application here, those of others by their status.

Lane = tuple[str, int]
"""A topic, and one of its lanes."""


class Waits:
    """Used from the loop's thread only."""

    def __init__(
        self,
        topology: Topology,
        committed: Committed,
        planner: Planner,
        failed: FailedTasks,
        observer: Observer,
        starts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`starts`: whether this run will come to another application that it has not claimed yet."""
        self._application = topology.application
        self._parts = {part.name: part for part in topology.subtopologies}
        self._committed = committed
        self._planner = planner
        self._failed = failed
        self._others = OtherRuns(committed.log, starts, self._generation)
        self._telling = Telling(topology.application, observer, self._still)
        self._held: dict[TaskKey, tuple[Lane, ...]] = {}

    def took(self, outcomes: Iterable[TaskOutcome]) -> None:
        """Note what the tasks of an epoch have come to."""
        for outcome in outcomes:
            key = outcome.key(self._application)
            if outcome.held_by:
                self._held[key] = outcome.held_by
            else:
                self._held.pop(key, None)

    @property
    def stops(self) -> Mapping[TaskKey, Stop]:
        """Why tasks of the application have stopped."""
        return self._failed.stops

    def look(self, states: Mapping[TaskId, State]) -> dict[WaitsFor, list[TaskId]]:
        """The tasks that take no records though there are some, by whom they wait for; tells what is new of it.

        `states`: of the active tasks, in their order.
        """
        look = _Look(self._committed.network(), {task.key(self._application): state for task, state in states.items()})
        found: dict[WaitsFor, list[TaskId]] = {}
        for task, state in states.items():
            key = task.key(self._application)
            if state is State.RUNNING and key not in self._failed.tasks:
                for cause in self._held_back(key, look):
                    found.setdefault(cause, []).append(task)
        self._telling.tell({cause: tasks for cause, tasks in found.items() if cause.reason in LASTING})
        return {cause: found[cause] for cause in sorted(found, key=lambda each: each.order)}

    def _still(self, cause: WaitsFor) -> bool:
        """Whether one of the reasons that do not end by themselves is still there."""
        if cause.topic is not None:
            return self._committed.network().writer(cause.topic) is None
        if cause.subtopology is None or cause.partition is None:
            return cause.application != self._application and cause == self._others.of_application(cause.application)
        task = TaskKey(cause.application, cause.subtopology, cause.partition)
        if cause.application == self._application:
            return self._failed.stops.get(task) == cause.stop
        return cause in self._others.of_task(task) and self._is_behind(task)

    def _generation(self, application: str) -> int:
        state = self._committed.states.get(application)
        return -1 if state is None else state.generation

    def _is_behind(self, task: TaskKey) -> bool:
        state = self._committed.states.get(task.application)
        if state is None or task.subtopology not in state.topology.subtopologies:
            return False
        return self._committed.unread(task) > 0

    def _held_back(self, task: TaskKey, look: _Look) -> set[WaitsFor]:
        """Why a task of this application takes none of its records; nothing, if it may take some or has none."""
        found: set[WaitsFor] = set()
        if not self._is_behind(task):
            return found
        for topic, lane in self._held.get(task, ()):
            part = self._parts[task.subtopology]
            place = part.name, topic, lane
            if place not in look.behind:  # the same for all partitions
                look.behind[place] = self._planner.behind(part, topic, lane, look.network)
            behind = look.behind[place]
            if behind is None:
                writer = next(each.writer for each in part.sources if each.name == topic)
                found.add(self._others.unwritten(writer or "", topic))
            for each in behind or ():
                if each not in look.causes:
                    look.causes[each] = set()  # should it wait for itself
                    look.causes[each] = self._causes(each, look)
                found |= look.causes[each]
        return found

    def _causes(self, task: TaskKey, look: _Look) -> set[WaitsFor]:
        """Why a task that has records to take is not done with them."""
        application, subtopology, partition = task
        if application != self._application:
            # What the other one says of this application may be older than what is known here.
            behind = WaitsFor(application, "behind", subtopology)
            said = self._others.of_task(task)
            return {
                behind if each.application == self._application and not self._still(each) else each for each in said
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
    """One look: what is found out once for all tasks. `behind`: by subtopology, topic and lane."""

    network: Network
    states: Mapping[TaskKey, State]
    behind: dict[tuple[str, str, int], tuple[TaskKey, ...] | None] = field(default_factory=dict)
    causes: dict[TaskKey, set[WaitsFor]] = field(default_factory=dict)
