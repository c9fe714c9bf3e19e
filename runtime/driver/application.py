"""An application of a run, from its start to its result."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError, UnavailableError
from ..changes.found import RECORDS_MISSING, changes_of, lost_records
from ..changes.model import Change, IncompatibleStateError, Verdict
from ..changes.moves import RESET, with_real_ways
from ..chosen_plugins import ChosenPlugins, log_of, origin_of
from ..ir.topology import Settings, Topology
from ..kafka.polling import RETRY_SECONDS
from ..kafka.worker import offsets_of
from ..log.commit.descriptions import TopologyDescription
from ..log.errors import FullyRefreshedError
from ..log.placed_log import PlacedLog
from ..log.state import LoadedStates, LogState
from ..placing.assigned import Assigned
from ..progress.committed import Committed
from ..progress.committer import Committer, ConsumedRecordsMissingError, FencedError
from ..progress.kafka_ends import with_partitions
from ..progress.kafka_targets import check_targets, with_target_ids
from ..progress.planner import Planner, beginnings
from ..progress.positions import GlobalTask, check_raw_positions
from ..state.directory import check_same_log_for, log_location, take_over_rebuild
from .client_events import AssignmentFailed, StoreLost, TasksPlaced
from .epoch_plans import ClaimedApplication
from .epochs import EpochCommits, Tally
from .errors import ClusterEndedError, EpochCutOffError
from .events import ApplicationStarted, ApplicationStopped, ClusterEnded, Event, NothingToRead
from .failures import Outages, user_error
from .group import Group
from .kafka_starts import check_written_formats
from .loop import EpochLoop, LoopState, RunContext
from .removal import FileRemoval
from .results import ApplicationResult, Status
from .status_writer import Monitor
from .stopping import check_not_paused
from .upkeep import Upkeep

# The state of an application in the log at the start of a run, and its checks. None of this needs Spark.


@dataclass(frozen=True)
class StartState:
    """The committed state of an application at the start of a run. `identity`: of the log."""

    plugins: ChosenPlugins
    log: PlacedLog
    own: LogState
    committer: Committer
    identity: str


def check_log(topologies: Iterable[Topology], settings: Settings, state_dir: Path | None) -> None:
    """Check that the stores on this machine were made from this log. Raises OtherLogError.

    It is called for all topologies of a run before any of them creates a new log in place of a missing one.
    `state_dir`: the directory of the stores; None if clients run on machines of their own.
    """
    if state_dir is not None:
        location, identity = log_location(settings.log.name, settings.log.options), log_of(settings).identity()
        names = [topology.application for topology in topologies]
        names += [former for name in names for former in settings.former_names.get(name, ())]
        check_same_log_for(state_dir, names, identity, location)


class LogGoneError(HeadwaterError):
    """The log of a running application has disappeared: `application`, `log`."""

    def __init__(self, application: str, log: str) -> None:
        super().__init__(
            f"the log at {log} has disappeared while {application} ran: it was removed, moved, or is not mounted",
            "put it back and run again: all commits count, and nothing else was changed",
        )
        self.application = application
        self.log = log


def missing_commits_error(start: StartState, topology: Topology, settings: Settings) -> HeadwaterError | None:
    """The error of a run whose commits have disappeared, or the whole log. None if a full refresh has removed them."""
    try:
        if start.log.identity() != start.identity:
            return LogGoneError(topology.application, log_location(settings.log.name, settings.log.options))
        start.log.commits(topology.application).latest()
    except HeadwaterError as error:
        return error
    return None


def load_start_state(topology: Topology, settings: Settings, loaded: LoadedStates) -> StartState:
    """The committed state of an application. `loaded`: states of all applications of a run. Raises LogError."""
    plugins = ChosenPlugins(origin_of(settings))
    log = log_of(settings, loaded)
    log.check()
    own = LogState.load(log.commits(topology.application))
    return StartState(plugins, log, own, Committer(own), log.identity())


def check_state(topology: Topology, committed: Committed, decided_changes: Sequence[Change] = ()) -> None:
    """Check that the committed state fits the topology.

    `decided_changes`: changes with the verdict that this run has decided on (see `StartChanges.decided`). The next run
    handles a store reset that was requested since.

    Raises IncompatibleStateError, ConsumedRecordsMissingError, RawRecordsMissingError.
    """
    own = committed.own
    own.refresh()  # the previous owner of the state directories may have committed
    committed.refresh()  # second, so that every writer is at least as new as the records consumed from it
    decided = {(change.kind, change.subject) for change in decided_changes}
    changes = (change for change in changes_of(topology, committed) if change.kind != RESET)
    undecided = (change for change in changes if (change.kind, change.subject) not in decided)
    errors = with_real_ways(change for change in (*decided_changes, *undecided) if change.verdict is Verdict.ERROR)
    if incompatible := [change for change in errors if change.kind != RECORDS_MISSING]:
        raise IncompatibleStateError(topology.application, incompatible)
    missing = tuple(lost_records(topology, committed))
    if missing:
        raise ConsumedRecordsMissingError(topology.application, missing)
    check_raw_positions(topology, committed)


_START = "start"
"""What an application waits for whose start needs an answer of Kafka, see `Outages`."""


class ApplicationRun:
    """Runs one application: assigns its tasks, claims it, restores its state, runs its loop and closes it.

    `changes`: its changes with the verdicts of this run, see `StartChanges.decided`.
    """

    def __init__(self, run: RunContext, topology: Topology, settings: Settings, changes: Sequence[Change] = ()) -> None:
        self._run_context = run
        self._cluster = run.cluster
        self._observer = run.observer
        self._topology = topology
        self._settings = settings
        self._changes = changes
        self._start: StartState | HeadwaterError | None = None
        self._assigned: Assigned | None = None
        self._generation = -1
        self._restored = 0
        self._loop: EpochLoop | None = None
        self._monitor: Monitor | None = None
        self._lost: list[str] = []
        self._tally = Tally()
        self._outages = Outages(topology.application, run.observer) if run.lasting else None

    @property
    def was_stopped_by_records(self) -> bool:
        """Whether it has ended because no task can get a record any more: its own have stopped, or those of others."""
        return self._loop is not None and self._loop.state is LoopState.CAUGHT_UP

    def begin(self, generation: int = -1) -> None:
        """Load the committed state, before the run claims anything. `run` raises the errors of this.

        `generation`: of this run's earlier claim, if there was one: then another generation is that of a newer run.
        """
        try:
            self._start = start = load_start_state(self._topology, self._settings, self._run_context.loaded)
            present = start.own.generation
            if generation not in (-1, present):
                raise FencedError(self._topology.application, generation, present if present > generation else None)
        except Exception as failed:
            self._start = user_error(failed, self._cluster)
            if self._start is None:
                raise

    def leave(self) -> None:
        """Forget this claim, as the run may claim the application again."""
        claimed = self._run_context.claimed
        if isinstance(self._start, StartState) and self._start.committer in claimed:
            claimed.remove(self._start.committer)

    def on(self, event: Event) -> None:
        """Note stores that have lost their rows, and pass on the events of the group."""
        if isinstance(event, StoreLost):
            self._lost.append(event.said)
        self._observer.on(event)

    def run(self, stop: threading.Event, until_caught_up: bool) -> ApplicationResult:
        """Run the application. A HeadwaterError is not raised, but the result's `error`."""
        begun = time.monotonic()
        status: Status = "failed"
        error: HeadwaterError | None = None
        try:
            status = self._once_answered(stop, until_caught_up)
            while self._grows() and not stop.is_set():
                status = self._once_answered(stop, until_caught_up)
            error = self._loop.failed.error if self._loop is not None else None
        except (FencedError, FullyRefreshedError) as fenced:
            status, error = self._fenced(fenced)
        except Exception as failed:
            error = user_error(failed, self._cluster)
            if error is None:
                raise
            if isinstance(error, ClusterEndedError) and stop.is_set():
                status, error = self._cut_off(error), None
        return self._result(status, error, time.monotonic() - begun)

    def _once_answered(self, stop: threading.Event, until_caught_up: bool) -> Status:
        """`_run`. In a lasting run it begins again while Kafka does not answer at the start of the application."""
        while True:
            try:
                return self._run(stop, until_caught_up)
            except UnavailableError as error:
                if self._loop is not None or self._outages is None:
                    raise
                self._outages.begin(_START, error.message)
                if stop.wait(RETRY_SECONDS):
                    return "not_started"
                self.begin(self._generation)

    def _grows(self) -> bool:
        """Whether topics in Kafka have got more partitions. The topology has them from now on, for another claim."""
        loop = self._loop
        if loop is None or not loop.added or loop.failed.error is not None:
            return False
        self._topology, self._loop = with_partitions(self._topology, loop.added), None
        self.leave()
        self.begin(self._generation)
        return True

    def _fenced(self, error: FencedError | FullyRefreshedError) -> tuple[Status, HeadwaterError]:
        """Status and error of a run that finds other commits than its own, or none: another run has taken over, or the
        log has disappeared.
        """
        refreshed = isinstance(error, FullyRefreshedError) or error.generation is None
        if refreshed and isinstance(self._start, StartState):
            cause = missing_commits_error(self._start, self._topology, self._settings)
            if cause is not None:
                return "failed", cause
        if isinstance(error, FencedError):
            return "fenced", error
        own = error.application == self._topology.application
        return ("fenced", FencedError(error.application, None, None)) if own else ("failed", error)

    def _cut_off(self, error: ClusterEndedError) -> Status:
        """Status of a run whose cluster has ended while it was stopping.

        A signal to every process of a service (systemd's default) has this effect. It is no failure: all commits count.
        """
        cause = error.cause if isinstance(error, EpochCutOffError) else error.message
        self._observer.on(ClusterEnded(self._topology.application, cause))
        return "interrupted"

    def _run(self, stop: threading.Event, until_caught_up: bool) -> Status:
        start = self._start or load_start_state(self._topology, self._settings, self._run_context.loaded)
        if isinstance(start, HeadwaterError):
            raise start
        if stop.is_set():
            return "not_started"
        if until_caught_up and not self._run_context.lasting:
            check_not_paused(self._topology, start.log)
        if self._topology.is_mirror and self._settings.kafka:
            self._topology = with_target_ids(self._topology, start.own, offsets_of(self._settings.kafka))
            check_targets(self._topology, start.own)
        committed = Committed(start.log, self._topology, start.own, kafka=self._run_context.kafka)
        state_dir = self._cluster.state_dir(self._settings)
        if state_dir is not None:  # the run that has rebuilt them may have ended before it moved them
            take_over_rebuild(state_dir, self._topology.application, committed.own.incarnation)
        removal = FileRemoval(start.log, committed.own, self._settings.file_delete_delay_ms / 1000)
        with (
            Upkeep(committed.own, removal, self._observer) as upkeep,
            Group(self._cluster, self._topology, self._settings, committed, start.plugins, self) as group,
        ):
            check_state(self._topology, committed, self._changes)
            check_written_formats(self._topology, self._settings.kafka, start.plugins.serde)
            start.log.settle(self._topology.application)  # after the checks, as errors change nothing
            incarnation = committed.own.incarnation or uuid.uuid4().hex
            counted = GlobalTask(self._topology, committed)
            commits = EpochCommits(start.committer, committed, counted, removal, self._tally)
            group.join(incarnation, commits)
            assigned = group.place()
            self._placed(assigned)
            if stop.is_set():
                return "not_started"
            self._claim(start.committer, incarnation, assigned, committed)
            if self._settings.beside and self._run_context.lasting:  # else it would never catch up with new records
                committed.stop_at_ends([self._topology.application])
            app = self._application(start.committer, committed, commits, group)
            self._monitor = Monitor.build(app, self._observer, self._will_start)
            group.assign(assigned, start.committer.number)
            self._monitor.status.write()  # replaces that of the last run before the first jobs, which may start late
            self._report_start(group, committed)
            loop = self._loop = EpochLoop(app, self._run_context, upkeep, self._monitor, self._placed, self._outages)
            if self._outages is not None:
                self._outages.end(_START)
            loop.run(stop, until_caught_up)
            self._monitor.status.write()  # the last one with tasks, as these are closed now
            # Only after a loop without an error. Else `__exit__` closes the stores without applying anything.
            try:
                group.close()
            except HeadwaterError:
                if loop.failed.error is None:  # else that one has ended the run
                    raise
        if loop.failed.error is not None:
            return "failed"
        return "caught_up" if loop.state is LoopState.CAUGHT_UP else "interrupted"

    def _application(
        self, committer: Committer, committed: Committed, commits: EpochCommits, group: Group
    ) -> ClaimedApplication:
        planner = Planner(committed, self._settings.max_records, self._settings.max_bytes)
        return ClaimedApplication(self._topology, self._settings, committed, committer, commits, group, planner)

    def _will_start(self, application: str) -> bool:
        """Whether another application of this run may still start or restart in it."""
        run = self._run_context
        members = {topology.application for topology in run.topologies}
        return run.lasting and application in members and application not in run.ended

    def _report_start(self, group: Group, committed: Committed) -> None:
        """Report the start of the tasks."""
        tasks = [task for member in group.members.values() for task in member.tasks.active]
        self._restored = sum(bool(task.stores) for task in tasks)
        application = self._topology.application
        self._observer.on(ApplicationStarted(application, self._generation, len(tasks), self._restored))
        if empty := committed.empty():
            self._observer.on(NothingToRead(application, empty))

    def _claim(self, committer: Committer, incarnation: str, assigned: Assigned, committed: Committed) -> None:
        """Claim the application, unless the run has lost another one: then a newer run is at work."""
        for earlier in self._run_context.claimed:
            earlier.check()
        description = TopologyDescription.from_topology(
            self._topology, committed.begun, incarnation, before=committed.own.topology
        )
        committer.claim(
            description, assigned.to_json(), lambda: beginnings(self._topology, committed), lambda: committed.kafka.ends
        )
        self._run_context.claimed.append(committer)
        self._generation = committer.generation

    def _result(self, status: Status, error: HeadwaterError | None, seconds: float) -> ApplicationResult:
        tally = self._tally
        application, assigned = self._topology.application, self._assigned
        writer = None if self._monitor is None else self._monitor.status
        if writer is not None:
            writer.end(status, error, self._loop.failed.tasks if self._loop is not None else ())
        message = None if error is None else str(error)
        self._observer.on(ApplicationStopped(application, status, tally.records, tally.commits, message))
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
            error=message,
            raised=error,
            assignment={} if assigned is None else assigned.by_client(),
            placement=None if assigned is None else assigned.summary(),
            lost=tuple(self._lost),
            metrics=None if writer is None else writer.last,
            dead_letters=self._dead_letters(tally.dropped),
        )

    def _dead_letters(self, dropped: Iterable[str]) -> tuple[str, ...]:
        """The topics of dead letters; empty if no record is in them."""
        if not any(reason.endswith(":dead_letter") for reason in dropped):
            return ()
        parts = self._topology.subtopologies
        return tuple(sorted({topic.name for part in parts for topic in part.dead_letters.values()}))

    def _placed(self, assigned: Assigned) -> None:
        """Report an assignment."""
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
