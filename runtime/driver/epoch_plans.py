"""Plans of epochs, and the times at which the driver polls the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..chosen_plugins import origin_of
from ..ir.topology import Settings, Topology
from ..log.placed_log import place_of
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.named_records import check_not_repartitioned
from ..progress.planner import Planner
from ..progress.positions import check_raw_positions
from ..task_id import TaskId, TaskKey
from ..tasks.plan import EpochPlan
from ..tasks.task import StreamTask
from .epochs import EpochCommits, Unit
from .group import Group


@dataclass(frozen=True)
class ClaimedApplication:
    """An application that a run has claimed, with its committed state and its group of clients."""

    topology: Topology
    settings: Settings
    committed: Committed
    committer: Committer
    commits: EpochCommits
    group: Group
    planner: Planner

    @property
    def name(self) -> str:
        """The name of the application."""
        return self.topology.application


def epoch_plan(
    app: ClaimedApplication, unit: Unit, tasks: Sequence[StreamTask], passed: Mapping[TaskId, int], now: int
) -> EpochPlan:
    """The plan of an epoch of these tasks of a unit. `now`: its wall-clock time, ms since 1970.

    `passed`: task -> stream time in ms to which the epoch advances it without a record. Raises TopicRepartitionedError,
    RawRecordsMissingError.
    """
    settings, planner = app.settings, app.planner
    check_not_repartitioned(app.committed)
    check_raw_positions(app.topology, app.committed)  # a plan would begin with the first record that is there
    network = app.committed.network()
    due, stores = {task.id for task in tasks}, unit.member.stores
    idle: dict[TaskKey, bool] = {}
    return EpochPlan(
        application=app.name,
        generation=app.committer.generation,
        epoch=app.commits.next_epoch(),
        attempt=0,
        now=now,
        client=unit.member.client.folder,
        process_id=unit.member.client.process_id,
        assignment=app.group.assignment,
        log=(settings.log.name, settings.log.options),
        state_dir=settings.state_dir,
        threads=tuple(
            tuple(
                unit.bounded(
                    planner.task(unit.part, task.partition, stores.offsets(task), network, idle, passed.get(task))
                )
                for task in thread
                if task in due
            )
            for thread in unit.member.threads(unit.part)
        ),
        globals_=planner.globals(unit.part.global_tables, unit.held_globals),
        plugins=origin_of(settings),
        incarnation=app.committed.own.incarnation,
        place=place_of(app.committed.log, app.name),
        traced=settings.traced,
        kafka=settings.kafka,
        results={
            topic.name: app.committed.writer(topic).incarnation
            for topic in unit.part.sources
            if topic.name in unit.part.produced
        },
        targets={topic: text.rpartition(":")[2] for topic, text in app.topology.targets.items()},
    )


class MadeCommits:
    """Counts the commits of all drivers of this process. Thread-safe."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count one more commit."""
        with self._lock:
            self.count += 1


class LogPolling:
    """Decides when the driver of an application polls the log for commits of others. Used from the loop's thread.

    A poll costs requests, so a log sets their interval: `every`, see `Log.look_seconds`. After a commit of another
    driver of this process the log is polled at once, so topologies of one run read from one another without delay.
    `seconds`: a monotonic clock.
    """

    def __init__(self, every: float, made: MadeCommits, seconds: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._made = made
        self._seconds = seconds
        self._due = float("-inf")
        self._own = 0
        self._seen = 0

    def due(self) -> bool:
        """Whether to poll now."""
        others = self._made.count - self._own
        if self._seconds() < self._due and others == self._seen:
            return False
        self._seen = others
        self._due = self._seconds() + self._every
        return True

    def soon(self) -> None:
        """Poll in the next round."""
        self._due = float("-inf")

    def committed(self) -> None:
        """Note a commit of this driver, so that the other drivers of the process poll."""
        self._own += 1
        self._made.add()
