"""A log as one application sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from .commit.encoding import decode_commit, encode_commit
from .commit.records import PlacesRecord
from .errors import CommitDamagedError, CommitExistsError, CommitFormatError, LogError
from .log import CommitStore, Log, LogFile, SavedFile, Writer, writer_of
from .places import PlacedCommits, Places
from .ranges import Columns, Fetched, LogRange, RangeReader
from .state import LogState

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from .log import Listed
    from .ranges import Rewritten


# A writer that knows applications by their names, and writes at their places.


class PlacedWriter:
    """See `Writer`. `kept`: of the log that is placed. `place_of`: the place of an application."""

    def __init__(self, kept: Writer, place_of: Callable[[str], str]) -> None:
        self._kept = kept
        self._place_of = place_of

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Listed, ...]:
        """See `Writer.write`."""
        return self._kept.write(self._place_of(application), topic, name, table, partitions, lane)

    def sync(self) -> None:
        """See `Writer.sync`."""
        self._kept.sync()


# The places as commits of a reserved application of the log: each has all of them, and is made by one writer.
#
# So a change of several places is there as a whole or not at all, whoever ends where, and who has read the last commit
# knows everything. A log in which nothing was ever moved has no such commits, and is as versions before wrote it.

PLACES = "~places"
"""The reserved application. No topology can have this name."""


class PlacesSequence:
    """The places of one log. Many threads may use it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._number = -1
        self._places = Places()
        self._lock = Lock()

    @cached_property
    def _commits(self) -> CommitStore:
        """Asked for at the first look: an epoch's tasks are told where things lie, and never look."""
        return self._log.commits(PLACES)

    def known(self) -> Places:
        """As they were at the last look; the first call looks. Raises LogError."""
        return self._places if self._number >= 0 else self.look()

    def look(self) -> Places:
        """As they are now. Raises LogError."""
        with self._lock:
            if self._number < 0:
                self._number = 0
                if latest := self._commits.latest():
                    self._take(latest)
            while self._commits.identity(self._number + 1) is not None:
                self._take(self._number + 1)
            return self._places

    def change(self, change: Callable[[Places], Places]) -> Places:
        """Commit what `change` makes of the places, however many others change them at the same time.

        `change` is asked again if others were first, and may raise. Raises LogError.
        """
        while True:
            now = self.look()
            after = change(now)
            if after == now:
                return now
            self._tell_older(now, after)
            with self._lock:
                try:
                    self._commits.create(self._number + 1, encode_commit(PlacesRecord(_now(), after)))
                except CommitExistsError:
                    continue
                self._number, self._places = self._number + 1, after
                return after

    def _take(self, number: int) -> None:
        data = self._commits.read(number)
        try:
            record = None if data is None else decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            record = None
        if not isinstance(record, PlacesRecord):
            self._number = -1
            raise CommitDamagedError(PLACES, number, "damaged", self._commits.path(number))
        self._number, self._places = number, record.places

    def _tell_older(self, now: Places, after: Places) -> None:
        """Have versions that know no places refuse the log, with a commit that each run of a project reads.

        They would take an application that was moved for one that has not begun.
        """
        for project in sorted(_projects(after) - _projects(now)):
            state = LogState.load(self._log.commits(f"{project}-seed"))
            while not state.placed:
                try:
                    state.commit(PlacesRecord(_now()))
                except CommitExistsError:
                    state.refresh()


def _projects(places: Places) -> set[str]:
    names = (*places.names, *places.given_up, *places.counts)
    return {name.partition("-")[0] for name in names if "-" in name}


def _now() -> int:
    return time.time_ns() // 1_000_000


# A log in which an application's name is one thing, and the place where its commits and records lie another.
#
# It puts any other log behind the same protocol: a name is looked up, and the log is asked for the place. Ranges, paths
# of files and notes of commits beside stores speak of places, so these outlast every renaming.


class PlacesChangedError(LogError):
    """Another process has given an application another place than the one that was worked with: `application`."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"another run has just renamed {application}, or a topology that takes its place",
            "run again: nothing was changed",
        )
        self.application = application


class PlacedLog:
    """A `Log` over another one, `kept`.

    `known`: application -> its place, where that is known: no commits are read for it. `was`: application -> the names
    that it had before, the latest first. If the log has no such application, it takes over the place of the first of
    these that the log has, and that is not in `was` itself: here at once, for all others with `settle`. `handed`: see
    `beside`.
    """

    def __init__(
        self,
        kept: Log,
        known: Mapping[str, str] | None = None,
        was: Mapping[str, Sequence[str]] | None = None,
        handed: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.kept = kept
        self._known = dict(known or {})
        self._was = dict(was or {})
        self._handed = dict(handed or {})
        self._sequence = PlacesSequence(kept)
        self._there: frozenset[str] | None = None

    def __repr__(self) -> str:
        return repr(self.kept)

    def place_of(self, application: str) -> str:
        """The place of an application, as far as is known here."""
        return self._known.get(application) or self._view(self._sequence.known()).of(application)

    def places(self) -> Places:
        """The places as they are committed now. Raises LogError."""
        return self._sequence.look()

    def change(self, change: Callable[[Places], Places]) -> Places:
        """Commit what `change` makes of the places, see `PlacesSequence.change`. Raises LogError."""
        return self._sequence.change(change)

    def renamed(self) -> dict[str, str]:
        """The applications whose places are those of others so far, because of what they were: name -> former name."""
        return self._moves(self._sequence.known())

    def beside(self, results: Mapping[str, str], handed: Mapping[str, Collection[str]] | None = None) -> PlacedLog:
        """The log in which these applications have results that are computed beside theirs. `results`: -> place.

        `handed`: application -> its topics that another one writes there. Those of results whose computing is committed
        are known.
        """
        return PlacedLog(self.kept, results, self._was, handed)

    def handed(self, application: str) -> frozenset[str]:
        """The topics of which an application has records, and that another one writes by now, as far as is known
        here.
        """
        places = self._sequence.known()
        taken = [
            topic
            for name, each in places.recomputed.items()
            if self._known.get(name) == each.place
            for topic in each.takes.get(application, ())
        ]
        before = places.handed.get(self.place_of(application), {})
        return frozenset((*before, *taken, *self._handed.get(application, ())))

    def called(self, application: str) -> tuple[str, ...]:
        """What an application is called now that was called so once, as far as is known here: one name, or two if
        another application has taken the old name since, which then comes first.
        """
        places = self._view(self._sequence.known())
        now = places.former.get(application, application)
        return (application, now) if now != application and application in places.names else (now,)

    def settle(self, application: str) -> None:
        """Have an application keep its place for all readers of the log and for good: it is about to commit.

        A second time it does nothing. Raises PlacesChangedError, LogError.
        """
        if application in self._known:
            return
        place = self.place_of(application)

        def settled(now: Places) -> Places:
            self._there = None
            former = self._moves(now).get(application)
            after = now if former is None else now.moved({application: former}, time.time_ns() // 1_000_000)
            if after.of(application) != place:
                raise PlacesChangedError(application)
            return after.settled(application)

        if self._was.get(application) or place != application:
            self._sequence.change(settled)
        self._known[application] = place

    def check(self) -> None:
        """See `Log.check`."""
        self.kept.check()

    def remove_leftovers(self) -> None:
        """See `Log.remove_leftovers`."""
        self.kept.remove_leftovers()

    def identity(self) -> str:
        """See `Log.identity`."""
        return self.kept.identity()

    def look_seconds(self) -> float:
        """See `Log.look_seconds`."""
        return self.kept.look_seconds()

    def applications(self) -> list[str]:
        """See `Log.applications`."""
        there = self.kept.applications()
        self._there = frozenset(there)
        if PLACES not in there and not self._was and not self._known:
            return there
        places = self._sequence.look()
        places = replace(places, names={**places.names, **self._known})
        former = {of: name for name, of in self._moves(places).items()}
        names = (places.name_of(place) for place in there if place != PLACES)
        return sorted(former.get(name, name) for name in names if name is not None)

    def commits(self, application: str) -> CommitStore:
        """See `Log.commits`. Which place it has is looked up now, and is this for as long as the commits are used."""
        if application not in self._known:
            self._sequence.look()
        place = self.place_of(application)
        kept = self.kept.commits(place)
        return kept if place == application else PlacedCommits(application, kept, self.settle)

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Listed, ...]:
        """See `Log.write`."""
        return self.kept.write(self.place_of(application), topic, name, table, partitions, lane)

    @contextmanager
    def writer(self) -> Iterator[PlacedWriter]:
        """See `BatchingLog.writer`."""
        with writer_of(self.kept) as kept:
            yield PlacedWriter(kept, self.place_of)

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Listed, ...]:
        """See `Log.write_rewritten`."""
        return self.kept.write_rewritten(self.place_of(application), topic, name, parts)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`."""
        return self.kept.read(within, start, columns)

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """See `RangeReader.ahead`."""
        return self.kept.ahead(ranges)

    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        """See `Log.save_file`. The path is that of the application's place."""
        return self.kept.save_file(path, fill)

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        """See `Log.read_file`."""
        return self.kept.read_file(path, start)

    def files(self, application: str) -> Iterator[LogFile]:
        """See `Log.files`."""
        return self.kept.files(self.place_of(application))

    def remove(self, path: str) -> None:
        """See `Log.remove`."""
        self.kept.remove(path)

    def drop(self, application: str) -> None:
        """See `Log.drop`. The place stays the application's."""
        self.kept.drop(self.place_of(application))

    def write_status(self, application: str, status: str) -> None:
        """See `Log.write_status`."""
        self.kept.write_status(self.place_of(application), status)

    def read_status(self, application: str) -> str | None:
        """See `Log.read_status`."""
        return self.kept.read_status(self.place_of(application))

    def pause(self, application: str) -> None:
        """See `Log.pause`. It holds for a result beside it too, also once that has taken over."""
        for place in self._view(self._sequence.look()).places_of(application):
            self.kept.pause(place)

    def resume(self, application: str) -> None:
        """See `Log.resume`."""
        for place in self._view(self._sequence.look()).places_of(application):
            self.kept.resume(place)

    def paused_since(self, application: str) -> int | None:
        """See `Log.paused_since`. Who pauses an application means all that is computed for it."""
        return self.kept.paused_since(self._view(self._sequence.known()).of(application))

    def _view(self, places: Places) -> Places:
        """The places as they are for this instance, with what is not settled yet."""
        moves = self._moves(places)
        return places.moved(moves, 0) if moves else places

    def _moves(self, places: Places) -> dict[str, str]:
        """Which applications take over the places of which others, because they had their names before."""
        if not self._was:
            return {}
        if self._there is None:
            self._there = frozenset(self.kept.applications())
        moves: dict[str, str] = {}
        for name, former in self._was.items():
            if places.of(name) in self._there:
                continue
            found = (each for each in former if each not in self._was and places.of(each) in self._there)
            if (old := next(found, None)) is not None and old not in moves.values():
                moves[name] = old
        return moves


def log_of_places(log: Log) -> Log:
    """The log whose applications are places: what paths of files and notes of commits speak of."""
    return log.kept if isinstance(log, PlacedLog) else log


def called(log: Log, application: str) -> tuple[str, ...]:
    """What an application of any log is called now that was called so once, see `PlacedLog.called`."""
    return log.called(application) if isinstance(log, PlacedLog) else (application,)


def handed(log: Log, application: str) -> frozenset[str]:
    """The topics of an application of any log that another one writes by now, see `PlacedLog.handed`."""
    return log.handed(application) if isinstance(log, PlacedLog) else frozenset()


def place_of(log: Log, application: str) -> str:
    """The place of an application in any log."""
    return log.place_of(application) if isinstance(log, PlacedLog) else application
