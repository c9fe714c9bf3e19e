"""Rebuilds of results while the present ones stay."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.contents import contents_of
from ..changes.rebuild import StartChanges
from ..changes.rebuild_groups import RECOMPUTED
from ..chosen_plugins import log_of
from ..ir.topology import Settings, Topology
from ..log.commit.descriptions import UsedTopic
from ..log.errors import FullyRefreshedError
from ..log.placed_log import PlacedLog
from ..log.places import Places
from ..log.state import LogState
from ..progress.committed import Committed
from ..progress.committer import Committer, FencedError
from ..progress.resets import forget_state, remove_topic
from ..state.directory import StateDirectory, delete_rebuild, rebuild_state_dir, take_over_rebuild
from ..task_id import TaskKey
from ..tasks.errors import LockError
from ..timed_parts import wall_ms
from .application import ApplicationRun
from .events import Observer, RecomputationBegun, RecomputationUnfinished, ResultSwitched
from .loop import RunContext
from .results import FAILED, ApplicationResult, Status

Positions = Mapping[int, int]
"""Lane -> position."""


def covers(new: Committed, old: LogState, members: Collection[str], waiting: int) -> bool:
    """Whether a rebuild (`new`) has consumed all records that the old result has, and all that `members` have written.

    `members`: the applications that are rebuilt together, itself included. `waiting`: number of records that may be
    missing, as they wait for others. No driver may work on the old or the new results. New records of other topics do
    not matter: the rebuilt result consumes them later, as the old one would have.
    """
    consumed = _consumed(old)
    for name, part in new.own.topology.subtopologies.items():
        for topic in part.sources:
            used = new.own.topology.topics[topic]
            same = _is_the_same(old.topology.topics.get(topic), used)
            for partition in range(used.partitions):
                task = TaskKey(new.application, name, partition)
                positions = new.own.tasks.last_commit(task).positions.get(topic, {})
                if used.writer is not None and used.writer in members:
                    waiting -= _missing(positions, new.states[used.writer].lane_ends(topic, partition))
                elif same and _missing(positions, consumed.get((topic, partition), {})):
                    return False
    return waiting >= 0


def _consumed(state: LogState) -> dict[tuple[str, int], dict[int, int]]:
    """(topic, partition) -> greatest consumed positions of all subtopologies that read it."""
    consumed: dict[tuple[str, int], dict[int, int]] = {}
    for task in state.tasks.all():
        for topic, lanes in task.positions.items():
            positions = consumed.setdefault((topic, task.partition), {})
            positions.update({lane: max(position, positions.get(lane, 0)) for lane, position in lanes.items()})
    return consumed


def _missing(positions: Positions, wanted: Positions) -> int:
    return sum(max(0, position - positions.get(lane, 0)) for lane, position in wanted.items())


def _is_the_same(was: UsedTopic | None, now: UsedTopic) -> bool:
    """Whether positions in a topic still identify the same records."""
    if was is None or (was.writer, was.partitions, was.key) != (now.writer, now.partitions, now.key):
        return False
    return None in (was.since, now.since) or was.since == now.since  # else it was repartitioned, and back


class RebuildDroppedError(HeadwaterError):
    """Another run has dropped the rebuild of an `application` on which this run was working."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"another run has changed the rebuild of {application}: the result that this run was building for it was "
            "dropped",
            "let only one run of a project work on a log; if this project is the right one, run it again",
        )
        self.application = application


class Rebuild:
    """The rebuilds of one run.

    A rebuilt application runs as always, with the same names, but in another place of the log and with stores of its
    own. It reads other rebuilt applications from their new places. Meanwhile everyone reads the old results, and a
    driver that works on them continues. Once all rebuilds are caught up, the old applications are claimed, which ends
    their drivers, and one commit gives the new places to all names.

    The contents of a rebuild are committed before it starts (`Places.recomputed`). So the next run resumes an
    unfinished one. Two runs work on the same rebuild, and the later one fences the other.

    `topologies`: of the run, in order; `members`: the rebuilt ones. `state_dir`: of clients on this machine; None if
    there are none. `owned`: the applications of the project's topologies; None if unknown.
    """

    def __init__(
        self,
        topologies: Sequence[Topology],
        settings: Settings,
        state_dir: Path | None,
        start: StartChanges,
        observer: Observer,
        owned: Collection[str] | None = None,
    ) -> None:
        self._owned = owned
        self._topologies = topologies
        self._settings = settings
        self._state_dir = state_dir
        self._start = start
        self._observer = observer
        self._log: PlacedLog = log_of(settings)
        self._places: dict[str, str] = {}
        self._old: list[tuple[LogState, Committer]] = []
        self._emptied = sorted(start.moves.emptied)
        self.members = [topology for topology in topologies if topology.application in start.recomputed]
        self.computed = [topology for topology in self.members if not topology.is_mirror]
        # What writes to Kafka has no result. It begins in its new place, after the switch: Kafka gets no record before.
        self.mirrors = [topology for topology in self.members if topology.is_mirror]

    def begin(self) -> Settings:
        """Commit the start of the rebuilds, and drop those that are not needed any more. Returns the settings of their
        runs. Raises LogError.
        """
        names = [topology.application for topology in self.members]
        before = self._log.places()
        # The rebuild of an application with an error stays: the next run may resume it.
        unwanted = [topology.application for topology in self._topologies if self._start.goes_on(topology.application)]
        unwanted += [name for name in before.recomputed if self._is_gone(name)]
        for name in (*names, *self._emptied):
            self._log.settle(name)
            old = LogState.load(self._log.commits(name))
            self._old.append((old, Committer(old)))
        self._drop_given_up()
        if names or any(name in before.recomputed for name in unwanted):
            now = wall_ms()
            takes = self._start.moves.takes()
            seeds = LogState.load(self._log.commits(f"{self._topologies[0].project}-seed"))
            after = self._log.change(
                lambda places: places.abandoned(unwanted, now).recomputing(
                    contents_of(self.members, places, seeds), now, takes
                )
            )
            self._forget_dropped(before, after)
            self._places = {name: after.recomputed[name].place for name in names}
            for name in names:
                if self._log.paused_since(name) is not None:  # the pause was for the old place
                    self._log.pause(name)
        for topology in self.computed:
            self._tell(topology)
        state_dir = str(rebuild_state_dir(Path(self._settings.state_dir)))
        return replace(self._settings, beside=self._places, state_dir=state_dir) if names else self._settings

    def fence(self) -> None:
        """Claim the old results, so that drivers that still work on them end. Raises FencedError if one was claimed
        since this run started: that driver is the newer one.
        """
        for old, committer in self._old:
            if old.generation and committer.generation < 0:
                committer.take_away()
            elif old.generation:  # new records have come since the claim: nobody else may have claimed it meanwhile
                committer.check()

    def behind(self, waiting: Mapping[str, int]) -> bool:
        """Whether the rebuilds lack records that the old results have by now. More may follow before `fence`.

        `waiting`: application -> records that its rebuild could not consume, as they wait for others. Raises LogError.
        """
        log = self._log.beside(self._places)
        for state, _ in self._old:
            state.refresh()
        old = {state.application: state for state, _ in self._old}
        return not all(
            covers(
                Committed(log, topology), old[topology.application], self._places, waiting.get(topology.application, 0)
            )
            for topology in self.computed
        )

    def read(self) -> list[Committed]:
        """The committed states of the rebuilds, which show other applications up to their present positions."""
        log = self._log.beside(self._places)
        read = [Committed(log, topology) for topology in self.computed]
        for committed in read:
            committed.stop_at_ends(committed.states.keys() - self._places.keys())
        return read

    def switch(self) -> None:
        """Replace the old results by the rebuilt ones: from here on everyone reads these.

        Raises RebuildDroppedError, LogError.
        """
        names, now = list(self._places), wall_ms()

        def switched(places: Places) -> Places:
            wanted = self._check(places)
            return places.switched(names, now, self._emptied) if wanted else places

        self._log.change(switched)
        for old, _ in self._old:  # again: a driver may have claimed the old result in between
            if old.generation:
                old.refresh()
                Committer(old).take_away()
        for name in self._emptied:
            self._forget_stores(name)
        for topology in self.computed:
            self._take_stores_over(topology.application)
            self._observer.on(ResultSwitched(topology.application))

    def check(self) -> None:
        """Raise RebuildDroppedError if another run has dropped a rebuild."""
        self._check(self._log.places())

    def _check(self, places: Places) -> bool:
        """Whether the rebuilds have not replaced the old results yet; False if another run has done it."""
        if all(places.names.get(name) == place for name, place in self._places.items()):
            return False
        for name, place in self._places.items():
            if name not in places.recomputed or places.recomputed[name].place != place:
                raise RebuildDroppedError(name)
        return True

    def _is_gone(self, application: str) -> bool:
        """Whether its topology is not in the project any more, so that no run would finish its rebuild."""
        mine = application.partition("-")[0] in {topology.project for topology in self._topologies}
        return mine and self._owned is not None and application not in self._owned

    def _drop_given_up(self) -> None:
        """Remove dropped results whose delete delay is over. The next run tries again those that cannot be removed."""
        until, projects = (
            wall_ms() - self._settings.file_delete_delay_ms,
            {topology.project for topology in self._topologies},
        )
        for place, at in self._log.places().given_up.items():
            if at <= until and place.partition("-")[0] in projects:
                with suppress(HeadwaterError, OSError):
                    self._log.kept.drop(place)
                    self._log.change(partial(Places.dropped, place=place))
        self._drop_handed(until)

    def _drop_handed(self, until: int) -> None:
        """Remove old records of topics that have moved to other applications, whose delete delay is over.

        Only of applications of this run: no other driver commits for them now.
        """
        places = self._log.places()
        for topology in self._topologies:
            for topic, at in places.handed.get(places.of(topology.application), {}).items():
                if 0 < at <= until:
                    with suppress(HeadwaterError, OSError):
                        remove_topic(self._log, topology.application, topic)

    def _take_stores_over(self, application: str) -> None:
        if self._state_dir is not None:
            state = LogState.load(log_of(self._settings).commits(application))
            with suppress(LockError):  # the next run takes them over
                take_over_rebuild(self._state_dir, application, state.incarnation)

    def _forget_stores(self, application: str) -> None:
        if self._state_dir is not None:
            with suppress(LockError):  # a driver still works on it, and ends at its next commit
                forget_state(StateDirectory.find_all(self._state_dir, application))

    def _forget_dropped(self, before: Places, after: Places) -> None:
        for name, rebuild in before.recomputed.items():
            if self._state_dir is not None and after.recomputed.get(name) != rebuild:
                with suppress(LockError):  # its next owner removes stores of another incarnation
                    delete_rebuild(self._state_dir, name)

    def _tell(self, topology: Topology) -> None:
        again = [
            read
            for change in self._start.changes[topology.application]
            if change.kind == RECOMPUTED
            for read in change.reads_again
        ]
        self._observer.on(RecomputationBegun(topology.application, {read.topic: read.records for read in again}))


_LOOK_SECONDS = 0.2
"""The interval of checks whether the applications upstream have caught up."""

_MOST_IN_VAIN = 2
"""Rounds in a row with records that wait for no application, after which a rebuild ends. It may happen once, as others
continue meanwhile."""


class Passes:
    """The rounds of passes over rebuilt applications, until the rebuilds have replaced the old results.

    `make`: makes a pass of an application with settings. `turn`: runs a pass. A lasting run waits for records of other
    applications, unless these have ended. `stopped_by_records`: only failing records have kept the rebuilds from being
    completed.
    """

    def __init__(
        self,
        rebuild: Rebuild,
        settings: Settings,
        make: Callable[[Topology, Settings], ApplicationRun],
        turn: Callable[[ApplicationRun, threading.Event], ApplicationResult],
        run: RunContext,
    ) -> None:
        self._rebuild = rebuild
        self._settings = settings
        self._make = make
        self._turn = turn
        self._run = run
        self.stopped_by_records = False
        self.results: dict[str, ApplicationResult] = {}
        self._first = [self._made(topology) for topology in rebuild.computed]

    def until_switched(self, stop: threading.Event) -> bool:
        """Run rounds until the rebuilds have replaced the old results. False if they could not be completed."""
        switched = self._switched(stop)
        for name, result in self.results.items():
            self.results[name] = replace(result, recomputation="switched" if switched else "unfinished")
            if not switched:
                self._run.observer.on(RecomputationUnfinished(name, self._cause()))
        return switched

    def _switched(self, stop: threading.Event) -> bool:
        passes: Sequence[ApplicationRun] = self._first
        rounds = in_vain = 0
        while True:
            caught_up = self._in_turn(passes, stop)
            rounds += 1
            in_vain = 0 if caught_up or self._waits_for() else in_vain + 1
            # Where records keep coming, some wait for others at any time. The second round has consumed the records
            # that came during the first, so the rebuild is not further behind than any driver is.
            near = caught_up or (self._run.lasting and rounds > 1)
            try:
                if stop.is_set() or self._failed():
                    return False
                if near and self._takes_over():
                    return True
                if not caught_up and (not self._run.lasting or in_vain == _MOST_IN_VAIN):
                    return False
                others_advanced = not self._run.lasting or self._others_advanced(stop)
                if stop.is_set() or not (caught_up or others_advanced):
                    return False
                if near:  # only now: it ends drivers of the old results, and the switch is near
                    self._rebuild.fence()
                self._rebuild.check()
            except HeadwaterError as error:
                overtaken = isinstance(error, FencedError | RebuildDroppedError | FullyRefreshedError)
                self._end("fenced" if overtaken else "failed", str(error))
                return False
            passes = [self._made(topology) for topology in self._rebuild.computed]

    def _takes_over(self) -> bool:
        """Replace the old results if the rebuilds lack none of their records, also once the old drivers have ended.

        Whether they are replaced.
        """
        if self._rebuild.behind(self._waiting()):
            return False
        self._rebuild.fence()
        if self._rebuild.behind(self._waiting()):
            return False
        self._rebuild.switch()
        return True

    def _failed(self) -> list[str]:
        return [name for name, result in self.results.items() if result.status in FAILED]

    def _cause(self) -> str:
        if any(result.status == "fenced" for result in self.results.values()):
            return "another run has taken over"
        if failed := self._failed():
            return f"{', '.join(failed)} failed; once that is fixed, the next run resumes it"
        waits_for = sorted(self._waits_for())
        cause = f"it waits for {', '.join(waits_for)}" if waits_for else "the run was ended"
        return f"{cause}; the next run resumes it"

    def _waiting(self) -> dict[str, int]:
        return {name: result.waiting for name, result in self.results.items()}

    def _waits_for(self) -> set[str]:
        return {name for result in self.results.values() for name in result.waits_for}

    def _others_advanced(self, stop: threading.Event) -> bool:
        """Wait for the applications whose records the rebuilds lack. False if these do not come in this run."""
        read = self._rebuild.read()
        while not stop.wait(_LOOK_SECONDS):
            for committed in read:
                committed.refresh()
            behind = {name for committed in read for name in committed.behind()} - self.results.keys()
            if not behind:
                return True
            if behind <= self._run.ended:
                self.stopped_by_records = True
                return False
        return False

    def _in_turn(self, passes: Sequence[ApplicationRun], stop: threading.Event) -> bool:
        """Run the passes one after the other. Whether all are caught up.

        After a failed pass the others are not run, as they need it. After one that failing records have stopped they
        are, and report their own failing records.
        """
        done: list[bool] = []
        needless = threading.Event()
        for one in passes:
            result = self._turn(one, needless if needless.is_set() else stop)
            one.leave()
            if result.status in FAILED and not one.was_stopped_by_records:
                needless.set()
            self.results[result.application] = together(self.results.get(result.application), result)
            done.append(result.status == "caught_up" and not result.waiting)
        self.stopped_by_records = bool(self._failed()) and not needless.is_set()
        return all(done)

    def _made(self, topology: Topology) -> ApplicationRun:
        """The next pass. Between two passes the application is not claimed, so another run may claim it."""
        made, before = self._make(topology, self._settings), self.results.get(topology.application)
        made.begin(-1 if before is None else before.generation)
        return made

    def _end(self, status: Status, error: str) -> None:
        for name, result in self.results.items():
            self.results[name] = replace(result, status=status, error=error)


def together(before: ApplicationResult | None, result: ApplicationResult) -> ApplicationResult:
    """The result of two passes of an application in one run."""
    if before is None:
        return result
    return replace(
        result,
        commits=before.commits + result.commits,
        records=before.records + result.records,
        seconds=before.seconds + result.seconds,
        dropped=dict(Counter(before.dropped) + Counter(result.dropped)),
        lost=(*before.lost, *result.lost),
        recomputation=before.recomputation,
    )
