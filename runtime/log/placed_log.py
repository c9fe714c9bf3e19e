"""A log that translates names of applications to their places, so that renaming and rebuilding move no files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from threading import Lock

from ..timed_parts import wall_ms
from .commit.encoding import decode_commit, encode_commit
from .commit.records import PlacesRecord
from .errors import CommitDamagedError, CommitExistsError, CommitFormatError, LogError
from .log import CommitStore, Listed, Log, LogFile, NewRecords, Writer, writer_of
from .places import PlacedCommits, Places
from .ranges import Rewritten
from .state import LoadedStates, LogState


class PlacedWriter:
    """A `Writer` that takes names of applications, and writes to their places. `place_of`: application -> place."""

    def __init__(self, kept: Writer, place_of: Callable[[str], str]) -> None:
        self._kept = kept
        self._place_of = place_of
        self.sync = kept.sync

    def write(self, application: str, *records: *NewRecords) -> tuple[Listed, ...]:
        return self._kept.write(self._place_of(application), *records)


# Places are stored as commits of a reserved application. Each commit contains all places.
#
# So a change of several places is atomic, even if a process is killed, and reading the last commit is enough. A log in
# which nothing was ever renamed or rebuilt has no such commits: it looks as older versions wrote it.

PLACES = "~places"
"""The name of the reserved application. No topology can have it."""


class PlacesSequence:
    """The committed places of one log. Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._number = -1
        self._places = Places()
        self._lock = Lock()

    @cached_property
    def _commits(self) -> CommitStore:
        """Opened at the first look. Tasks get the places with their plan, and never look."""
        return self._log.commits(PLACES)

    def known(self) -> Places:
        """The places as of the last look. The first call looks. Raises LogError."""
        return self._places if self._number >= 0 else self.look()

    def look(self) -> Places:
        """The latest committed places: reads the commits since the last look. Raises LogError."""
        with self._lock:
            if self._number < 0:
                self._number = 0
                if latest := self._commits.latest():
                    self._take(latest)
            while self._commits.identity(self._number + 1) is not None:
                self._take(self._number + 1)
            return self._places

    def change(self, change: Callable[[Places], Places]) -> Places:
        """Commit a change of the places, with optimistic concurrency.

        `change`: maps the latest places to new ones. It is called again if another process committed first, and may
        raise errors. Raises LogError.
        """
        while True:
            now = self.look()
            after = change(now)
            if after == now:
                return now
            self._tell_older(now, after)
            with self._lock:
                try:
                    self._commits.create(self._number + 1, encode_commit(PlacesRecord(wall_ms(), after)))
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
        """Make older versions of Headwater, which do not support places, reject the log.

        They would take a renamed application for a new one. So a commit that they cannot read is added to an
        application that each run of the project reads.
        """
        for project in sorted(_projects(after) - _projects(now)):
            state = LogState.load(self._log.commits(f"{project}-seed"))
            while not state.placed:
                try:
                    state.commit(PlacesRecord(wall_ms()))
                except CommitExistsError:
                    state.refresh()


def _projects(places: Places) -> set[str]:
    names = (*places.names, *places.given_up, *places.counts)
    return {name.partition("-")[0] for name in names if "-" in name}


# The log in which the name of an application and the place of its commits and records may differ.
#
# It wraps any other log, with the same protocol. Each call looks up the place of an application and passes it on.
# Ranges, paths of files and the commit notes next to stores contain places. So they stay valid after a renaming.


class PlacesChangedError(LogError):
    """Another process has changed the place of an application during this run. `application`: its name."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"another run has just renamed {application}, or a topology that takes its place",
            "run again: nothing was changed",
        )


class PlacedLog:
    """A `Log` that wraps another one, `kept`.

    `known`: application -> its place, if the caller knows it; no commits are read for it. `was`: application -> its
    former names, the latest first. An application that the log does not contain takes over the place of a former
    name: the first one that the log contains and that is no application of `was` itself. This instance sees that at
    once, other readers of the log after `settle`. `handed`: see `beside`. `loaded`: shared with other instances.
    """

    def __init__(
        self,
        kept: Log,
        known: Mapping[str, str] | None = None,
        was: Mapping[str, Sequence[str]] | None = None,
        handed: Mapping[str, Collection[str]] | None = None,
        loaded: LoadedStates | None = None,
    ) -> None:
        self.kept = kept
        self._loaded = loaded or LoadedStates()
        self._known = dict(known or {})
        self._was = dict(was or {})
        self._handed = dict(handed or {})
        self._sequence = PlacesSequence(kept)
        self._there: frozenset[str] | None = None
        # What names no application is the same in both logs. Paths of files contain the place.
        self.check = kept.check
        self.remove_leftovers = kept.remove_leftovers
        self.identity = kept.identity
        self.look_seconds = kept.look_seconds
        self.read = kept.read
        self.ahead = kept.ahead
        self.save_file = kept.save_file
        self.read_file = kept.read_file
        self.remove = kept.remove

    def __repr__(self) -> str:
        return repr(self.kept)

    def place_of(self, application: str) -> str:
        """The place of an application, as of the last look."""
        return self._known.get(application) or self._view(self._sequence.known()).of(application)

    def places(self) -> Places:
        """The latest committed places. Raises LogError."""
        return self._sequence.look()

    def change(self, change: Callable[[Places], Places]) -> Places:
        """Commit a change of the places, see `PlacesSequence.change`. Raises LogError."""
        return self._sequence.change(change)

    def renamed(self) -> dict[str, str]:
        """The renamings that are not settled yet: new name -> former name, whose place the application takes over."""
        return self._moves(self._sequence.known())

    def beside(self, results: Mapping[str, str], handed: Mapping[str, Collection[str]] | None = None) -> PlacedLog:
        """The log in which these applications are at the places of their rebuilds. `results`: application -> place.

        `handed`: application -> its topics that another application writes there. Those of committed rebuilds are
        known without it.
        """
        return PlacedLog(self.kept, results, self._was, handed, self._loaded)

    def handed(self, application: str) -> frozenset[str]:
        """The topics of an application that another application writes now, as of the last look.

        Their old records are still in the place of the application.
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
        """The current names for a name from the past, as of the last look.

        One name, or two if another application has the old name now: first that one, then the renamed one.
        """
        places = self._view(self._sequence.known())
        now = places.former.get(application, application)
        return (application, now) if now != application and application in places.names else (now,)

    def settle(self, application: str) -> None:
        """Commit the place of an application for all readers of the log, before its first commit there.

        Does nothing the second time. Raises PlacesChangedError, LogError.
        """
        if application in self._known:
            return
        place = self.place_of(application)

        def settled(now: Places) -> Places:
            self._there = None
            former = self._moves(now).get(application)
            after = now if former is None else now.moved({application: former}, wall_ms())
            if after.of(application) != place:
                raise PlacesChangedError(application)
            return after.settled(application)

        if self._was.get(application) or place != application:
            self._sequence.change(settled)
        self._known[application] = place

    def applications(self) -> list[str]:
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
        """See `Log.commits`. The place is looked up now. The returned object keeps it."""
        if application not in self._known:
            self._sequence.look()
        place = self.place_of(application)
        kept = self.kept.commits(place)
        return kept if place == application else PlacedCommits(application, kept, self.settle)

    def state(self, application: str) -> LogState:
        """The latest state of an application, for callers that only read it. Raises LogError."""
        return self._loaded.latest(self.commits(application))

    def write(self, application: str, *records: *NewRecords) -> tuple[Listed, ...]:
        return self.kept.write(self.place_of(application), *records)

    @contextmanager
    def writer(self) -> Iterator[PlacedWriter]:
        with writer_of(self.kept) as kept:
            yield PlacedWriter(kept, self.place_of)

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Listed, ...]:
        return self.kept.write_rewritten(self.place_of(application), topic, name, parts)

    def files(self, application: str) -> Iterator[LogFile]:
        return self.kept.files(self.place_of(application))

    def drop(self, application: str) -> None:
        """See `Log.drop`. The application keeps its place."""
        self.kept.drop(self.place_of(application))

    def write_status(self, application: str, status: str) -> None:
        self.kept.write_status(self.place_of(application), status)

    def read_status(self, application: str) -> str | None:
        return self.kept.read_status(self.place_of(application))

    def pause(self, application: str) -> None:
        """See `Log.pause`. Pauses a rebuild of the application too, which stays paused after the switch."""
        for place in self._view(self._sequence.look()).places_of(application):
            self.kept.pause(place)

    def resume(self, application: str) -> None:
        for place in self._view(self._sequence.look()).places_of(application):
            self.kept.resume(place)

    def paused_since(self, application: str) -> int | None:
        """See `Log.paused_since`. In a rebuild too, this is the pause of the application itself."""
        return self.kept.paused_since(self._view(self._sequence.known()).of(application))

    def _view(self, places: Places) -> Places:
        """The places as this instance sees them: with the renamings that are not settled yet."""
        moves = self._moves(places)
        return places.moved(moves, 0) if moves else places

    def _moves(self, places: Places) -> dict[str, str]:
        """The renamings that are not settled yet: new name -> former name."""
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
    """The underlying log, which takes places as names of applications, as paths and commit notes contain them."""
    return log.kept if isinstance(log, PlacedLog) else log


def called(log: Log, application: str) -> tuple[str, ...]:
    """The current names for a name from the past, in any log. See `PlacedLog.called`."""
    return log.called(application) if isinstance(log, PlacedLog) else (application,)


def latest_state(log: Log, application: str) -> LogState:
    """The latest state of an application in any log, for callers that only read it. See `PlacedLog.state`."""
    return log.state(application) if isinstance(log, PlacedLog) else LogState.load(log.commits(application))


def handed(log: Log, application: str) -> frozenset[str]:
    """The topics of an application that another one writes now, in any log. See `PlacedLog.handed`."""
    return log.handed(application) if isinstance(log, PlacedLog) else frozenset()


def place_of(log: Log, application: str) -> str:
    """The place of an application in any log."""
    return log.place_of(application) if isinstance(log, PlacedLog) else application
