"""Runs applications: places the tasks of each, claims it, restores its state, runs its loop and closes it.

One cluster serves all topologies of a run. Each topology has its own generation, commits and loop. A run until caught
up takes them in the given order, which is graph order. A lasting run works on all of them at the same time.

A run looks at all of its applications at its start, and does not claim one that another run has claimed since. Once one
of its applications has been taken over, it claims no other. So a run that was suspended gives way to a newer one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...errors import HeadwaterError
from ..log.descriptions import TopologyDescription
from ..log.errors import FullyRefreshedError
from ..log.garbage import collect_garbage
from ..placing.assigned import Assigned
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.errors import FencedError
from ..progress.global_task import GlobalTask
from ..task_id import TaskKey
from ..topology import Settings, Topology
from .beginning import Begun, check_log, check_state, look
from .cluster import Cluster
from .epoch_commits import EpochCommits, Tally
from .failures.user_errors import user_error
from .group.group import Group
from .loop import EpochLoop
from .pausing import Pause, check_not_paused
from .reports.event_texts import lost
from .reports.events import (
    ApplicationStarted,
    ApplicationStopped,
    AssignmentFailed,
    Event,
    NothingToRead,
    Observer,
    Silent,
    StoreLost,
    TasksPlaced,
)
from .reports.results import ApplicationResult, RunResults, Status
from .reports.status_writer import StatusWriter


def run_topologies(
    topologies: Sequence[Topology],
    settings: Settings,
    cluster: Cluster,
    *,
    until_caught_up: bool,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
    held: Callable[[TaskKey], bool] = lambda _: False,
) -> RunResults:
    """Run applications on a cluster until they are caught up, or until `stop` is set.

    An error of an application is in its result. It ends a lasting run, by setting `stop`. A run until caught up goes on
    with the other applications, unless another run has taken one of them over. Raises OtherLogError.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    stop = stop or threading.Event()
    observer = observer or Silent()
    try:
        check_log(topologies, settings, cluster.state_dir(settings))
        claimed: list[Committer] = []
        runs = [ApplicationRun(cluster, topology, settings, observer, held, claimed) for topology in topologies]
        # All of them before the first claim: a run must see what others have claimed up to the moment when it began.
        for run in runs:
            run.begin()
        if until_caught_up:
            results = [_in_turn(run, stop) for run in runs]
        else:
            with ThreadPoolExecutor(max(1, len(runs))) as pool:
                results = list(pool.map(lambda run: _lasting(run, stop), runs))
    finally:
        if not until_caught_up:
            stop.set()  # others may wait for it, and nothing runs any more
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _in_turn(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application after others. If it is taken over, the following ones are not started."""
    result = run.run(stop, True)
    if result.status == "fenced":
        stop.set()
    return result


def _lasting(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application beside others. When it ends in any way, the others end too."""
    try:
        return run.run(stop, False)
    finally:
        stop.set()


class ApplicationRun:
    """One application from its claim to its close.

    `claimed`: what the run has claimed so far, of all its applications.
    """

    def __init__(
        self,
        cluster: Cluster,
        topology: Topology,
        settings: Settings,
        observer: Observer,
        held: Callable[[TaskKey], bool],
        claimed: list[Committer],
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._held = held
        self._claimed = claimed
        self._begun: Begun | HeadwaterError | None = None
        self._assigned: Assigned | None = None
        self._generation = -1
        self._restored = 0
        self._loop: EpochLoop | None = None
        self._status: StatusWriter | None = None
        self._lost: list[str] = []

    def begin(self) -> None:
        """Look at what the application has committed, before the run claims anything.

        `run` reports an error of this.
        """
        try:
            self._begun = look(self._topology, self._settings)
        except Exception as failed:
            self._begun = user_error(failed, self._cluster)
            if self._begun is None:
                raise

    def on(self, event: Event) -> None:
        """Record the stores that have lost their rows, and pass on all events of the group."""
        if isinstance(event, StoreLost):
            self._lost.append(lost(event.store, event.partition, event.client))
        self._observer.on(event)

    def run(self, stop: threading.Event, until_caught_up: bool) -> ApplicationResult:
        """Run it. A HeadwaterError is not raised; it becomes the result's `error`."""
        begun = time.monotonic()
        status: Status = "failed"
        error: HeadwaterError | None = None
        try:
            status = self._run(stop, until_caught_up)
            error = self._loop.failed.first if self._loop is not None else None
        except FencedError as fenced:
            status, error = "fenced", fenced
        except FullyRefreshedError as again:
            own = again.application == self._topology.application
            status, error = ("fenced", FencedError(again.application, None, None)) if own else ("failed", again)
        except Exception as failed:
            error = user_error(failed, self._cluster)
            if error is None:
                raise
        return self._ended(status, error, time.monotonic() - begun)

    def _run(self, stop: threading.Event, until_caught_up: bool) -> Status:
        begun = self._begun or look(self._topology, self._settings)
        if isinstance(begun, HeadwaterError):
            raise begun
        if stop.is_set():
            return "not_started"
        if until_caught_up:
            check_not_paused(self._topology, begun.log)
        committed = Committed(begun.log, self._topology, begun.own)
        with Group(self._cluster, self._topology, self._settings, committed, begun.plugins, self) as group:
            check_state(self._topology, committed)
            incarnation = committed.own.incarnation or uuid.uuid4().hex
            commits = EpochCommits(begun.committer, committed, GlobalTask(self._topology, committed))
            group.join(incarnation, commits)
            assigned = group.place()
            self._placed(assigned)
            if stop.is_set():
                return "not_started"
            description = TopologyDescription.of(self._topology, committed.begun, incarnation)
            self._claim(begun.committer, description, assigned)
            self._generation = begun.committer.generation
            # After the claim: commits of older generations are refused from here on, so their files are garbage.
            collect_garbage(begun.log, self._topology.application, committed.own)
            self._status = StatusWriter(
                self._topology, self._settings, committed, self._generation, group, commits.tally
            )
            group.assign(assigned, begun.committer.number)
            self._status.write()  # the first jobs may take long to begin, and the last run's status stands there
            self._started(group, committed)
            loop = self._loop = EpochLoop(
                self._topology,
                self._settings,
                self._cluster,
                committed,
                begun.committer,
                commits,
                group,
                Pause(begun.log, self._topology.application, self._observer),
                self._observer,
                self._held,
                self._placed,
                self._status.write_if_due,
            )
            loop.run(stop, until_caught_up)
            self._status.write()  # once the tasks are closed, there is nothing to be told of them
            # Only after a loop that ended without an error. Else `__exit__` closes the stores without applying
            # anything.
            try:
                group.close()
            except HeadwaterError:
                if loop.failed.first is None:  # else that has ended the run, and is told
                    raise
        if loop.failed.first is not None:
            return "failed"
        return "caught_up" if loop.tally.caught_up else "interrupted"

    def _started(self, group: Group, committed: Committed) -> None:
        """Tell that the tasks are with their clients."""
        tasks = [task for member in group.members.values() for task in member.tasks.active]
        self._restored = sum(bool(task.stores) for task in tasks)
        application = self._topology.application
        self._observer.on(ApplicationStarted(application, self._generation, len(tasks), self._restored))
        if empty := committed.empty():
            self._observer.on(NothingToRead(application, empty))

    def _claim(self, committer: Committer, description: TopologyDescription, assigned: Assigned) -> None:
        """Claim the application, unless the run has lost another one, because then it is not the newest run."""
        for each in self._claimed:
            each.check()
        committer.claim(description, assigned.to_json())
        self._claimed.append(committer)

    def _ended(self, status: Status, error: HeadwaterError | None, seconds: float) -> ApplicationResult:
        tally = self._loop.tally if self._loop is not None else Tally()
        application, assigned = self._topology.application, self._assigned
        if self._status is not None:
            self._status.end(status)
        self._observer.on(ApplicationStopped(application, status, tally.records, tally.commits))
        return ApplicationResult(
            application=application,
            status=status,
            generation=self._generation,
            commits=tally.commits,
            records=tally.records,
            seconds=seconds,
            dropped=dict(tally.dropped),
            restored=self._restored,
            waiting=tally.waiting,
            waits_for=tally.waits_for,
            empty=tally.empty,
            error=None if error is None else str(error),
            assignment={} if assigned is None else assigned.by_client(),
            placement=None if assigned is None else assigned.summary(),
            lost=tuple(self._lost),
        )

    def _placed(self, assigned: Assigned) -> None:
        """Tell how the tasks were placed."""
        self._assigned = assigned
        application, failure = self._topology.application, assigned.failure
        if failure is not None:
            self._observer.on(AssignmentFailed(application, assigned.assignor, failure.message, failure.entries))
        else:
            self._observer.on(
                TasksPlaced(
                    application,
                    assigned.assignor,
                    len(assigned.clients),
                    assigned.kept,
                    assigned.new,
                    assigned.moves,
                    assigned.unassigned,
                    assigned.followup_deadline,
                )
            )
