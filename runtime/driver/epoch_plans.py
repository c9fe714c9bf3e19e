"""The plans of epochs, with all that a worker has to know: see `tasks.plan.EpochPlan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..chosen_plugins import origin_of
from ..log.placed.log import place_of
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.planner import Planner
from ..progress.repartitioned import check_not_repartitioned
from ..task_id import TaskId, TaskKey
from ..tasks.plan import EpochPlan
from ..tasks.stream_task import StreamTask
from ..topology import Settings, Topology
from .epoch_commits import EpochCommits
from .feeding import wall_clock
from .group.group import Group
from .units import Unit


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
