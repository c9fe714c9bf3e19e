"""An application of a run."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.found import RECORDS_MISSING, changes_of, lost_records
from ..changes.model import Change, IncompatibleStateError, Verdict
from ..changes.moves import RESET, with_real_ways
from ..chosen_plugins import ChosenPlugins, log_of, origin_of
from ..ir.topology import Settings, Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.errors import FullyRefreshedError
from ..log.placed_log import PlacedLog
from ..log.state import LogState
from ..placing.assigned import Assigned
from ..progress.committed import Committed
from ..progress.committer import Committer, ConsumedRecordsMissingError, FencedError
from ..progress.planner import Planner, beginnings
from ..progress.positions import GlobalTask
from ..state.directory import check_same_log_for, log_location, take_over_rebuild
from ..task_id import TaskKey
from .cluster import Cluster
from .counters import Counters
from .epoch_plans import Looking, MadeCommits
from .epochs import EpochCommits, Feed, Tally
from .errors import ClusterEndedError, EpochCutOffError
from .event_texts import lost
from .events import (
    ApplicationStarted,
    ApplicationStopped,
    AssignmentFailed,
    ClusterEnded,
    Event,
    NothingToRead,
    Observer,
    StoreLost,
    TasksPlaced,
)
from .failures import FailedTasks, user_error
from .group import Group
from .loop import EpochLoop
from .removal import FileRemoval
from .results import ApplicationResult, Status
from .status_writer import StatusWriter
from .stopping import Pause, check_not_paused
from .upkeep import LogCleaning, Upkeep
from .waiting import Waits

# How a run finds its applications in the log at its start, and why it may refuse them. None of this needs Spark.


@dataclass(frozen=True)
class Begun:
    """An application as the run found it at its start. `identity`: of the log."""

    plugins: ChosenPlugins
    log: PlacedLog
    own: LogState
    committer: Committer
    identity: str


def check_log(topologies: Iterable[Topology], settings: Settings, state_dir: Path | None) -> None:
    """Check that the log is the one that the stores on this machine were made of. Raises OtherLogError.

    This is done for all topologies of a run before any of them creates a new log in place of a missing one.
    `state_dir`: the folder of the stores; None if clients keep theirs on other machines.
    """
    if state_dir is not None:
        place, known = log_location(settings.log.name, settings.log.options), log_of(settings).identity()
        names = [topology.application for topology in topologies]
        names += [former for name in names for former in settings.former_names.get(name, ())]
        check_same_log_for(state_dir, names, known, place)


class LogGoneError(HeadwaterError):
    """The log that an application runs on is not at its place any more: `log`."""

    def __init__(self, application: str, log: str) -> None:
        super().__init__(
            f"the log at {log} has gone while {application} ran: it was removed, moved, or is not mounted any more",
            "put it back and run again: what was committed counts, and nothing else was changed",
        )
        self.application = application
        self.log = log


def gone(begun: Begun, topology: Topology, settings: Settings) -> HeadwaterError | None:
    """Why a run finds no commits any more: the log has gone, or its commits have. None if they were given up properly,
    by a full refresh.
    """
    try:
        if begun.log.identity() != begun.identity:
            return LogGoneError(topology.application, log_location(settings.log.name, settings.log.options))
        begun.log.commits(topology.application).latest()
    except HeadwaterError as error:
        return error
    return None


def look(topology: Topology, settings: Settings) -> Begun:
    """What the application has committed. Raises LogError."""
    plugins = ChosenPlugins(origin_of(settings))
    log = log_of(settings)
    log.check()
    own = LogState.load(log.commits(topology.application))
    return Begun(plugins, log, own, Committer(own), log.identity())


def check_state(topology: Topology, committed: Committed, known: Sequence[Change] = ()) -> None:
    """Refuse to start if the committed state does not fit the topology. `known`: what was decided of changes already,
    to refuse them or to go on (see `Judged.known`). A store that somebody has asked for since is left to the next run.

    Raises IncompatibleStateError, ConsumedRecordsMissingError.
    """
    own = committed.own
    own.refresh()  # the previous holder of the state directories may have committed
    committed.refresh()  # second, so that each writer is at least as new as what was consumed from it
    decided = {(each.kind, each.subject) for each in known}
    left = (each for each in changes_of(topology, committed) if each.kind != RESET)
    found = (each for each in left if (each.kind, each.subject) not in decided)
    refused = with_real_ways(each for each in (*known, *found) if each.verdict is Verdict.ERROR)
    if changed := [change for change in refused if change.kind != RECORDS_MISSING]:
        raise IncompatibleStateError(topology.application, changed)
    missing = tuple(lost_records(topology, committed))
    if missing:
        raise ConsumedRecordsMissingError(topology.application, missing)


# Runs one application: places its tasks, claims it, restores its state, runs its loop and closes it.


class ApplicationRun:
    """One application from its claim to its close.

    `claimed`: what the run has claimed so far, of all its applications; `made`: what it has committed.
    `topologies`: all of its applications; `ended`: those that have ended. `refusals`: changes because of which it does
    not start. `patient`: whether it waits for the end of a pause. `feed`: what gives it records, see `feeding.Feed`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topology: Topology,
        settings: Settings,
        observer: Observer,
        held: Callable[[TaskKey], bool],
        claimed: list[Committer],
        made: MadeCommits,
        topologies: Sequence[Topology] = (),
        ended: Callable[[], Collection[str]] = tuple,
        refusals: Sequence[Change] = (),
        patient: bool = False,
        feed: Feed | None = None,
    ) -> None:
        self._feed = feed
        self._ended_before = ended
        self._cluster = cluster
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._held = held
        self._claimed = claimed
        self._made = made
        self._topologies = topologies
        self._refusals = refusals
        self._patient = patient
        self._begun: Begun | HeadwaterError | None = None
        self._assigned: Assigned | None = None
        self._generation = -1
        self._restored = 0
        self._loop: EpochLoop | None = None
        self._status: StatusWriter | None = None
        self._lost: list[str] = []

    @property
    def was_stopped_by_records(self) -> bool:
        """Whether it has ended because no task can get a record any more: its own have stopped, or those of others."""
        return self._loop is not None and self._loop.tally.caught_up

    def begin(self, generation: int = -1) -> None:
        """Look at what the application has committed, before the run claims anything. `generation`: with which the run
        has claimed it before, if it has: then any other is that of a newer run.

        `run` reports an error of this.
        """
        try:
            self._begun = begun = look(self._topology, self._settings)
            found = begun.own.generation
            if generation not in (-1, found):
                raise FencedError(self._topology.application, generation, found if found > generation else None)
        except Exception as failed:
            self._begun = user_error(failed, self._cluster)
            if self._begun is None:
                raise

    def leave(self) -> None:
        """The run claims the application again: this claim of it is not compared any more."""
        if isinstance(self._begun, Begun) and self._begun.committer in self._claimed:
            self._claimed.remove(self._begun.committer)

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
            error = self._loop.failed.error if self._loop is not None else None
        except (FencedError, FullyRefreshedError) as fenced:
            status, error = self._fenced(fenced)
        except Exception as failed:
            error = user_error(failed, self._cluster)
            if error is None:
                raise
            if isinstance(error, ClusterEndedError) and stop.is_set():
                status, error = self._cut_off(error), None
        return self._ended(status, error, time.monotonic() - begun)

    def _fenced(self, error: FencedError | FullyRefreshedError) -> tuple[Status, HeadwaterError]:
        """How a run ends that finds other commits than its own, or none: another run made them, or the log has gone."""
        refreshed = isinstance(error, FullyRefreshedError) or error.generation is None
        if refreshed and isinstance(self._begun, Begun):
            found = gone(self._begun, self._topology, self._settings)
            if found is not None:
                return "failed", found
        if isinstance(error, FencedError):
            return "fenced", error
        own = error.application == self._topology.application
        return ("fenced", FencedError(error.application, None, None)) if own else ("failed", error)

    def _cut_off(self, error: ClusterEndedError) -> Status:
        """How a run ends that was told to stop, and whose cluster was ended meanwhile.

        A signal to every process of a service (systemd's default) does that. It is no failure: the commits stay.
        """
        cause = error.cause if isinstance(error, EpochCutOffError) else error.message
        self._observer.on(ClusterEnded(self._topology.application, cause))
        return "interrupted"

    def _run(self, stop: threading.Event, until_caught_up: bool) -> Status:
        begun = self._begun or look(self._topology, self._settings)
        if isinstance(begun, HeadwaterError):
            raise begun
        if stop.is_set():
            return "not_started"
        if until_caught_up and not self._patient:
            check_not_paused(self._topology, begun.log)
        committed = Committed(begun.log, self._topology, begun.own)
        state_dir = self._cluster.state_dir(self._settings)
        if state_dir is not None:  # the run that computed them again may have ended just then
            take_over_rebuild(state_dir, self._topology.application, committed.own.incarnation)
        removal = FileRemoval(begun.log, committed.own, self._settings.file_delete_delay_ms / 1000)
        with (
            Upkeep(committed.own, removal, self._observer) as upkeep,
            Group(self._cluster, self._topology, self._settings, committed, begun.plugins, self) as group,
        ):
            check_state(self._topology, committed, self._refusals)
            begun.log.settle(self._topology.application)  # only now: what is refused changes nothing
            incarnation = committed.own.incarnation or uuid.uuid4().hex
            commits = EpochCommits(begun.committer, committed, GlobalTask(self._topology, committed), removal)
            group.join(incarnation, commits)
            assigned = group.place()
            self._placed(assigned)
            if stop.is_set():
                return "not_started"
            description = TopologyDescription.of(
                self._topology, committed.begun, incarnation, before=committed.own.topology
            )
            self._claim(begun.committer, description, assigned, committed)
            self._generation = begun.committer.generation
            if self._settings.beside and self._patient:  # where records keep coming, it would never be caught up
                committed.stop_at_ends([self._topology.application])
            counters, failed = Counters(), FailedTasks(self._topology.application, self._observer)
            planner = Planner(committed, self._settings.max_records, self._settings.max_bytes)
            waits = Waits(self._topology, committed, planner, failed, self._observer, self._starts)
            self._status = StatusWriter(
                self._topology,
                self._settings,
                committed,
                self._generation,
                group,
                commits.tally,
                counters,
                waits,
                self._observer,
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
                upkeep,
                LogCleaning(
                    self._topology,
                    self._settings,
                    committed.log,
                    committed.own,
                    commits,
                    self._observer,
                    self._topologies,
                ),
                Pause(begun.log, self._topology.application, self._observer),
                Looking(begun.log.look_seconds(), self._made),
                failed,
                waits,
                self._observer,
                counters,
                self._held,
                self._placed,
                self._status.write_if_due,
                self._ended_before,
                self._feed,
            )
            loop.run(stop, until_caught_up)
            self._status.write()  # once the tasks are closed, there is nothing to be told of them
            # Only after a loop that ended without an error. Else `__exit__` closes the stores without applying
            # anything.
            try:
                group.close()
            except HeadwaterError:
                if loop.failed.error is None:  # else that has ended the run, and is told
                    raise
        if loop.failed.error is not None:
            return "failed"
        return "caught_up" if loop.tally.caught_up else "interrupted"

    def _starts(self, application: str) -> bool:
        """Whether this run works on another application, too, and that one has not ended in it."""
        members = {each.application for each in self._topologies}
        return self._patient and application in members and application not in self._ended_before()

    def _started(self, group: Group, committed: Committed) -> None:
        """Tell that the tasks are with their clients."""
        tasks = [task for member in group.members.values() for task in member.tasks.active]
        self._restored = sum(bool(task.stores) for task in tasks)
        application = self._topology.application
        self._observer.on(ApplicationStarted(application, self._generation, len(tasks), self._restored))
        if empty := committed.empty():
            self._observer.on(NothingToRead(application, empty))

    def _claim(
        self, committer: Committer, description: TopologyDescription, assigned: Assigned, committed: Committed
    ) -> None:
        """Claim the application, unless the run has lost another one, because then it is not the newest run."""
        for each in self._claimed:
            each.check()
        committer.claim(description, assigned.to_json(), lambda: beginnings(self._topology, committed))
        self._claimed.append(committer)

    def _ended(self, status: Status, error: HeadwaterError | None, seconds: float) -> ApplicationResult:
        tally = self._loop.tally if self._loop is not None else Tally()
        application, assigned = self._topology.application, self._assigned
        if self._status is not None:
            self._status.end(status, error, self._loop.failed.tasks if self._loop is not None else ())
        said = None if error is None else str(error)
        self._observer.on(ApplicationStopped(application, status, tally.records, tally.commits, said))
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
            error=said,
            raised=error,
            assignment={} if assigned is None else assigned.by_client(),
            placement=None if assigned is None else assigned.summary(),
            lost=tuple(self._lost),
            metrics=self._status.last if self._status is not None else None,
            dead_letters=self._dead_letters(tally.dropped),
        )

    def _dead_letters(self, dropped: Iterable[str]) -> tuple[str, ...]:
        """The topics of dead letters, if some records are in them."""
        if not any(reason.endswith(":dead_letter") for reason in dropped):
            return ()
        parts = self._topology.subtopologies
        return tuple(sorted({topic.name for part in parts for topic in part.dead_letters.values()}))

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
