"""Runs applications: places the tasks of each, claims it, restores their state, loops, closes clean.

One Spark session serves all topologies of a run; each has its own generation, commits and loop. A run until caught up
takes them in the order given, which is graph order; a lasting run lets them work side by side.

A run looks at all of its applications when it begins, and claims none that another run has claimed since. Once one of
its applications is taken over, it claims no other: so a run that was stopped and continued gives way to a newer one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import HeadwaterError
from ..log.errors import StartedAgainError
from ..log.garbage import collect_garbage
from ..log.log import Log
from ..log.records import INCARNATION
from ..log.state import LogState
from ..state.known_log import check_known_by, place_of
from ..topology import Settings, Topology
from .assigned import Assigned
from .clients import ExecutorWatch, has_executors
from .committed import Committed, describe
from .committer import Committer
from .compatibility import differences
from .errors import ConsumedRecordsMissingError, FencedError, IncompatibleStateError
from .events import (
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
from .failures import told
from .group import Group
from .idleness import TaskKey
from .inputs import check_topics
from .loop import EpochLoop, Tally
from .plugged import Plugged, origin_of
from .positions import gaps
from .results import ApplicationResult, RunResults, Status
from .sentences import lost
from .session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_topologies(
    topologies: Sequence[Topology],
    settings: Settings,
    *,
    until_caught_up: bool,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
    session: SparkSession | None = None,
    held: Callable[[TaskKey], bool] = lambda _: False,
) -> RunResults:
    """Run applications until they are caught up, or until `stop` is set.

    `session`: a Spark session that stays open; without one, one is started and stopped. An error of one application is
    in its result. It ends a lasting run, by setting `stop`; a run until caught up goes on with the others, unless one
    of them was taken over by another run.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    stop = stop or threading.Event()
    observer = observer or Silent()
    spark = session or start_session(settings.spark)
    try:
        claimed: list[Committer] = []
        runs = [ApplicationRun(spark, topology, settings, observer, held, claimed) for topology in topologies]
        for run in runs:
            run.begin()
        if until_caught_up:
            results = [_in_turn(run, stop) for run in runs]
        else:
            with ThreadPoolExecutor(max(1, len(runs))) as pool:
                results = list(pool.map(lambda run: _lasting(run, stop), runs))
    finally:
        if not until_caught_up:
            stop.set()  # whoever else waits for it: nothing runs any more
        if session is None:
            spark.stop()
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _in_turn(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application after others; when it is taken over, those that follow are not started."""
    result = run.run(stop, True)
    if result.status == "fenced":
        stop.set()
    return result


def _lasting(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application among others, which end when it does, however it does."""
    try:
        return run.run(stop, False)
    finally:
        stop.set()


@dataclass(frozen=True)
class _Begun:
    """An application as the run found it when it began."""

    plugged: Plugged
    log: Log
    own: LogState
    committer: Committer


class ApplicationRun:
    """One application from its claim to its close. `claimed`: what the run has claimed so far, of all applications."""

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        settings: Settings,
        observer: Observer,
        held: Callable[[TaskKey], bool],
        claimed: list[Committer],
    ) -> None:
        self._session = session
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._held = held
        self._claimed = claimed
        self._begun: _Begun | HeadwaterError | None = None
        self._assigned: Assigned | None = None
        self._generation = -1
        self._restored = 0
        self._loop: EpochLoop | None = None
        self._lost: list[str] = []

    def begin(self) -> None:
        """Look at what the application has committed, before anything of the run is claimed. An error is for `run`."""
        try:
            self._begun = self._look()
        except Exception as failed:
            self._begun = told(failed)
            if self._begun is None:
                raise

    def on(self, event: Event) -> None:
        """Take note of what its stores have lost, and pass on all events of the group."""
        if isinstance(event, StoreLost):
            self._lost.append(lost(event.store, event.partition, event.client))
        self._observer.on(event)

    def run(self, stop: threading.Event, until_caught_up: bool) -> ApplicationResult:
        """Run it; never raises a HeadwaterError, which becomes the result's `error`."""
        begun = time.monotonic()
        status: Status = "failed"
        error: HeadwaterError | None = None
        try:
            status = self._run(stop, until_caught_up)
            error = self._loop.tally.failure if self._loop is not None else None
        except FencedError as fenced:
            status, error = "fenced", fenced
        except StartedAgainError as again:
            own = again.application == self._topology.application
            status, error = ("fenced", FencedError(again.application, None, None)) if own else ("failed", again)
        except Exception as failed:
            error = told(failed)
            if error is None:
                raise
        return self._ended(status, error, time.monotonic() - begun)

    def _look(self) -> _Begun:
        plugged = Plugged(origin_of(self._settings))
        log = plugged.log(self._settings.log)
        ref, state_dir = self._settings.log, Path(self._settings.state_dir)
        if not has_executors(
            self._session.sparkContext.master
        ):  # before a new log is made in the place of one that is missing
            place = place_of(ref.name, ref.options)
            check_known_by(state_dir, [self._topology.application], log.identity(), place)
        log.check()
        own = LogState.load(log.commits(self._topology.application))
        return _Begun(plugged, log, own, Committer(own))

    def _run(self, stop: threading.Event, until_caught_up: bool) -> Status:
        begun = self._begun or self._look()
        if isinstance(begun, HeadwaterError):
            raise begun
        if stop.is_set():
            return "not_started"
        committed = Committed(begun.log, self._topology, begun.own)
        with Group(self._session, self._topology, self._settings, committed, begun.plugged, self) as group:
            self._check(committed)
            incarnation = committed.own.incarnation or uuid.uuid4().hex
            assigned = self._place(group, incarnation)
            if stop.is_set():
                return "not_started"
            description = {**describe(self._topology, committed.begun), INCARNATION: incarnation}
            self._claim(begun.committer, description, assigned)
            self._generation = begun.committer.generation
            collect_garbage(begun.log, self._topology.application, committed.own)
            units, self._restored = group.start()
            tasks = sum(len(unit.partitions) for unit in units)
            self._observer.on(ApplicationStarted(self._topology.application, self._generation, tasks, self._restored))
            if empty := committed.empty():
                self._observer.on(NothingToRead(self._topology.application, empty))
            loop = self._loop = EpochLoop(
                self._topology,
                self._settings,
                committed,
                begun.committer,
                units,
                self._observer,
                self._held,
                ExecutorWatch(self._session).lost,
                group.recover,
            )
            loop.run(stop, until_caught_up)
            group.close()
        if loop.tally.failure is not None:
            return "failed"
        return "caught_up" if loop.tally.caught_up else "interrupted"

    def _claim(self, committer: Committer, description: Mapping[str, Any], assigned: Assigned) -> None:
        """Claim the application, unless the run has lost another one: it is no longer the newest then."""
        for each in self._claimed:
            each.check()
        committer.claim(description, assigned.to_json())
        self._claimed.append(committer)

    def _ended(self, status: Status, error: HeadwaterError | None, seconds: float) -> ApplicationResult:
        tally = self._loop.tally if self._loop is not None else Tally()
        application, assigned = self._topology.application, self._assigned
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
            placement=None if assigned is None else assigned.told(),
            lost=tuple(self._lost),
        )

    def _place(self, group: Group, incarnation: str) -> Assigned:
        """Have the tasks placed, and tell how."""
        assigned = self._assigned = group.place(incarnation)
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
        return assigned

    def _check(self, committed: Committed) -> None:
        """Refuse to start on state that means something else.

        Raises WriterChangedError, TopicChangedError, IncompatibleStateError, ConsumedRecordsMissingError.
        """
        own = committed.own
        own.refresh()  # whoever held the state directories until now may have committed
        committed.refresh()  # after it, so that no writer is older than what was consumed of it
        check_topics(self._topology, committed)
        found = tuple(differences(own.topology, describe(self._topology, committed.begun), own.consumed))
        if found:
            raise IncompatibleStateError(self._topology.application, found)
        missing = tuple(gaps(self._topology, committed))
        if missing:
            raise ConsumedRecordsMissingError(self._topology.application, missing)
