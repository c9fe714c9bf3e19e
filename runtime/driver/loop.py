"""The epoch loop of one application: plan, run and commit, until it is caught up or told to stop.

The caller's thread plans and commits. Jobs run in a pool, at most one for each unit at a time. So commits need no lock
and come in one order. An epoch that gets no further commits nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from ..chosen_plugins import origin_of
from ..log.records import TaskCommit
from ..placing.client import Client, ClientLostError
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.global_task import GlobalTask
from ..progress.planner import Planner
from ..tasks.errors import TaskCorruptedError
from ..tasks.plan import EpochPlan
from ..tasks.task_id import TaskKey
from ..topology import Settings, Topology
from .errors import RecordError
from .events import EpochCommitted, Observer, RecordFailed, Waiting
from .failures import Failure, corruption_in, isolate
from .units import Unit

POLL_SECONDS = 0.02
"""The longest sleep of the loop while jobs run or nothing is due."""

MOST_RECOVERIES = 5
"""How often in a row the stores of a unit are restored. A failing disk may damage whatever is written to it."""

Outcome = tuple[tuple[TaskCommit, ...], tuple[Failure, ...]]


@dataclass
class Tally:
    """What the loop has done so far."""

    commits: int = 0
    records: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    waits_for: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    failure: RecordError | None = None
    caught_up: bool = False


class EpochLoop:
    """Runs the units of one application.

    `held`: whether a task must not take records for now; tests use it to make a task slow. `recover`: restores the
    stores of a unit after one was found damaged.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        committed: Committed,
        committer: Committer,
        units: list[Unit],
        observer: Observer,
        held: Callable[[TaskKey], bool] = lambda _: False,
        lost: Callable[[Client], bool] = lambda _: False,
        recover: Callable[[Unit], None] = lambda _: None,
    ) -> None:
        self._application = topology.application
        self._settings = settings
        self._committed = committed
        self._committer = committer
        self._planner = Planner(committed, settings.max_records)
        self._global_task = GlobalTask(topology, committed)
        self._units = units
        self._unassigned = [
            (part, set(range(part.partitions)).difference(*(unit.partitions for unit in units if unit.part is part)))
            for part in topology.subtopologies
        ]
        self._observer = observer
        self._held = held
        self._lost = lost
        self._recover = recover
        self._running: dict[Future[Outcome], tuple[Unit, EpochPlan, float, tuple[int, ...]]] = {}
        self._epoch = 0
        self.tally = Tally()

    def run(self, stop: threading.Event, until_caught_up: bool) -> Tally:
        """Loop until `stop` is set, a record fails, or (`until_caught_up`) there is nothing left to take.

        Jobs that are running at the end are waited for and committed. Raises FencedError, JobError, ClientLostError,
        and TaskCorruptedError if stores are damaged again and again.
        """
        with ThreadPoolExecutor(max(1, len(self._units)), thread_name_prefix=self._application) as pool:
            while True:
                self._give_up_lost()
                ending = stop.is_set() or self.tally.failure is not None
                if not ending:
                    # In each round, so that a driver that has nothing to commit also notices a newer one.
                    self._committer.check()
                    self._committed.refresh()
                    self._global_task.advance()
                    self._start_due(pool, until_caught_up)
                if not self._running:
                    # Counts are committed with the next epoch. If no epoch is running, they need a commit of their own.
                    if self._global_task.dropped:
                        self._commit(self._epoch, self._global_task.take())
                    if ending:
                        break
                    if until_caught_up and self._nothing_left():
                        self.tally.caught_up = True
                        break
                    stop.wait(POLL_SECONDS)
                    continue
                # Not longer: lost clients and new records must be noticed while jobs run.
                finished, _ = wait(self._running, POLL_SECONDS, FIRST_COMPLETED)
                for future in finished:
                    self._finish(future)
        return self.tally

    def _give_up_lost(self) -> None:
        """Cancel the jobs of clients that are gone. On Spark they would wait for their executors for an hour."""
        for unit in self._units:
            if self._lost(unit.client):
                for each in self._units:
                    if each.client == unit.client:
                        each.lost = True
                        each.job.cancel()
                raise ClientLostError(self._application, unit.client.name)

    def _start_due(self, pool: ThreadPoolExecutor, until_caught_up: bool) -> None:
        busy = {id(unit) for unit, *_ in self._running.values()}
        version = self._committed.version
        interval = self._settings.epoch_interval_ms / 1000
        for unit in self._units:
            # With nothing running, nothing more can come before the next epoch: the interval would only be waited for.
            eager = until_caught_up and not self._running
            now = time.monotonic()
            if id(unit) in busy or not unit.due(now, interval, version, eager):
                continue
            partitions = [p for p in unit.partitions if not self._held(TaskKey(self._application, unit.part.name, p))]
            if not self._planner.unread(unit.part, partitions):
                continue
            unit.started = now
            plan = self._plan(unit, set(partitions))
            self._running[pool.submit(self._job, unit, plan)] = (unit, plan, now, version)

    def _plan(self, unit: Unit, partitions: set[int], attempt: int = 0) -> EpochPlan:
        self._epoch += 1
        network = self._committed.network()
        failed = {TaskKey(self._application, each.part.name, p) for each in self._units for p in each.failed}
        return EpochPlan(
            application=self._application,
            generation=self._committer.generation,
            epoch=self._epoch,
            attempt=attempt,
            now=time.time_ns() // 1_000_000,
            client=unit.client.folder,
            log=(self._settings.log.name, self._settings.log.options),
            state_dir=self._settings.state_dir,
            threads=tuple(
                tuple(
                    self._planner.task(unit.part, partition, unit.applied_of(partition), failed, network)
                    for partition in thread
                    if partition in partitions
                )
                for thread in unit.threads
            ),
            globals_=self._planner.globals(unit.part.global_tables, unit.held_globals),
            plugins=origin_of(self._settings),
            incarnation=self._committed.own.incarnation,
        )

    def _job(self, unit: Unit, plan: EpochPlan) -> Outcome:
        """Run the epoch in a thread of the pool. If it fails, run its tasks one by one and find the record."""
        try:
            return unit.job.run(plan), ()
        except Exception as error:  # whatever a user's expression or function raises
            if unit.lost:
                return (), ()
            if (found := corruption_in(unit.job, error)) is not None:
                raise found from error
            return isolate(unit.job, unit.part, plan, error)

    def _finish(self, future: Future[Outcome]) -> None:
        unit, plan, started, version = self._running.pop(future)
        try:
            commits, failures = future.result()
        except TaskCorruptedError:
            unit.recoveries += 1
            if unit.recoveries > MOST_RECOVERIES:
                raise
            self._recover(unit)
            return
        for failure in failures:
            unit.failed.add(failure.partition)
            self.tally.failure = self.tally.failure or failure.error
            self._observer.on(RecordFailed(self._application, unit.part.name, failure.partition, failure.error.message))
        # Before commits without progress are left out: a unit that took nothing is blocked until the log changes.
        unit.took(plan, commits, version)
        worth = plan.advancing(commits)
        if not worth:
            return
        number, records, dropped = self._commit(plan.epoch, (*worth, *self._global_task.take()))
        self._observer.on(
            EpochCommitted(
                application=self._application,
                subtopology=unit.part.name,
                client=unit.client.name,
                commit=number,
                records=records,
                lag=self._planner.unread(unit.part, unit.partitions),
                seconds=time.monotonic() - started,
                dropped=dropped,
            )
        )

    def _commit(self, epoch: int, tasks: Sequence[TaskCommit]) -> tuple[int, int, dict[str, int]]:
        """Commit and count.

        Returns the commit's number, the records that its tasks consumed, and those they dropped.
        """
        number = self._committer.commit(epoch, tasks)
        # Segments that nothing needs once this commit exists; before, they still might have been read.
        for path in self._committed.own.unlisted:
            self._committed.log.remove(path)
        records = sum(task.records for task in tasks)
        dropped = sum((Counter(task.dropped) for task in tasks), Counter[str]())
        self.tally.commits += 1
        self.tally.records += records
        self.tally.dropped.update(dropped)
        return number, records, dict(dropped)

    def _nothing_left(self) -> bool:
        """Whether no unit can take a record now. Records how many records wait, and for which applications."""
        version = self._committed.version
        waiting = sum(self._planner.unread(part, partitions) for part, partitions in self._unassigned)
        for unit in self._units:
            count = self._planner.unread(unit.part, unit.partitions)
            # The unit has not tried since the last commit, so it may be able to take these records now.
            if count and unit.blocked_at != version:
                return False
            waiting += count
        self.tally.waiting = waiting
        self.tally.empty = self._committed.empty()
        if self.tally.waiting:
            self.tally.waits_for = self._committed.behind()
            self._observer.on(Waiting(self._application, self.tally.waiting, self.tally.waits_for))
        return True
