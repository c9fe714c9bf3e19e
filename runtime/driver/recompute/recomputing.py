"""Computes results again beside those that applications have, and has them take their place.

Each application that is computed again runs as always, only in another place of the log and with stores of its own: its
names are the same. What it reads of others that are computed again comes from their new places. Meanwhile the old
result is there for everyone, and a driver that is still at work on it goes on. Once all of them are caught up, the old
ones are claimed, which ends their drivers, and one commit gives the new places to all of the names.

Which result is computed for what is committed before anything is computed (`Places.recomputed`). So a run that ends
anywhere is gone on with by the next one, and two runs work on the same result, of which the later one fences the other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ....errors import HeadwaterError
from ...changes.recompute.contents import contents_of
from ...changes.recompute.evolving import RECOMPUTED
from ...changes.recompute.judging import Judged
from ...chosen_plugins import log_of
from ...log.placed.log import PlacedLog
from ...log.placed.places import Places
from ...log.state import LogState
from ...progress.committed import Committed
from ...progress.committer import Committer
from ...progress.resets.full_refresh import forget_state
from ...progress.resets.removal import remove_topic
from ...state.directories.beside import beside, forget_beside, take_over_beside
from ...state.directories.directory import StateDirectory
from ...tasks.errors import LockError
from ...topology import Settings, Topology
from ..reports.events import Observer, RecomputationBegun, ResultSwitched
from .coverage import covers


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
        state_dir = str(beside(Path(self._settings.state_dir)))
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
                take_over_beside(self._state_dir, application, state.incarnation)

    def _forget_stores(self, application: str) -> None:
        if self._state_dir is not None:
            with suppress(LockError):  # somebody still works on what is left of it, and ends at its next commit
                forget_state(StateDirectory.found(self._state_dir, application))

    def _forget_dropped(self, before: Places, after: Places) -> None:
        for name, each in before.recomputed.items():
            if self._state_dir is not None and after.recomputed.get(name) != each:
                with suppress(LockError):  # of another incarnation: who takes the directory over removes them
                    forget_beside(self._state_dir, name)

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
