"""Rebuilds of topologies beside the run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ...errors import HeadwaterError
from ..changes.contents import contents_of
from ..changes.rebuild import Judged
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
from .events import Observer, RecomputationBegun, RecomputationUnfinished, ResultSwitched
from .results import FAILED, ApplicationResult, Status

# Whether a result that is computed again has taken all records that the old one is made of.

Positions = Mapping[int, int]
"""Lane -> position."""


def covers(new: Committed, old: LogState, members: Collection[str], waiting: int) -> bool:
    """Whether `new` has consumed what `old` has, and all that `members` have written for it, itself among them, but for
    so many records that are `waiting` for others.

    `members`: the applications that are computed again together. None of them, and nobody on the old result, may be at
    work. Records that come to other topics meanwhile do not matter: the new result takes them later, as the old one
    would have.
    """
    consumed = _consumed(old)
    for name, part in new.own.topology.subtopologies.items():
        for topic in part.sources:
            used = new.own.topology.topics[topic]
            same = _is_the_same(old.topology.topics.get(topic), used)
            for partition in range(used.partitions):
                task = TaskKey(new.application, name, partition)
                positions = new.own.tasks.of(task).positions.get(topic, {})
                if used.writer is not None and used.writer in members:
                    waiting -= _missing(positions, new.states[used.writer].lane_ends(topic, partition))
                elif same and _missing(positions, consumed.get((topic, partition), {})):
                    return False
    return waiting >= 0


def _consumed(state: LogState) -> dict[tuple[str, int], dict[int, int]]:
    """(topic, partition) -> how far it was consumed, by all subtopologies that read it."""
    found: dict[tuple[str, int], dict[int, int]] = {}
    for task in state.tasks.all():
        for topic, lanes in task.positions.items():
            known = found.setdefault((topic, task.partition), {})
            known.update({lane: max(position, known.get(lane, 0)) for lane, position in lanes.items()})
    return found


def _missing(positions: Positions, wanted: Positions) -> int:
    return sum(max(0, position - positions.get(lane, 0)) for lane, position in wanted.items())


def _is_the_same(was: UsedTopic | None, now: UsedTopic) -> bool:
    """Whether positions in a topic still mean the same records."""
    if was is None or (was.writer, was.partitions, was.key) != (now.writer, now.partitions, now.key):
        return False
    return None in (was.since, now.since) or was.since == now.since  # else its records were put elsewhere, and back


# Computes results again beside those that applications have, and has them take their place.
#
# Each application that is computed again runs as always, only in another place of the log and with stores of its own:
# its names are the same. What it reads of others that are computed again comes from their new places. Meanwhile the old
# result is there for everyone, and a driver that is still at work on it goes on. Once all of them are caught up, the
# old ones are claimed, which ends their drivers, and one commit gives the new places to all of the names.
#
# Which result is computed for what is committed before anything is computed (`Places.recomputed`). So a run that ends
# anywhere is gone on with by the next one, and two runs work on the same result, of which the later one fences the
# other.


class GivenUpError(HeadwaterError):
    """Another run does something else with an `application`, so nobody wants the result that this run has computed."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"another run has changed what becomes of {application}: the new result that this run has computed for it "
            "was given up",
            "let only one run of a project work on a log; if this project is the right one, run it again",
        )
        self.application = application


class Recomputing:
    """The results of one run that are computed again. `state_dir`: of clients on this machine, if there are any.

    `topologies`: of the run, in order; `members`: those whose results are computed again. `owned`: the applications of
    the project's topologies, if they are known.
    """

    def __init__(
        self,
        topologies: Sequence[Topology],
        settings: Settings,
        state_dir: Path | None,
        judged: Judged,
        observer: Observer,
        owned: Collection[str] | None = None,
    ) -> None:
        self._owned = owned
        self._topologies = topologies
        self._settings = settings
        self._state_dir = state_dir
        self._judged = judged
        self._observer = observer
        self._log: PlacedLog = log_of(settings)
        self._places: dict[str, str] = {}
        self._old: list[tuple[LogState, Committer]] = []
        self._emptied = sorted(judged.moves.emptied)
        self.members = [each for each in topologies if each.application in judged.recomputed]

    def begin(self) -> Settings:
        """Commit that these results are computed, and drop those that nobody wants any more. Returns the settings of
        their runs. Raises LogError.
        """
        names = [each.application for each in self.members]
        before = self._log.places()
        # What is refused may be allowed by the next run, which goes on with what was computed so far.
        unwanted = [each.application for each in self._topologies if self._judged.goes_on(each.application)]
        unwanted += [name for name in before.recomputed if self._is_gone(name)]
        for name in (*names, *self._emptied):
            self._log.settle(name)
            old = LogState.load(self._log.commits(name))
            self._old.append((old, Committer(old)))
        self._drop_given_up()
        if names or any(name in before.recomputed for name in unwanted):
            now = _now()
            takes = self._judged.moves.takes()
            seeds = LogState.load(self._log.commits(f"{self._topologies[0].project}-seed"))
            after = self._log.change(
                lambda places: places.abandoned(unwanted, now).recomputing(
                    contents_of(self.members, places, seeds), now, takes
                )
            )
            self._forget_dropped(before, after)
            self._places = {name: after.recomputed[name].place for name in names}
            for name in names:
                if self._log.paused_since(name) is not None:  # who paused it could not know of the new place
                    self._log.pause(name)
        for each in self.members:
            self._tell(each)
        state_dir = str(rebuild_state_dir(Path(self._settings.state_dir)))
        return replace(self._settings, beside=self._places, state_dir=state_dir) if names else self._settings

    def fence(self) -> None:
        """Claim the applications, so that drivers that still work on their old results end. Raises FencedError if one
        was claimed since this run began: that driver is the newer one.
        """
        for old, committer in self._old:
            if old.generation and committer.generation < 0:
                committer.take_away()
            elif old.generation:  # records have come since it was claimed: nobody else may have claimed it meanwhile
                committer.check()

    def behind(self, waiting: Mapping[str, int]) -> bool:
        """Whether the new results lack records that the old ones are made of by now: more may follow until these are
        claimed (`fence`).

        `waiting`: application -> records that its new result could not take, as others are to come before them. Raises
        LogError.
        """
        log = self._log.beside(self._places)
        for each, _ in self._old:
            each.refresh()
        old = {state.application: state for state, _ in self._old}
        return not all(
            covers(Committed(log, each), old[each.application], self._places, waiting.get(each.application, 0))
            for each in self.members
        )

    def others(self) -> Others:
        """The applications that go on as ever and that the new results get records from, as they are now."""
        log = self._log.beside(self._places)
        return Others([Committed(log, each) for each in self.members])

    def switch(self) -> None:
        """Have the new results take the place of the old ones: from here on they are what everyone reads.

        Raises GivenUpError, LogError.
        """
        names, now = list(self._places), _now()

        def switched(places: Places) -> Places:
            wanted = self._check(places)
            return places.switched(names, now, self._emptied) if wanted else places

        self._log.change(switched)
        for old, _ in self._old:  # once more: a driver may have begun on the old result in between
            if old.generation:
                old.refresh()
                Committer(old).take_away()
        for name in self._emptied:
            self._forget_stores(name)
        for each in self.members:
            self._take_stores_over(each.application)
            self._observer.on(ResultSwitched(each.application))

    def check(self) -> None:
        """Raise GivenUpError if nobody wants these results any more."""
        self._check(self._log.places())

    def _check(self, places: Places) -> bool:
        """Whether these results have still to take the place of the old ones; False if another run was first."""
        if all(places.names.get(name) == place for name, place in self._places.items()):
            return False
        for name, place in self._places.items():
            if name not in places.recomputed or places.recomputed[name].place != place:
                raise GivenUpError(name)
        return True

    def _is_gone(self, application: str) -> bool:
        """Whether its topology is not in the project any more, so that nobody would ever finish its result."""
        mine = application.partition("-")[0] in {each.project for each in self._topologies}
        return mine and self._owned is not None and application not in self._owned

    def _drop_given_up(self) -> None:
        """Remove what was left in places that were given up so long ago that nobody reads it any more. What cannot be
        removed is left to the next run.
        """
        until, projects = _now() - self._settings.file_delete_delay_ms, {each.project for each in self._topologies}
        for place, at in self._log.places().given_up.items():
            if at <= until and place.partition("-")[0] in projects:
                with suppress(HeadwaterError, OSError):
                    self._log.kept.drop(place)
                    self._log.change(partial(_dropped, place))
        self._drop_handed(until)

    def _drop_handed(self, until: int) -> None:
        """The same of topics that other applications write by now. Only of applications of this run: nobody commits for
        them now.
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
            with suppress(LockError):  # somebody still works on what is left of it, and ends at its next commit
                forget_state(StateDirectory.find_all(self._state_dir, application))

    def _forget_dropped(self, before: Places, after: Places) -> None:
        for name, each in before.recomputed.items():
            if self._state_dir is not None and after.recomputed.get(name) != each:
                with suppress(LockError):  # of another incarnation: who takes the directory over removes them
                    delete_rebuild(self._state_dir, name)

    def _tell(self, topology: Topology) -> None:
        again = [
            read
            for change in self._judged.changes[topology.application]
            if change.kind == RECOMPUTED
            for read in change.reads_again
        ]
        self._observer.on(RecomputationBegun(topology.application, {each.topic: each.records for each in again}))


class Others:
    """Applications whose records others wait for. `read`: what these have committed."""

    def __init__(self, read: Sequence[Committed]) -> None:
        self._read = read
        self._members = {each.application for each in read}
        for each in read:
            each.stop_at_ends(each.states.keys() - self._members)

    def behind(self) -> set[str]:
        """Those that have still to take records which were there at first. Raises LogError."""
        for each in self._read:
            each.refresh()
        return {name for each in self._read for name in each.behind()} - self._members


def _now() -> int:
    return time.time_ns() // 1_000_000


def _dropped(place: str, places: Places) -> Places:
    return places.dropped(place)


# The passes of a run over results that are computed again, until these have taken the place of the old ones.

_LOOK_SECONDS = 0.2
"""Between two looks whether the applications have caught up that a new result waits for."""

_MOST_IN_VAIN = 2
"""Passes in a row that end with records which wait for nobody: it may be so once, as others go on meanwhile."""


class Pass(Protocol):
    """One application from its claim to its close, until it is caught up."""

    @property
    def was_stopped_by_records(self) -> bool:
        """Whether it has ended because of records that fail."""
        ...

    def begin(self, generation: int = -1) -> None:
        """Look at what it has committed. `generation`: with which this run has claimed it last, if it has."""
        ...

    def leave(self) -> None:
        """The run may claim the application again."""
        ...


OnePass = TypeVar("OnePass", bound=Pass)


class Passes(Generic[OnePass]):
    """`make`: a pass of an application with settings. `turn`: does a pass. `lasting`: whether the run goes on until it
    is stopped, and so waits for records of other applications, unless these have `ended`.

    `stopped_by_records`: whether nothing but records that fail has kept the new results from being completed.
    """

    def __init__(
        self,
        recomputing: Recomputing,
        settings: Settings,
        make: Callable[[Topology, Settings], OnePass],
        turn: Callable[[OnePass, threading.Event], ApplicationResult],
        observer: Observer,
        ended: Callable[[], Set[str]],
        *,
        lasting: bool,
    ) -> None:
        self._recomputing = recomputing
        self._settings = settings
        self._make = make
        self._turn = turn
        self._observer = observer
        self._ended = ended
        self._lasting = lasting
        self.stopped_by_records = False
        self.results: dict[str, ApplicationResult] = {}
        self._first = [self._made(each) for each in recomputing.members]

    def until_switched(self, stop: threading.Event) -> bool:
        """Go on until the new results are those of the applications. False if something has ended that before."""
        switched = self._switched(stop)
        for name, result in self.results.items():
            self.results[name] = replace(result, recomputation="switched" if switched else "unfinished")
            if not switched:
                self._observer.on(RecomputationUnfinished(name, self._cause()))
        return switched

    def _switched(self, stop: threading.Event) -> bool:
        passes: Sequence[OnePass] = self._first
        rounds = in_vain = 0
        while True:
            caught_up = self._in_turn(passes, stop)
            rounds += 1
            in_vain = 0 if caught_up or self._waits_for() else in_vain + 1
            # Where records keep coming, some wait for others at any time. The second round has taken what came during
            # the first, so the new result is not further behind than any driver is.
            near = caught_up or (self._lasting and rounds > 1)
            try:
                if stop.is_set() or self._failed():
                    return False
                if near and self._takes_over():
                    return True
                if not caught_up and (not self._lasting or in_vain == _MOST_IN_VAIN):
                    return False
                went_on = not self._lasting or self._others_went_on(stop)
                if stop.is_set() or not (caught_up or went_on):
                    return False
                if near:  # only now: nobody goes on with the old results from here on, and no other is waited for long
                    self._recomputing.fence()
                self._recomputing.check()
            except HeadwaterError as error:
                overtaken = isinstance(error, FencedError | GivenUpError | FullyRefreshedError)
                self._end("fenced" if overtaken else "failed", str(error))
                return False
            passes = [self._made(each) for each in self._recomputing.members]

    def _takes_over(self) -> bool:
        """Whether the new results are those of the applications now. They are if they lack nothing of the old ones,
        also once nobody works on these any more.
        """
        if self._recomputing.behind(self._waiting()):
            return False
        self._recomputing.fence()
        if self._recomputing.behind(self._waiting()):
            return False
        self._recomputing.switch()
        return True

    def _failed(self) -> list[str]:
        return [name for name, result in self.results.items() if result.status in FAILED]

    def _cause(self) -> str:
        if any(result.status == "fenced" for result in self.results.values()):
            return "another run has taken over"
        if failed := self._failed():
            return f"{', '.join(failed)} failed; once that is fixed, the next run goes on with it"
        waits_for = sorted(self._waits_for())
        why = f"it waits for {', '.join(waits_for)}" if waits_for else "the run was ended"
        return f"{why}; the next run goes on with it"

    def _waiting(self) -> dict[str, int]:
        return {name: result.waiting for name, result in self.results.items()}

    def _waits_for(self) -> set[str]:
        return {name for result in self.results.values() for name in result.waits_for}

    def _others_went_on(self, stop: threading.Event) -> bool:
        """Wait for the applications whose records the new results lack. False if these do not come in this run."""
        others = self._recomputing.others()
        while not stop.wait(_LOOK_SECONDS):
            behind = others.behind()
            if not behind:
                return True
            if behind <= self._ended():
                self.stopped_by_records = True
                return False
        return False

    def _in_turn(self, passes: Sequence[OnePass], stop: threading.Event) -> bool:
        """Whether all of them are caught up. After one that could not be run the others are not: they need it.

        One that records have stopped is another matter. The others tell of their own such records then.
        """
        done: list[bool] = []
        needless = threading.Event()
        for each in passes:
            result = self._turn(each, needless if needless.is_set() else stop)
            each.leave()
            if result.status in FAILED and not each.was_stopped_by_records:
                needless.set()
            self.results[result.application] = together(self.results.get(result.application), result)
            done.append(result.status == "caught_up" and not result.waiting)
        self.stopped_by_records = bool(self._failed()) and not needless.is_set()
        return all(done)

    def _made(self, topology: Topology) -> OnePass:
        """The next pass. Between two of them nobody holds the application, so another run may have claimed it."""
        made, before = self._make(topology, self._settings), self.results.get(topology.application)
        made.begin(-1 if before is None else before.generation)
        return made

    def _end(self, status: Status, error: str) -> None:
        for name, result in self.results.items():
            self.results[name] = replace(result, status=status, error=error)


def together(before: ApplicationResult | None, result: ApplicationResult) -> ApplicationResult:
    """The result of an application that a run has worked on again."""
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
