"""The epoch loop of one application: plan, run and commit epochs until caught up or stopped.

The caller's thread plans, commits and assigns tasks; jobs run in a pool, one per unit at a time. So commits need no
lock and have one order. Stores are restored in slices, in parallel to the epochs of running tasks. An epoch without
progress commits nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...errors import UnavailableError
from ..assignment.balance import tasks_of
from ..ir.topology import Subtopology, Topology
from ..kafka.sources import Clusters
from ..log.state import LoadedStates
from ..placing.assigned import Assigned
from ..placing.place import ClientLostError
from ..progress.committer import Committer
from ..progress.named_records import check_not_repartitioned
from ..progress.positions import check_raw_positions
from ..restore.store_changelog_reader import RestoreStalledError
from ..task_id import TaskId, TaskKey
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan
from ..tasks.task import StreamTask
from ..timed_parts import timed, wall_ms
from .cluster import Cluster
from .epoch_plans import ClaimedApplication, LogPolling, MadeCommits, epoch_plan
from .epoch_reports import EpochReports
from .epochs import Feed, OpenEpoch, PassingTime, Tally, Unit
from .errors import DamagedAgainError
from .events import ApplicationStopping, Observer, Observers, Waiting
from .failures import FailedTasks, Outages, Troubles, stranded
from .group import Rebalancer
from .group_offsets import GroupOffsets
from .member import GroupMember
from .record_search import Outcomes, isolate, settled
from .removal import Epochs
from .service_events import KafkaPartitionsAdded
from .status_writer import Monitor
from .stopping import Pause, RepartitionPurge
from .upkeep import LogCleaning, Upkeep

POLL_SECONDS = 0.02
"""How long the loop sleeps at most while jobs run or nothing is due."""

QUIET_SECONDS = 1.0
"""How long the loop does not look for due tasks after it has found none, unless something changes."""

QUIET_POLL_SECONDS = 0.05
"""How long the loop sleeps at most meanwhile. Then it polls for commits of others and of other drivers."""

MOST_JOBS = 64
"""The most open epochs."""


def _never(_: TaskKey) -> bool:
    return False


@dataclass(frozen=True)
class RunContext:
    """What the applications of a run share.

    `topologies`: of the run, in order. `lasting`: it runs until it is stopped, and waits for records of other
    applications and for the end of pauses; else it ends once it is caught up. `held`: whether a task starts no epoch
    for now, by which tests make a task slow. `feed`: gives records to a run of one application until caught up.
    `claimed`: the claims of the run so far. `made`: its commits. `ended`: its applications that have ended. `loaded`:
    states that its applications compare themselves with. `kafka`: the clusters of their raw topics.
    """

    cluster: Cluster
    topologies: Sequence[Topology] = ()
    lasting: bool = False
    observer: Observer = field(default_factory=Observers)
    held: Callable[[TaskKey], bool] = _never
    feed: Feed | None = None
    claimed: list[Committer] = field(default_factory=list)
    made: MadeCommits = field(default_factory=MadeCommits)
    ended: set[str] = field(default_factory=set)
    loaded: LoadedStates = field(default_factory=LoadedStates)
    kafka: Clusters | None = None


class LoopState(Enum):
    """The state of an epoch loop.

    `RUNNING`: epochs start. `PAUSED`: the application is paused: no epoch and no slice of a restore starts, open epochs
    are committed. `DRAINING`: the loop ends once the open epochs are committed; none starts. `CAUGHT_UP`: the end of a
    loop without unread records, or without a task that could get one, as others have stopped. `DRAINED`: the end of a
    loop that was stopped, or whose topology has to grow (`EpochLoop.added`).
    """

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    CAUGHT_UP = "caught_up"
    DRAINED = "drained"

    @property
    def ended(self) -> bool:
        """Whether the loop has ended."""
        return self in (LoopState.CAUGHT_UP, LoopState.DRAINED)


class EpochLoop:
    """Runs the tasks of one application, which its group has already assigned.

    `placed`: called with every assignment that is made while the loop runs. `outages`: see `Troubles`.
    """

    def __init__(
        self,
        app: ClaimedApplication,
        run: RunContext,
        upkeep: Upkeep,
        monitor: Monitor,
        placed: Callable[[Assigned], None],
        outages: Outages | None = None,
    ) -> None:
        self._app = app
        self._run = run
        self._topology = app.topology
        self._committed = app.committed
        self._commits = app.commits
        self._planner = app.planner
        self._group = app.group
        self._feed = run.feed
        self._monitor = monitor
        self._upkeep = upkeep
        self._cleaning = LogCleaning(app, run.observer, run.topologies)
        self._purge = RepartitionPurge(app.topology, app.committed, app.commits)
        self._pause = Pause(app.committed.log, app.name, run.observer)
        self._polling = LogPolling(app.committed.log.look_seconds(), run.made)
        self._clock = run.feed.now if run.feed is not None else wall_ms
        self._passing = PassingTime(app.topology, app.planner, run.feed, self._clock, lambda: self.failed.tasks)
        self._rebalancer = Rebalancer(app.group, app.committer, placed)
        self._reports = EpochReports(app, monitor.counters, run.observer)
        app.committed.kafka.outages = outages
        self._troubles = Troubles(app.name, app.group, app.committed, monitor.failed, run.observer, outages)
        self.added: Mapping[str, int] = {}
        """Raw topics with more partitions in Kafka than in the topology -> their number there."""
        self._group_offsets = GroupOffsets(app.topology, app.committed, run.kafka, run.observer)
        self._unread: dict[int, Sequence[TaskId]] = {}
        self._unread_at: tuple[int, ...] | None = None
        self._worked_at = time.monotonic()
        self._quiet_until = 0.0
        self._quiet_since: tuple[object, ...] = ()
        self._units: dict[tuple[int, str], Unit] = {}
        self._open: dict[Future[Outcomes], OpenEpoch] = {}
        self.state = LoopState.RUNNING

    @property
    def failed(self) -> FailedTasks:
        """The stopped tasks."""
        return self._monitor.failed

    @property
    def tally(self) -> Tally:
        """The totals so far."""
        return self._commits.tally

    def run(self, stop: threading.Event, until_caught_up: bool) -> LoopState:
        """Loop until `stop` is set, or (`until_caught_up`) until there are no unread records, or until no task can get
        records because others have stopped. Damaged stores end the loop too. Returns the final state.

        Open epochs are finished and committed at the end. Raises FencedError, JobError, NoClientsError, StateError.
        """
        jobs = ThreadPoolExecutor(MOST_JOBS, thread_name_prefix=self._app.name)
        with self._reports.watching(), self._cleaning, self._group_offsets, jobs as pool:
            while not self.state.ended:
                self._round(pool, stop, until_caught_up)
        return self.state

    def _round(self, pool: ThreadPoolExecutor, stop: threading.Event, until_caught_up: bool) -> None:
        """One round: rebalance, poll the log, start due epochs, and commit finished ones."""
        self._update_state(stop)
        with timed("place tasks"):
            self._rebalance()
        self._group_offsets.advance()
        polled = self.state is not LoopState.DRAINING and self._polling.due()
        if polled:
            self._poll()
        elif self.state is not LoopState.DRAINING:
            self._committed.kafka.poll()  # the interval of the log's polls is too long for it
        all_run = False
        if self.state is LoopState.RUNNING:
            with timed("clean"):
                self._cleaning.advance()
            all_run = self._start_work(pool, until_caught_up)
        paused = self.state is LoopState.PAUSED and not self._open and not self._restoring()
        self._monitor.status.write_if_due(self._rebalancer.in_progress, paused)
        if not self._open:
            # Counts are committed with the next epoch. If none is open, they need a commit of their own.
            if self.state is LoopState.DRAINING:
                self._commits.flush()
                self.state = LoopState.DRAINED
                return
            if all_run and self._may_end(until_caught_up) and self._nothing_left():
                if polled and self._committed.kafka.is_since(self._worked_at) and not self._fed():
                    self._commits.flush()
                    self._cleaning.finish(stop)
                    self.state = LoopState.CAUGHT_UP
                    return
                self._polling.soon()
                if self._feed is not None:
                    return  # at once: the feed waits for it
        with timed("wait"):
            self._wait(stop)
        for job in [job for job in self._open if job.done()]:
            self._finish(job)

    def _update_state(self, stop: threading.Event) -> None:
        """Enter the state of this round. A loop that drains reports its open epochs once."""
        paused = self._pause.asked_for()
        if stop.is_set() or self.failed.ends_run or self.added:
            if self.state is not LoopState.DRAINING and self._open and not self.added:
                self._run.observer.on(ApplicationStopping(self._app.name, len(self._open)))
            self.state = LoopState.DRAINING
        else:
            self.state = LoopState.PAUSED if paused else LoopState.RUNNING

    def _may_end(self, until_caught_up: bool) -> bool:
        """Whether the loop ends once no unread records are left."""
        ends = until_caught_up or self._stranded()
        return ends and not self._rebalancer.in_progress and not self._passing.due(until_caught_up)

    def _fed(self) -> bool:
        """Whether the feed gives more records, or advances the time, once all records are consumed."""
        self._quiet_until = 0.0
        return self._feed is not None and (self._passing.go_on() or self._feed.more())

    def _poll(self) -> None:
        """Read commits of others. Raises FencedError, TopicRepartitionedError, LogError."""
        with timed("look"):
            # Every time, so that a driver without anything to commit also detects a newer one.
            self._app.committer.check()
            self._committed.refresh()
            check_not_repartitioned(self._committed)
            check_raw_positions(self._topology, self._committed)
            self._look_for_added()
            # From here on the state has the commits of all decided epochs, also during a pause.
            self._upkeep.advance(Epochs(self._commits.epoch, self._open_epochs()))

    def _look_for_added(self) -> None:
        """Drain once topics in Kafka have more partitions than the topology: the claim has to name their tasks."""
        if not self.added:
            self.added = self._committed.kafka.added
            for topic, partitions in self.added.items():
                known = len(self._committed.kafka.ends[topic])
                self._run.observer.on(KafkaPartitionsAdded(self._app.name, topic, known, partitions))

    def _start_work(self, pool: ThreadPoolExecutor, until_caught_up: bool) -> bool:
        """Start due epochs and slices of restores. Whether all tasks run.

        After a round without any work this is skipped for QUIET_SECONDS, unless there is a commit or an assignment: a
        check of all tasks in every round costs too much.
        """
        now, seen = time.monotonic(), (self._committed.version, self._group.assignment, *self._group.members.values())
        if self._quiet_until > now and self._quiet_since == seen:
            return True
        self._commits.advance()
        self._purge.advance()
        all_run = self._advance_stores()
        quiet = not self._start_due(pool, until_caught_up) and all_run and not self._open
        self._quiet_until, self._quiet_since = now + QUIET_SECONDS if quiet else now, seen
        return all_run

    def _advance_stores(self) -> bool:
        """Advance restores by a slice. Whether all tasks run."""
        try:
            with timed("advance stores"):
                return self._group.advance()
        except DamagedAgainError as error:
            self.failed.add([error.task], error)
        except RestoreStalledError as error:
            self.failed.add([task.key(self._app.name) for task in sorted(error.tasks)], error)
        return False

    def _restoring(self) -> bool:
        return any(not future.done() for future in self._group.slices())

    def _wait(self, stop: threading.Event) -> None:
        """Wait until a job or a slice of a restore is done, but not for long: clients and records may come."""
        # Only a running loop handles slices that are done.
        slices = self._group.slices() if self.state is LoopState.RUNNING else []
        working: list[Future[Any]] = [*self._open, *slices]
        most = QUIET_POLL_SECONDS if not working and time.monotonic() < self._quiet_until else POLL_SECONDS
        working += self._committed.kafka.questions
        if working:
            wait(working, most, FIRST_COMPLETED)
        else:
            stop.wait(most)

    def _rebalance(self) -> None:
        """Handle new and lost clients. Jobs of lost ones are cancelled: Spark would wait for an hour."""
        self._rebalancer.advance(self._open_tasks)
        for key, unit in list(self._units.items()):
            if self._group.members.get(unit.member.client.name) is not unit.member:
                del self._units[key]
                unit.lost = True
                unit.job.cancel()

    def _open_epochs(self) -> frozenset[int]:
        return frozenset(opened.plan.epoch for opened in self._open.values())

    def _open_tasks(self, client: str) -> set[TaskId]:
        return {
            task.id
            for opened in self._open.values()
            if opened.unit.member.client.name == client
            for task in opened.tasks
        }

    def _start_due(self, pool: ThreadPoolExecutor, until_caught_up: bool) -> bool:
        """Start epochs of tasks with unread records or due work. Whether any task has such, now or later."""
        busy = {id(opened.unit) for opened in self._open.values()}
        version = self._committed.version
        interval = self._app.settings.epoch_interval_ms / 1000
        any_unread = False
        passing = self._passing.due(until_caught_up)
        for part, due in self._due(passing):
            for member in self._group.members.values():
                if id(self._units.get((part.number, member.client.name))) in busy:
                    any_unread = True  # its tasks are checked again once its epoch is over, not in every round
                    continue
                unread = member.processable(due)
                any_unread = any_unread or bool(unread)
                tasks = [task for task in unread if self._may_run(member, task)]
                if not tasks:
                    continue
                unit = self._unit(part, member)
                now = time.monotonic()
                # Without an open epoch no further record can come before the next one: waiting for it gains nothing.
                eager = until_caught_up and not self._open
                timely = any(task.id in passing for task in tasks)
                if not unit.due(now, interval, version, eager=eager, timely=timely):
                    continue
                unit.started = now
                with timed("planning"):
                    passed = self._passing.planned(task.id for task in tasks)
                    plan = epoch_plan(self._app, unit, tasks, passed, self._clock())
                for task in tasks:
                    task.start_epoch(plan.epoch)
                planning, ends = time.monotonic() - now, self._committed.kafka.ends
                opened = OpenEpoch(unit, plan, tuple(tasks), now, planning, version, ends)
                self._open[pool.submit(self._job, unit, plan, self._troubles.examined)] = opened
        return any_unread

    def _due(self, passing: Set[TaskId]) -> Iterator[tuple[Subtopology, Sequence[TaskId]]]:
        """The tasks of every subtopology that have unread records or work that time makes due, without stopped ones."""
        version = self._committed.version
        if self._unread_at != version:  # without a commit they are the same
            self._unread = {part.number: self._planner.with_unread(part) for part in self._topology.subtopologies}
            self._unread_at = version
        failed = self.failed.tasks
        for part in self._topology.subtopologies:
            unread = self._unread[part.number]
            if passing:
                unread = sorted({*unread, *(task for task in passing if task.subtopology == part.number)})
            yield part, [task for task in unread if not failed or task.key(self._app.name) not in failed]

    def _may_run(self, member: GroupMember, task: StreamTask) -> bool:
        leaves = self._rebalancer.leaves(member.client.name, task.id)
        return not leaves and not self._run.held(task.id.key(self._app.name))

    def _unit(self, part: Subtopology, member: GroupMember) -> Unit:
        key = part.number, member.client.name
        if key not in self._units:
            job = self._run.cluster.job(part, member.client, self._app.name)
            self._units[key] = Unit(part, member, job, held_globals=member.reader.tables.positions)
        return self._units[key]

    def _job(self, unit: Unit, plan: EpochPlan, examined: Set[TaskKey]) -> Outcomes:
        """In a thread of the pool: run the epoch. If it fails, find the failing records.

        If a service outside does not answer in this search, all tasks drop the epoch.
        """
        try:
            try:
                outcomes = unit.job.run(plan)
                return settled(unit.job, unit.part, plan, outcomes)
            except Exception as error:  # any error of a user's expression or function
                if unit.lost or self._run.cluster.lost(unit.member.client):
                    raise ClientLostError(plan.application, unit.member.client.name) from error
                return isolate(unit.job, unit.part, plan, error, examined)
        except UnavailableError as error:
            trouble = Trouble.from_error(error)
            return tuple(TaskOutcome.troubled(task, trouble) for task in plan.tasks), ()

    def _finish(self, job: Future[Outcomes]) -> None:
        """Commit the results of a job, except for tasks that were closed or lost meanwhile."""
        opened = self._open.pop(job)
        self._worked_at = time.monotonic()
        unit, plan = opened.unit, opened.plan
        try:
            outcomes, failures = job.result()
        except ClientLostError:
            self._end(opened, ())  # the client may have joined again before the loss was detected
            return
        if unit.lost:
            return
        for failure in failures:
            self.failed.add([failure.task], failure)
        self._commits.finished(opened.ends)
        # Before commits without progress are removed: a unit without progress is blocked until the log changes.
        unit.took(plan, outcomes, opened.version)
        self._monitor.waits.took(outcomes)
        self._end(opened, outcomes)
        try:
            begun = time.monotonic()
            with timed("commit"):
                committed = self._commit(unit.member, opened.tasks)
            if committed > 0:
                self._polling.committed()
            self._reports.ended(opened, outcomes, committed, begun)
            self._troubles.settle(unit.member, opened.tasks, outcomes)
        except DamagedAgainError as error:
            self.failed.add([error.task], error)

    def _commit(self, member: GroupMember, tasks: Sequence[StreamTask]) -> int:
        """Commit tasks. Returns the number of committed ones. Raises DamagedAgainError."""
        try:
            return member.tasks.commit(tasks)
        except TaskCorruptedError as error:  # whether the commit was made, the log will show
            self._group.recover(member, error.tasks, error)
            return 0

    def _end(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome]) -> None:
        """End an epoch in its tasks, with the commits of those that have made progress."""
        commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
        made = {commit.partition: commit for commit in commits}
        advancing = {commit.partition: commit for commit in opened.plan.advancing(commits)}
        for task in opened.tasks:
            number = task.id.partition
            was_open = task.end_epoch(opened.plan.epoch, opened.plan.assignment, advancing.get(number))
            if was_open and number in made and number not in advancing:
                opened.unit.member.stores.advance(task.id, made[number].applied)

    def _stranded(self) -> bool:
        """Whether no task can get a record any more, because tasks have stopped."""
        failed, ended = self.failed.tasks, self._run.ended
        return bool(failed or ended) and stranded(self._topology, failed, ended)

    def _nothing_left(self) -> bool:
        """Whether no unit can consume a record at present. Notes the waiting records and their writers in the tally."""
        version = self._committed.version
        placed: set[TaskId] = set()
        waiting = 0
        for part in self._topology.subtopologies:
            for member in self._group.members.values():
                unit = self._units.get((part.number, member.client.name))
                tasks = [task.id for task in member.tasks.active if task.id.subtopology == part.number]
                placed.update(tasks)
                count = self._planner.unread(
                    task for task in tasks if task.key(self._app.name) not in self.failed.tasks
                )
                # The unit has not run since the last commit, so it may be able to consume these records now.
                if count and (unit is None or unit.blocked_at != version):
                    return False
                waiting += count
        waiting += self._planner.unread(task for task in tasks_of(self._topology) if task not in placed)
        self.tally.waiting = waiting
        self.tally.empty = self._committed.empty()
        if waiting:
            own = (self._app.name,) if self.failed.tasks else ()
            self.tally.waits_for = (*own, *self._committed.behind())
            self._run.observer.on(Waiting(self._app.name, waiting, self.tally.waits_for))
        return True
