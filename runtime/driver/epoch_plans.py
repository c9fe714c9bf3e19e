"""Plans of epochs, and when the log is looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ..chosen_plugins import origin_of
from ..ir.topology import Settings, Topology
from ..log.placed_log import place_of
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.named_records import check_not_repartitioned
from ..progress.planner import Planner
from ..task_id import TaskId, TaskKey
from ..tasks.plan import EpochPlan
from ..tasks.stream_task import StreamTask
from .epochs import EpochCommits, Unit, wall_clock
from .group import Group

# The plans of epochs, with all that a worker has to know: see `tasks.plan.EpochPlan`.


class EpochPlans:
    """Plans the epochs of one application. Used from the loop's thread only. `clock`: the time they get, in ms."""

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        committed: Committed,
        committer: Committer,
        commits: EpochCommits,
        group: Group,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._clock = clock
        self._topology = topology
        self._settings = settings
        self._committed = committed
        self._committer = committer
        self._commits = commits
        self._group = group
        self._planner = Planner(committed, settings.max_records, settings.max_bytes)

    def plan(self, unit: Unit, tasks: Sequence[StreamTask], passed: Mapping[TaskId, int]) -> EpochPlan:
        """An epoch of these tasks of a unit. `passed`: the tasks that time alone moves, and to which stream time, ms.

        Raises TopicRepartitionedError.
        """
        check_not_repartitioned(self._committed)
        network = self._committed.network()
        due = {task.id: task for task in tasks}
        idle: dict[TaskKey, bool] = {}
        return EpochPlan(
            application=self._topology.application,
            generation=self._committer.generation,
            epoch=self._commits.next_epoch(),
            attempt=0,
            now=self._clock(),
            client=unit.member.client.folder,
            process_id=unit.member.client.process_id,
            assignment=self._group.assignment,
            log=(self._settings.log.name, self._settings.log.options),
            state_dir=self._settings.state_dir,
            threads=tuple(
                tuple(
                    unit.bounded(
                        self._planner.task(
                            unit.part, task.partition, due[task].offsets, network, idle, passed.get(task)
                        )
                    )
                    for task in thread
                    if task in due
                )
                for thread in unit.member.threads(unit.part)
            ),
            globals_=self._planner.globals(unit.part.global_tables, unit.held_globals),
            plugins=origin_of(self._settings),
            incarnation=self._committed.own.incarnation,
            place=place_of(self._committed.log, self._topology.application),
            traced=self._settings.traced,
        )


# When the driver of an application looks for what others have committed: as often as its log lets it.


class MadeCommits:
    """How many commits the drivers of this process have made, of all applications of a run. Any thread may use it."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.count += 1


class Looking:
    """Used from the loop's thread. `every`: see `Log.look_seconds`.

    A look costs requests, so a log may want few of them. What another driver of this process commits is looked for at
    once, so topologies of one run that read from one another wait for nothing. `seconds`: a clock that never goes back.
    """

    def __init__(self, every: float, made: MadeCommits, seconds: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._made = made
        self._seconds = seconds
        self._due = float("-inf")
        self._own = 0
        self._seen = 0

    def due(self) -> bool:
        """Whether to look now."""
        others = self._made.count - self._own
        if self._seconds() < self._due and others == self._seen:
            return False
        self._seen = others
        self._due = self._seconds() + self._every
        return True

    def soon(self) -> None:
        """Have the next look made in the next round."""
        self._due = float("-inf")

    def committed(self) -> None:
        """This driver has committed something, which others look for now."""
        self._own += 1
        self._made.add()
