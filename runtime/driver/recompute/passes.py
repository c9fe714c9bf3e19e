"""The passes of a run over results that are computed again, until these have taken the place of the old ones."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from ....errors import HeadwaterError
from ...log.errors import FullyRefreshedError
from ...progress.errors import FencedError
from ...topology import Settings, Topology
from ..reports.events import Observer, RecomputationUnfinished
from ..reports.results import FAILED, ApplicationResult, Status
from .recomputing import GivenUpError, Recomputing

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
