"""Runs applications: claims each, places its tasks, restores their state, loops, closes clean.

One Spark session serves all topologies of a run; each has its own generation, commits and loop. A run until caught up
takes them in the order given, which is graph order; a lasting run lets them work side by side.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ...errors import HeadwaterError
from ..log.garbage import collect_garbage
from ..log.records import INCARNATION
from ..topology import Settings, Topology
from .assigned import Assigned
from .clients import ExecutorWatch
from .committed import Committed, describe
from .committer import Committer
from .compatibility import differences
from .errors import FencedError, IncompatibleStateError
from .events import ApplicationStarted, ApplicationStopped, AssignmentFailed, Observer, Silent, TasksPlaced
from .group import Group
from .idleness import TaskKey
from .loop import EpochLoop, Tally
from .plugged import Plugged, origin_of
from .results import ApplicationResult, RunResults, Status
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
    in its result. It ends a lasting run, by setting `stop`; a run until caught up goes on with the others.
    """
    started, begun = time.time_ns() // 1_000_000, time.monotonic()
    stop = stop or threading.Event()
    observer = observer or Silent()
    spark = session or start_session(settings.spark)
    try:
        runs = [ApplicationRun(spark, topology, settings, observer, held) for topology in topologies]
        if until_caught_up:
            results = [run.run(stop, True) for run in runs]
        else:
            with ThreadPoolExecutor(max(1, len(runs))) as pool:
                results = list(pool.map(lambda run: _lasting(run, stop), runs))
    finally:
        if session is None:
            spark.stop()
    return RunResults(started, time.monotonic() - begun, tuple(results))


def _lasting(run: ApplicationRun, stop: threading.Event) -> ApplicationResult:
    """Run an application among others, which end when it does, however it does."""
    try:
        return run.run(stop, False)
    finally:
        stop.set()


class ApplicationRun:
    """One application from its claim to its close."""

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        settings: Settings,
        observer: Observer,
        held: Callable[[TaskKey], bool],
    ) -> None:
        self._session = session
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._held = held

    def run(self, stop: threading.Event, until_caught_up: bool) -> ApplicationResult:
        """Run it; never raises a HeadwaterError, which becomes the result's `error`."""
        begun = time.monotonic()
        application = self._topology.application
        status: Status = "failed"
        error: HeadwaterError | None = None
        generation, restored = -1, 0
        assigned: Assigned | None = None
        loop: EpochLoop | None = None
        try:
            plugged = Plugged(origin_of(self._settings))
            log = plugged.log(self._settings.log)
            log.check()
            committed = Committed(log, self._topology)
            with Group(self._session, self._topology, self._settings, committed, plugged) as group:
                self._check(committed)
                incarnation = committed.own.incarnation or uuid.uuid4().hex
                assigned = self._assigned(group.place(incarnation))
                committer = Committer(committed.own)
                description = {**describe(self._topology, committed.begun), INCARNATION: incarnation}
                generation = committer.claim(description, assigned.to_json())
                collect_garbage(log, application, committed.own)
                units, restored = group.start()
                self._observer.on(
                    ApplicationStarted(application, generation, sum(len(unit.partitions) for unit in units), restored)
                )
                loop = EpochLoop(
                    self._topology,
                    self._settings,
                    committed,
                    committer,
                    units,
                    self._observer,
                    self._held,
                    ExecutorWatch(self._session).lost,
                )
                loop.run(stop, until_caught_up)
                group.close()
            status = "caught_up" if loop.tally.caught_up else "interrupted"
            if loop.tally.failure is not None:
                status, error = "failed", loop.tally.failure
        except FencedError as fenced:
            status, error = "fenced", fenced
        except HeadwaterError as failed:
            status, error = "failed", failed
        tally = loop.tally if loop is not None else Tally()
        self._observer.on(ApplicationStopped(application, status, tally.records, tally.commits))
        return ApplicationResult(
            application=application,
            status=status,
            generation=generation,
            commits=tally.commits,
            records=tally.records,
            seconds=time.monotonic() - begun,
            dropped=dict(tally.dropped),
            restored=restored,
            waiting=tally.waiting,
            waits_for=tally.waits_for,
            error=None if error is None else str(error),
            assignment={} if assigned is None else assigned.by_client(),
            placement=None if assigned is None else assigned.told(),
        )

    def _assigned(self, assigned: Assigned) -> Assigned:
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
        """Refuse to start on state that means something else. Raises IncompatibleStateError."""
        own = committed.own
        own.refresh()  # whoever held the state directories until now may have committed
        found = tuple(differences(own.topology, describe(self._topology, committed.begun), own.consumed))
        if found:
            raise IncompatibleStateError(self._topology.application, found)
