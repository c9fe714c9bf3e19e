"""Where the topics of an application are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .log import CommitStore

# Which application lives where in a log, as plain data. A name that nobody has moved is its own place.


@dataclass(frozen=True)
class Recomputed:
    """A result that is computed beside the one that an application has, in a `place` of its own. `content`: what
    computes it, see `contents_of`. `takes`: application -> its topics that this one writes in its place, from the
    moment when it takes over.
    """

    place: str
    content: str
    takes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    seldom: ClassVar = ("takes",)


@dataclass(frozen=True)
class Places:
    """`names`: application -> its place, where that is another one than its name. `given_up`: places that no
    application has any more, since when (ms): their records may be dropped. `counts`: name -> the highest number of a
    place `<name>~<number>` that was ever used. `former`: name that an application had -> its name now.
    `recomputed`: applications whose results are computed again, beside those that they have. `handed`: place -> topics
    of its application that another one writes by now, or nobody, since when (ms); 0 once their records are dropped.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    given_up: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)
    recomputed: Mapping[str, Recomputed] = field(default_factory=dict)
    handed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    seldom: ClassVar = ("handed",)

    def of(self, name: str) -> str:
        """The place of an application, even of one that has not begun: then nobody else has had it."""
        if name in self.names:
            return self.names[name]
        return self._beside(name) if name in self.given_up or name in self.names.values() else name

    def name_of(self, place: str) -> str | None:
        """The application that lives in a place; None if there is none any more."""
        if place in self.given_up:
            return None
        named = next((name for name, there in self.names.items() if there == place), None)
        return named if named is not None or place in self.names else place

    def settled(self, name: str) -> Places:
        """The same, with the place that an application has now written down, so that no change takes it away."""
        place = self.of(name)
        if place == name or name in self.names:
            return self
        return replace(self, names={**self.names, name: place}, counts=self._counted(name, place))

    def moved(self, moves: Mapping[str, str], at: int, there: Collection[str] = ()) -> Places:
        """The same after applications have taken over the places of others, all at once. Who had a place then has none.

        `moves`: name -> the name whose place it takes. `at`: now, ms. `there`: places with records: of these, those
        that nobody has any more are given up. So are results that are computed again for one of the names: they were
        made under names of before.
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
        """All places in which something is computed for an application: its own, and that of a result beside it."""
        found = self.recomputed.get(name)
        return (self.of(name),) if found is None else (self.of(name), found.place)

    def beside(self, name: str) -> tuple[Places, str]:
        """A name, and its place, beside an application, which nobody has had: `<name>~<number>`."""
        place = self._beside(name)
        return replace(self, counts=self._counted(name, place)), place

    def recomputing(
        self, contents: Mapping[str, str], at: int, takes: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
    ) -> Places:
        """The same with results of these applications beside those that they have: the ones that are there already, if
        all of them are of this content, or else new ones. `contents`: application -> what computes its result.
        `takes`: application -> the topics that it takes over, see `Recomputed`.
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
        """The same without the results that were computed again for these applications: nobody wants them any more."""
        left = {self.recomputed[name].place: at for name in names if name in self.recomputed}
        kept = {name: each for name, each in self.recomputed.items() if name not in names}
        return replace(self, recomputed=kept, given_up={**self.given_up, **left})

    def switched(self, names: Collection[str], at: int, gone: Collection[str] = ()) -> Places:
        """The same after applications have got the results that were computed again, all at once, and with them the
        topics that these take over. `gone`: applications of which nothing is left to anybody then.
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
        """The same once the records of a topic are dropped that nobody writes in this place any more."""
        return replace(self, handed={**self.handed, place: {**self.handed.get(place, {}), topic: 0}})

    def refreshed(self, names: Collection[str]) -> Places:
        """The same after applications have begun again in their places: nothing that they had there is handed over."""
        begun = {self.of(name) for name in names}
        return replace(self, handed={place: topics for place, topics in self.handed.items() if place not in begun})

    def dropped(self, place: str) -> Places:
        """The same once nothing is left in a place that was given up."""
        return replace(self, given_up={each: at for each, at in self.given_up.items() if each != place})

    def _beside(self, name: str) -> str:
        return f"{name}~{self.counts.get(name, 1) + 1}"

    def _counted(self, name: str, place: str) -> Mapping[str, int]:
        return {**self.counts, name: int(place.rpartition("~")[2])}


def is_beside(name: str) -> bool:
    """Whether it is the name of a place beside an application, which no topology has."""
    return "~" in name


# The commits of an application that lives in a place of another name.


class PlacedCommits:
    """The `CommitStore` of an application under its name. `kept`: the same under the name of the `origin`, its place.

    `settle`: called before the first commit there, which makes the place the application's for good.
    """

    def __init__(self, application: str, kept: CommitStore, settle: Callable[[str], None]) -> None:
        self.application = application
        self.origin = kept.application
        self._kept = kept
        self._settle = settle

    def path(self, number: int, *, snapshot: bool = False) -> str:
        """See `CommitStore.path`."""
        return self._kept.path(number, snapshot=snapshot)

    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`."""
        if number == 1:
            self._settle(self.application)
        return self._kept.create(number, data)

    def read(self, number: int) -> bytes | None:
        """See `CommitStore.read`."""
        return self._kept.read(number)

    def identity(self, number: int) -> str | None:
        """See `CommitStore.identity`."""
        return self._kept.identity(number)

    def checksum(self, number: int) -> int | None:
        """See `CommitStore.checksum`."""
        return self._kept.checksum(number)

    def first(self) -> int:
        """See `CommitStore.first`."""
        return self._kept.first()

    def latest(self) -> int:
        """See `CommitStore.latest`."""
        return self._kept.latest()

    def snapshots(self) -> list[int]:
        """See `CommitStore.snapshots`."""
        return self._kept.snapshots()

    def read_snapshot(self, number: int) -> bytes | None:
        """See `CommitStore.read_snapshot`."""
        return self._kept.read_snapshot(number)

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """See `CommitStore.save_snapshot`."""
        return self._kept.save_snapshot(number, data, identity)

    def fold(self, before: int, identity: str) -> None:
        """See `CommitStore.fold`."""
        self._kept.fold(before, identity)


def origin_of(commits: CommitStore) -> str:
    """The place of an application's commits: under its name the first of them were written."""
    return commits.origin if isinstance(commits, PlacedCommits) else commits.application
