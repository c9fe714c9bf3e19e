"""Which tasks of an application wait, and for whom.

An epoch says of each task which lanes the records that it leaves wait for (`TaskOutcome.held_by`). The committed state
says which tasks upstream have records for these. Why they do not take them, they themselves know: those of this
application here, those of others by their status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...progress.committed import Committed
from ...progress.idleness import Network
from ...progress.planner import Planner
from ...task_id import TaskId, TaskKey
from ...tasks.outcome import TaskOutcome
from ...tasks.state import State
from ...topology import Topology
from ..failures.failed_tasks import FailedTasks
from ..reports.events import Observer
from .causes import LASTING, Stop, WaitsFor
from .other_runs import OtherRuns
from .telling import Telling

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
