"""Records that a run is given while it goes on, and the time that it is told: for tests of a project; and what tasks do
as time passes, without a record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from ..progress.planner import Planner
from ..task_id import TaskId, TaskKey
from ..topology import Subtopology, Topology


class Feed(Protocol):
    """Asked by the loop's thread of a run until caught up."""

    def more(self) -> bool:
        """All that there was is consumed and committed. Append what comes next; whether there was anything more."""

    def stream_time(self) -> int:
        """The stream time to which all tasks move without a record once all is consumed, in ms; -1: to none."""

    def now(self) -> int:
        """The time that the next epoch gets, in ms: `current_timestamp()` of its records."""


def wall_clock() -> int:
    """The time, in ms."""
    return time.time_ns() // 1_000_000


class PassingTime:
    """Which tasks have something to do though no record comes: used from the loop's thread only.

    These are wall-clock punctuations that are due; and where a feed moves stream time, all that goes by it. Time passes
    one subtopology after another, in the order in which records flow, each when all is consumed: what the steps of one
    give up has come to the next before its clocks move. Stream-time punctuations run in an epoch behind that.
    """

    def __init__(
        self,
        topology: Topology,
        planner: Planner,
        feed: Feed | None,
        clock: Callable[[], int],
        failed: Callable[[], Collection[TaskKey]],
    ) -> None:
        """`failed`: the tasks that have stopped."""
        self._topology = topology
        self._planner = planner
        self._feed = feed
        self._clock = clock
        self._failed = failed
        self._upstream = _upstream(topology)
        self._moving: frozenset[TaskId] = frozenset()
        self._punctuating: frozenset[TaskId] = frozenset()
        self._punctuated: dict[TaskId, int] = {}

    def due(self, until_caught_up: bool) -> set[TaskId]:
        """The tasks that may begin an epoch without records."""
        return {*self._wall_clock(until_caught_up), *self._behind(self._moving), *self._punctuating}

    def go_on(self) -> bool:
        """All is consumed: choose the tasks for which stream time passes now. Whether there are any."""
        self._moving = self._next()
        self._punctuating = frozenset() if self._moving else self._stream_time()
        return bool(self._moving or self._punctuating)

    def planned(self, tasks: Iterable[TaskId]) -> Mapping[TaskId, int]:
        """An epoch of these tasks is planned: those for which time passes in it, with the stream time, ms."""
        chosen = [*tasks]
        self._punctuating -= {*chosen}
        return dict.fromkeys(self._behind(self._moving.intersection(chosen)), self._time)

    @property
    def _time(self) -> int:
        return -1 if self._feed is None else self._feed.stream_time()

    def _wall_clock(self, until_caught_up: bool) -> Iterable[TaskId]:
        """A run that ends with its input does not wait for time: there punctuations run with the next records, unless
        the time is the feed's, and then behind what stream time brings about.
        """
        if until_caught_up and self._feed is None:
            return ()
        now, time = self._clock(), self._time
        due = (task for part in self._topology.subtopologies for task in self._planner.punctuating(part, now))
        return [task for task in self._running(due) if self._planner.stream_time(task) >= time]

    def _stream_time(self) -> frozenset[TaskId]:
        """The tasks with stream-time punctuations that are due, each once for a time of the feed."""
        time = self._time
        if time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        found = self._running(task for part in parts for task in self._planner.punctuating(part, None))
        due = frozenset(task for task in found if self._punctuated.get(task) != time)
        self._punctuated.update(dict.fromkeys(due, time))
        return due

    def _next(self) -> frozenset[TaskId]:
        """The tasks of the subtopologies that time has not reached yet, but all those that they read from."""
        if self._time < 0:
            return frozenset()
        parts = self._topology.subtopologies
        behind = {part.number: tasks for part in parts if (tasks := self._behind(_tasks(part)))}
        first = [number for number in behind if not (self._upstream[number] - {number}) & behind.keys()]
        chosen = first or list(behind)[:1]  # none is first in a circle
        return frozenset(task for number in chosen for task in behind[number])

    def _behind(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        time = self._time
        return [task for task in self._running(tasks) if self._planner.stream_time(task) < time]

    def _running(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        application, failed = self._topology.application, self._failed()
        return [task for task in tasks if task.key(application) not in failed]


def _tasks(part: Subtopology) -> list[TaskId]:
    """The tasks of a subtopology with steps that go by time."""
    if not part.stores and not part.processors:
        return []
    return [TaskId(part.number, partition, part.name) for partition in range(part.partitions)]


def _upstream(topology: Topology) -> dict[int, set[int]]:
    """For each subtopology those from which records come to it, directly or not."""
    writers = {topic.name: part.number for part in topology.subtopologies for topic in part.sinks}
    found: dict[int, set[int]] = {
        part.number: {writers[topic.name] for topic in part.sources if topic.name in writers}
        for part in topology.subtopologies
    }
    for between in found:
        for reader in found.values():
            if between in reader:
                reader |= found[between]
    return found
