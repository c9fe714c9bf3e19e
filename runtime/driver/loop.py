"""The epoch loop of one application: plan, run, commit, again, until caught up or told to stop.

One thread (the caller's) plans, commits and assigns tasks; jobs run in a pool, one at a time for each unit. So commits
need no lock and come in one order. Stores are restored in slices beside the epochs of the tasks that run. An epoch that
gets no further commits nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ..assignment.balance import tasks_of
from ..ir.topology import Settings, Subtopology, Topology
from ..placing.assigned import Assigned
from ..placing.place import ClientLostError
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.named_records import check_not_repartitioned
from ..progress.planner import Planner
from ..restore.store_changelog_reader import RestoreStalledError
from ..task_id import TaskId, TaskKey
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan
from ..tasks.stream_task import StreamTask
from ..timed_parts import timed
from .cluster import Cluster
from .counters import Counters
from .epoch_plans import EpochPlans, Looking
from .epoch_reports import EpochReports
from .epochs import EpochCommits, Feed, OpenEpoch, PassingTime, Tally, Unit, wall_clock
from .errors import DamagedAgainError
from .events import ApplicationStopping, Observer, Waiting
from .failures import FailedTasks, Troubles, stranded
from .group import Group, Rebalancer
from .member import GroupMember
from .record_search import Outcomes, isolate, settled
from .removal import Epochs
from .stopping import Pause, RepartitionPurge
from .upkeep import LogCleaning, Upkeep
from .waiting import Waits

POLL_SECONDS = 0.02
"""How long the loop sleeps at most while jobs run or nothing is due."""

QUIET_SECONDS = 1.0
"""For so long an application that has nothing to do is left alone, unless something happens."""

QUIET_POLL_SECONDS = 0.05
"""How long the loop sleeps at most meanwhile. It looks for commits of others and of other drivers after that."""

MOST_JOBS = 64
"""Epochs that are open at once."""


class EpochLoop:
    """Runs the tasks of one application. `group`: its clients, which have been given tasks.

    `held` says which tasks to leave alone for now: a way for tests to make a task slow. `placed` is called with each
    assignment that is made while it runs. `ended`: the applications of the run that have ended. `status` is called in
    each round, and told whether tasks are on their way, and whether all is paused. `feed`: see `feeding.Feed`.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        cluster: Cluster,
        committed: Committed,
        committer: Committer,
        commits: EpochCommits,
        group: Group,
        upkeep: Upkeep,
        cleaning: LogCleaning,
        pause: Pause,
        looking: Looking,
        failed: FailedTasks,
        waits: Waits,
        observer: Observer,
        counters: Counters,
        held: Callable[[TaskKey], bool] = lambda _: False,
        placed: Callable[[Assigned], None] = lambda _: None,
        status: Callable[[bool, bool], None] = lambda _, __: None,
        ended: Callable[[], Collection[str]] = tuple,
        feed: Feed | None = None,
    ) -> None:
        self._feed = feed
        self._topology = topology
        self._settings = settings
        self._cluster = cluster
        self._committed = committed
        self._committer = committer
        self._commits = commits
        self._planner = Planner(committed, settings.max_records, settings.max_bytes)
        self._group = group
        clock = feed.now if feed is not None else wall_clock
        self._plans = EpochPlans(topology, settings, committed, committer, commits, group, clock)
        self._rebalancer = Rebalancer(group, committer, placed)
        self._observer = observer
        self._reports = EpochReports(
            topology.application, self._planner, commits, counters, observer, traced=settings.traced
        )
        self._held = held
        self._status = status
        self._ended = ended
        self._upkeep = upkeep
        self._pause = pause
        self._looking = looking
        self._purge = RepartitionPurge(topology, committed, commits)
        self._cleaning = cleaning
        self._unread: dict[int, Sequence[TaskId]] = {}
        self._unread_at: tuple[int, ...] | None = None
        self._quiet_until = 0.0
        self._quiet_since: tuple[object, ...] = ()
        self._stopping = False
        self._units: dict[tuple[int, str], Unit] = {}
        self.failed = failed
        self._waits = waits
        self._passing = PassingTime(topology, self._planner, feed, clock, lambda: self.failed.tasks)
        self._running: dict[Future[Outcomes], OpenEpoch] = {}
        self._troubles = Troubles(topology.application, group, committed, self.failed, observer)
        self.tally = commits.tally

    def run(self, stop: threading.Event, until_caught_up: bool) -> Tally:
        """Loop until `stop` is set, or (`until_caught_up`) there is nothing left to take, or
        nothing more can come because tasks have stopped. An error of stores ends it too.

        Jobs that run when the loop ends are waited for and committed. Raises FencedError, JobError, NoClientsError,
        StateError.
        """
        prefix = self._topology.application
        pooled = ThreadPoolExecutor(MOST_JOBS, thread_name_prefix=prefix)
        with self._reports.watching(), self._cleaning, pooled as pool:
            while True:
                ending = self._ending(stop)
                restored = False
                paused = self._pause.asked_for()
                with timed("place tasks"):
                    self._rebalance()
                looked = not ending and self._looking.due()
                if looked:
                    self._look()
                if not ending and not paused:
                    with timed("clean"):
                        self._cleaning.advance()
                    restored = self._go_on(pool, until_caught_up)
                self._status(self._rebalancer.in_progress, paused and not self._running and not self._restoring())
                if not self._running:
                    # Counts are committed with the next epoch. If no epoch is running, they need a commit of their own.
                    if ending:
                        self._commits.flush()
                        break
                    over = until_caught_up or self._stranded()
                    over = (
                        over
                        and restored
                        and not self._rebalancer.in_progress
                        and not self._passing.due(until_caught_up)
                    )
                    if over and self._nothing_left():
                        if looked and not self._fed():
                            self._commits.flush()
                            self._cleaning.finish(stop)
                            self.tally.caught_up = True
                            break
                        self._looking.soon()
                        if self._feed is not None:
                            continue  # at once: whoever feeds the run waits for it
                with timed("wait"):
                    self._wait(stop, paused)
                for future in [each for each in self._running if each.done()]:
                    self._finish(future)
        return self.tally

    def _ending(self, stop: threading.Event) -> bool:
        """Whether no epoch begins any more. That open ones are waited for is told once."""
        ending = stop.is_set() or self.failed.ends_run
        if ending and not self._stopping and self._running:
            self._observer.on(ApplicationStopping(self._topology.application, len(self._running)))
        self._stopping = ending
        return ending

    def _fed(self) -> bool:
        """Whether there is more to take, now that all is consumed; or more time has passed."""
        self._quiet_until = 0.0
        return self._feed is not None and (self._passing.go_on() or self._feed.more())

    def _look(self) -> None:
        """Notice what others have committed. Raises FencedError, TopicRepartitionedError, LogError."""
        with timed("look"):
            # Again and again, so that a driver that has nothing to commit also notices a newer one.
            self._committer.check()
            self._committed.refresh()
            check_not_repartitioned(self._committed)
            # After that, the state has the commits of all epochs that are decided; a pause ends none of this.
            self._upkeep.advance(Epochs(self._commits.epoch, self._open_epochs()))

    def _go_on(self, pool: ThreadPoolExecutor, until_caught_up: bool) -> bool:
        """Do what is due; whether all tasks run.

        If there was nothing to do, it stays so until something is committed or the tasks are dealt again: then looking
        at all of them, fifty times a second, is left out.
        """
        now, seen = time.monotonic(), (self._committed.version, self._group.assignment, *self._group.members.values())
        if self._quiet_until > now and self._quiet_since == seen:
            return True
        self._commits.advance()
        self._purge.advance()
        restored = self._advance()
        quiet = not self._start_due(pool, until_caught_up) and restored and not self._running
        self._quiet_until, self._quiet_since = now + QUIET_SECONDS if quiet else now, seen
        return restored

    def _advance(self) -> bool:
        """Bring stores forward; whether all tasks run."""
        try:
            with timed("advance stores"):
                return self._group.advance()
        except DamagedAgainError as error:
            self.failed.add([error.task], error)
        except RestoreStalledError as error:
            self.failed.add([task.key(self._topology.application) for task in sorted(error.tasks)], error)
        return False

    def _restoring(self) -> bool:
        return any(not each.done() for each in self._group.slices())

    def _wait(self, stop: threading.Event, paused: bool) -> None:
        """Until a job or a slice of restoring is done, but not for long: clients come and go, and records come."""
        # A slice that ends while all is paused is taken up when the pause ends.
        working: list[Future[Any]] = [*self._running, *([] if paused else self._group.slices())]
        if working:
            wait(working, POLL_SECONDS, FIRST_COMPLETED)
        else:
            stop.wait(QUIET_POLL_SECONDS if time.monotonic() < self._quiet_until else POLL_SECONDS)

    def _rebalance(self) -> None:
        """Notice clients that come and go. Jobs of those that are gone are cancelled: Spark would wait for an hour."""
        self._rebalancer.advance(self._open_tasks)
        for key, unit in list(self._units.items()):
            if self._group.members.get(unit.member.client.name) is not unit.member:
                del self._units[key]
                unit.lost = True
                unit.job.cancel()

    def _open_epochs(self) -> frozenset[int]:
        return frozenset(each.plan.epoch for each in self._running.values())

    def _open_tasks(self, client: str) -> set[TaskId]:
        return {
            task.id for each in self._running.values() if each.unit.member.client.name == client for task in each.tasks
        }

    def _start_due(self, pool: ThreadPoolExecutor, until_caught_up: bool) -> bool:
        """Begin epochs; whether any task has records to take, now or later. Tasks without any are left out."""
        busy = {id(each.unit) for each in self._running.values()}
        version = self._committed.version
        interval = self._settings.epoch_interval_ms / 1000
        any_unread = False
        passing = self._passing.due(until_caught_up)
        for part, due in self._due(passing):
            for member in self._group.members.values():
                if id(self._units.get((part.number, member.client.name))) in busy:
                    any_unread = True  # its tasks are looked at when its epoch is over, and not each time until then
                    continue
                unread = member.processable(due)
                any_unread = any_unread or bool(unread)
                tasks = [task for task in unread if self._may_run(member, task)]
                if not tasks:
                    continue
                unit = self._unit(part, member)
                now = time.monotonic()
                # With nothing running, nothing more can come before the next epoch: the interval would be waited out.
                eager = until_caught_up and not self._running
                timely = any(task.id in passing for task in tasks)
                if not unit.due(now, interval, version, eager=eager, timely=timely):
                    continue
                unit.started = now
                with timed("planning"):
                    passed = self._passing.planned(task.id for task in tasks)
                    plan = self._plans.plan(unit, tasks, passed)
                for task in tasks:
                    task.start_epoch(plan.epoch)
                opened = OpenEpoch(unit, plan, tuple(tasks), now, time.monotonic() - now, version)
                self._running[pool.submit(self._job, unit, plan, self._troubles.examined)] = opened
        return any_unread

    def _due(self, passing: Set[TaskId]) -> Iterator[tuple[Subtopology, Sequence[TaskId]]]:
        """The tasks of each subtopology that have records to take or something to do as time passes, and have not
        stopped.
        """
        version = self._committed.version
        if self._unread_at != version:  # otherwise they are the same ones: nothing was committed
            self._unread = {part.number: self._planner.with_unread(part) for part in self._topology.subtopologies}
            self._unread_at = version
        application, failed = self._topology.application, self.failed.tasks
        for part in self._topology.subtopologies:
            unread = self._unread[part.number]
            if passing:
                unread = sorted({*unread, *(task for task in passing if task.subtopology == part.number)})
            yield part, [task for task in unread if not failed or task.key(application) not in failed]

    def _may_run(self, member: GroupMember, task: StreamTask) -> bool:
        key = task.id.key(self._topology.application)
        leaves = self._rebalancer.leaves(member.client.name, task.id)
        return not leaves and not self._held(key)

    def _unit(self, part: Subtopology, member: GroupMember) -> Unit:
        key = part.number, member.client.name
        if key not in self._units:
            self._units[key] = Unit(
                part,
                member,
                self._cluster.job(part, member.client, self._topology.application),
                held_globals=member.reader.tables.positions,
            )
        return self._units[key]

    def _job(self, unit: Unit, plan: EpochPlan, examined: Set[TaskKey]) -> Outcomes:
        """In a thread of the pool: run the epoch; if it fails, find the records that do not let it go on."""
        try:
            outcomes = unit.job.run(plan)
            return settled(unit.job, unit.part, plan, outcomes)
        except Exception as error:  # whatever a user's expression or function raises
            if unit.lost or self._cluster.lost(unit.member.client):
                raise ClientLostError(plan.application, unit.member.client.name) from error
            return isolate(unit.job, unit.part, plan, error, examined)

    def _finish(self, future: Future[Outcomes]) -> None:
        """Commit what a job has come to. What a task has given up meanwhile, or its client has taken along, is not."""
        opened = self._running.pop(future)
        unit, plan = opened.unit, opened.plan
        try:
            outcomes, failures = future.result()
        except ClientLostError:
            self._end(opened, ())  # the client may be there again before anybody has noticed
            return
        if unit.lost:
            return
        for failure in failures:
            self.failed.add([failure.task], failure)
        # Before commits without progress are left out: a unit that took nothing is blocked until the log changes.
        unit.took(plan, outcomes, opened.version)
        self._waits.took(outcomes)
        self._end(opened, outcomes)
        try:
            begun = time.monotonic()
            with timed("commit"):
                committed = self._commit(unit.member, opened.tasks)
            if committed > 0:
                self._looking.committed()
            self._reports.ended(opened, outcomes, committed, begun)
            self._troubles.settle(unit.member, opened.tasks, outcomes)
        except DamagedAgainError as error:
            self.failed.add([error.task], error)

    def _commit(self, member: GroupMember, tasks: Sequence[StreamTask]) -> int:
        """How many tasks were committed. Raises DamagedAgainError."""
        try:
            return member.tasks.commit(tasks)
        except TaskCorruptedError as error:  # nobody knows whether the commit was made; the log will tell
            self._group.recover(member, error.tasks, error)
            return 0

    def _end(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome]) -> None:
        """Note what each task has come to; nothing, where it took no record or is in trouble."""
        commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
        made = {commit.partition: commit for commit in commits}
        advancing = {commit.partition: commit for commit in opened.plan.advancing(commits)}
        for task in opened.tasks:
            number = task.id.partition
            task.end_epoch(opened.plan.epoch, opened.plan.assignment, advancing.get(number))
            if number in made and number not in advancing:
                task.offsets.update(made[number].applied)

    def _stranded(self) -> bool:
        """Whether no task can get a record any more, because tasks have stopped."""
        failed, ended = self.failed.tasks, self._ended()
        return bool(failed or ended) and stranded(self._topology, failed, ended)

    def _nothing_left(self) -> bool:
        """Whether no unit can take a record as things stand; notes what has to wait, and for whom."""
        version = self._committed.version
        placed: set[TaskId] = set()
        waiting = 0
        for part in self._topology.subtopologies:
            for member in self._group.members.values():
                unit = self._units.get((part.number, member.client.name))
                tasks = [task.id for task in member.tasks.active if task.id.subtopology == part.number]
                placed.update(tasks)
                application = self._topology.application
                count = self._planner.unread(task for task in tasks if task.key(application) not in self.failed.tasks)
                # The unit has not tried since the last commit, so it may be able to take these records now.
                if count and (unit is None or unit.blocked_at != version):
                    return False
                waiting += count
        waiting += self._planner.unread(task for task in tasks_of(self._topology) if task not in placed)
        self.tally.waiting = waiting
        self.tally.empty = self._committed.empty()
        if self.tally.waiting:
            own = (self._topology.application,) if self.failed.tasks else ()
            self.tally.waits_for = (*own, *self._committed.behind())
            self._observer.on(Waiting(self._topology.application, self.tally.waiting, self.tally.waits_for))
        return True
