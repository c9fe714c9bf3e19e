"""The places of applications in a log: the names under which their commits and records are stored.

An application that was never renamed or rebuilt is stored under its own name. A renamed one keeps its old place, so
no file moves. A rebuild writes a second result in a new place, `<name>~<number>`, and takes over when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .log import CommitStore

# The mapping as immutable data. Every change returns a new instance. `PlacesSequence` commits it.


@dataclass(frozen=True)
class Recomputed:
    """A rebuild in progress: a new result of an application, in a `place` of its own.

    `content`: identifies the code that computes the result, see `contents_of`. `takes`: other application -> its
    topics that this application writes instead, from the switch on.
    """

    place: str
    content: str
    takes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    seldom: ClassVar = ("takes",)


@dataclass(frozen=True)
class Places:
    """The places of all applications of a log.

    `names`: application -> its place, if that is not its name. `given_up`: released places, which belong to no
    application -> time of release (ms); their records may be dropped. `counts`: name -> the highest number of a place
    `<name>~<number>` that was ever used. `former`: old name of an application -> its current name. `recomputed`:
    application -> its rebuild in progress. `handed`: place -> topic that its application no longer writes, because
    another application does, or none -> since when (ms); 0 once the records are dropped.

    The application `a` is renamed to `b`, then rebuilt at time 6, and switched at time 7 (empty fields omitted):

        renamed     names {b: a}, former {a: b}
        rebuilding  names {b: a}, former {a: b}, counts {b: 2}, recomputed {b: place b~2}
        switched    names {b: b~2}, former {a: b}, counts {b: 2}, given_up {a: 7}
    """

    names: Mapping[str, str] = field(default_factory=dict)
    given_up: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)
    recomputed: Mapping[str, Recomputed] = field(default_factory=dict)
    handed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    seldom: ClassVar = ("handed",)

    def of(self, name: str) -> str:
        """The place of an application. For a new application it is a place that was never used before."""
        if name in self.names:
            return self.names[name]
        return self._beside(name) if name in self.given_up or name in self.names.values() else name

    def name_of(self, place: str) -> str | None:
        """The application to which a place belongs; None if it belongs to none."""
        if place in self.given_up:
            return None
        named = next((name for name, there in self.names.items() if there == place), None)
        return named if named is not None or place in self.names else place

    def settled(self, name: str) -> Places:
        """The same with the current place of an application in `names`, so that it keeps this place."""
        place = self.of(name)
        if place == name or name in self.names:
            return self
        return replace(self, names={**self.names, name: place}, counts=self._counted(name, place))

    def moved(self, moves: Mapping[str, str], at: int, there: Collection[str] = ()) -> Places:
        """The same after applications were renamed, all at once: each takes over the place of its old name.

        `moves`: new name -> old name. `at`: now, in ms. `there`: places with records. Those that no application has
        any longer are released. Rebuilds of all these names are released too, because they were made under old names.
        """
        taken = {name: self.of(other) for name, other in moves.items()}
        left = {self.of(name) for name in moves} - set(taken.values())
        kept = {name: place for name, place in self.names.items() if name not in moves and name not in moves.values()}
        renamed = {other: name for name, other in moves.items()}
        former = {old: renamed.get(now, now) for old, now in self.former.items()} | renamed
        return replace(
            self,
            former={old: now for old, now in former.items() if old != now},
            names=kept | {name: place for name, place in taken.items() if name != place},
            given_up={**self.given_up, **dict.fromkeys(sorted(left.intersection(there)), at)},
        ).abandoned({*moves, *moves.values()}, at)

    def places_of(self, name: str) -> tuple[str, ...]:
        """All places that an application writes: its own, and the one of its rebuild."""
        found = self.recomputed.get(name)
        return (self.of(name),) if found is None else (self.of(name), found.place)

    def beside(self, name: str) -> tuple[Places, str]:
        """The same with one more place counted, and that place: `<name>~<number>`, never used before."""
        place = self._beside(name)
        return replace(self, counts=self._counted(name, place)), place

    def recomputing(
        self, contents: Mapping[str, str], at: int, takes: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
    ) -> Places:
        """The same with rebuilds of these applications.

        Rebuilds in progress continue if all of them have this content. Otherwise they are released, and all restart in
        new places. `contents`: application -> the content of its rebuild. `takes`: application -> the topics that it
        takes over, see `Recomputed`.
        """
        wanted = {name: (content, dict((takes or {}).get(name, {}))) for name, content in contents.items()}
        known = {name: self.recomputed[name] for name in contents if name in self.recomputed}
        if {name: (each.content, dict(each.takes)) for name, each in known.items()} == wanted:
            return self
        after = self.abandoned(contents, at)
        for name, (content, taken) in wanted.items():
            after, place = after.beside(name)
            after = replace(after, recomputed={**after.recomputed, name: Recomputed(place, content, taken)})
        return after

    def abandoned(self, names: Collection[str], at: int) -> Places:
        """The same without the rebuilds of these applications. Their places are released."""
        left = {self.recomputed[name].place: at for name in names if name in self.recomputed}
        kept = {name: each for name, each in self.recomputed.items() if name not in names}
        return replace(self, recomputed=kept, given_up={**self.given_up, **left})

    def switched(self, names: Collection[str], at: int, gone: Collection[str] = ()) -> Places:
        """The same after applications switched to their rebuilds, all at once.

        Their old places are released. The topics that they take over are handed to them. `gone`: applications that
        have nothing left after that, so their places are released too.
        """
        kept = {name: each for name, each in self.recomputed.items() if name not in names}
        new = {name: self.recomputed[name].place for name in names}
        left = {self.of(name): at for name in (*names, *gone)}
        handed = {place: topics for place, topics in self.handed.items() if place not in left}
        for name in names:
            for other, topics in self.recomputed[name].takes.items():
                if (place := self.of(other)) not in left:
                    handed[place] = {**handed.get(place, {}), **dict.fromkeys(topics, at)}
        return replace(
            self,
            names={name: place for name, place in self.names.items() if name not in gone} | new,
            given_up={**self.given_up, **left},
            recomputed=kept,
            handed=handed,
        )

    def emptied(self, place: str, topic: str) -> Places:
        """The same after the records of a handed topic of a place were dropped."""
        return replace(self, handed={**self.handed, place: {**self.handed.get(place, {}), topic: 0}})

    def refreshed(self, names: Collection[str]) -> Places:
        """The same after applications restarted in their places: none of their topics is handed over any longer."""
        begun = {self.of(name) for name in names}
        return replace(self, handed={place: topics for place, topics in self.handed.items() if place not in begun})

    def dropped(self, place: str) -> Places:
        """The same after the records of a released place were dropped."""
        return replace(self, given_up={each: at for each, at in self.given_up.items() if each != place})

    def _beside(self, name: str) -> str:
        return f"{name}~{self.counts.get(name, 1) + 1}"

    def _counted(self, name: str, place: str) -> Mapping[str, int]:
        return {**self.counts, name: int(place.rpartition("~")[2])}


def is_beside(name: str) -> bool:
    """Whether a name is a place `<name>~<number>`. Topologies cannot have such a name."""
    return "~" in name


# The commits of an application with another place than its name.


class PlacedCommits:
    """The `CommitStore` of an application, stored in its place (`origin`).

    `kept`: the `CommitStore` of the place. `settle`: called with the application before the first commit, see
    `PlacedLog.settle`.
    """

    def __init__(self, application: str, kept: CommitStore, settle: Callable[[str], None]) -> None:
        self.application = application
        self.origin = kept.application
        self._settle = settle
        self._create = kept.create
        self.path = kept.path
        self.read = kept.read
        self.identity = kept.identity
        self.checksum = kept.checksum
        self.first = kept.first
        self.latest = kept.latest
        self.snapshots = kept.snapshots
        self.read_snapshot = kept.read_snapshot
        self.save_snapshot = kept.save_snapshot
        self.fold = kept.fold

    def create(self, number: int, data: bytes) -> str:
        if number == 1:
            self._settle(self.application)
        return self._create(number, data)


def origin_of(commits: CommitStore) -> str:
    """The place of an application's commits."""
    return commits.origin if isinstance(commits, PlacedCommits) else commits.application
