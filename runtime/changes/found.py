"""Changes that are found between a project and what is committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.records import Renames
from ..log.declared_topics import recorded_declaration
from ..log.placed_log import PlacedLog
from ..progress.committed import Committed
from ..progress.named_records import repartitioned_since
from ..progress.positions import Gap, OtherCommits, gaps, other_commits
from .comparison import OTHER_WRITER, SOMETHING_ELSE, Comparison, topic_changes
from .model import FROM_THE_FIRST, RUN_AGAIN, Change, Subject, SubjectKind, Verdict, Way, start_again
from .moves import reset_changes
from .returned import settled, with_returned

# All that has changed about an application since it was committed: what a plan shows, and a run obeys.

RECORDS_MISSING = "topic.records_missing"
"""The kind of a change of the log itself: consumed records are not there any more."""


def changes_of(topology: Topology, committed: Committed, owned: Collection[str] | None = None) -> tuple[Change, ...]:
    """The changes of an application, and of the topics that it reads and writes. A run refuses to start with some.

    In `committed`, writers must be at least as new as the application. `owned`: the applications of the project's
    topologies, None if they are not known.
    """
    own = committed.own
    if not any(committed.version):  # nothing is committed by anybody: the log is new
        return ()
    topology = settled(topology, committed.described(), lambda topic: recorded_declaration(topic, committed.of(topic)))
    current = TopologyDescription.of(topology, committed.begun)
    unread = committed.half_done(topology)
    compared = Comparison.of(topology, committed.described(), current, unread, repartitioned_since(committed))
    differences = tuple(with_returned(compared.changes(own.tasks.consumed), committed, current))
    renamed = tuple(renamed_changes(topology, own.renaming)) if own.number else ()
    if renamed:  # its files have changed with its name, and that is told
        differences = tuple(change for change in differences if change.kind != SOMETHING_ELSE)
    found: dict[tuple[str, str], Change] = {}
    of_topics = topic_changes(topology, committed, owned)
    resets, missing = reset_changes(topology, committed), _missing(topology, committed)
    for change in (*renamed, *of_topics, *differences, *resets, *missing):
        found.setdefault((change.kind, change.subject.name), change)
    return tuple(found.values())


def renamed_changes(topology: Topology, renames: Renames) -> Iterator[Change]:
    """Other names than before, as `was` says.

    What is behind a step with a name is a subtopology, which nobody has named: its repartition topic is told instead.
    """
    prefix, suffix = f"{topology.application}-", "-repartition"
    owners = {new: new.removeprefix(prefix).removesuffix(suffix) for new in renames.topics.values()}
    behind = {new: owner for new, owner in owners.items() if new.endswith(suffix) and "-" in owner}
    parts = {owner.replace("-", "_") for owner in behind.values()}
    kinds: tuple[tuple[SubjectKind, Mapping[str, str]], ...] = (
        ("flow", {old: new for old, new in renames.subtopologies.items() if new not in parts}),
        ("topic", {old: new for old, new in renames.topics.items() if new in behind}),
        ("store", renames.stores),
    )
    for kind, names in kinds:
        for old, new in names.items():
            what = f"it was called {old}, and goes on where that was"
            yield Change(f"{kind}.renamed", Subject(kind, new, topology.application), Verdict.COMPATIBLE, what)
    for old in renames.application:
        what = f"it was called {old.partition('-')[2]}, and goes on from what that has committed"
        yield Change(
            "topology.renamed",
            Subject.of_topology(topology.application),
            Verdict.COMPATIBLE,
            what,
        )


def _missing(topology: Topology, committed: Committed) -> Iterator[Change]:
    """Records that the application has consumed and that the log has lost."""
    name = topology.name
    ways = (
        Way("the log was changed by hand or put back in parts: put all of it back as it was at one moment"),
        start_again("start this application again from the beginning", f"{name}+"),
    )
    for topic, lines in _gaps(topology, committed).items():
        yield Change(
            RECORDS_MISSING,
            Subject("topic", topic, topology.application),
            Verdict.ERROR,
            "the log does not hold records of it any more that were consumed",
            tuple(lines),
            ways=ways,
        )


def lost_records(topology: Topology, committed: Committed) -> Iterator[Gap | OtherCommits]:
    """Records that the application has consumed and that the log has lost.

    Positions in a topic that another application has written so far count that one's records: nothing is lost, and the
    comparison tells of it.
    """
    writers = {name: used.writer for name, used in committed.described().topics.items()}
    others = {topic.name for topic in topology.read if writers.get(topic.name, topic.writer) != topic.writer}
    short = [gap for gap in gaps(topology, committed) if gap.topic not in others]
    yield from short
    others.update(gap.topic for gap in short)  # of which enough is said
    yield from (each for each in other_commits(topology, committed) if each.topic not in others)


def _gaps(topology: Topology, committed: Committed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for gap in lost_records(topology, committed):
        found.setdefault(gap.topic, []).append(str(gap))
    return found


# What a full refresh comes to: whether applications could begin again with nothing, and where they would begin.
#
# It removes results for good. So it is refused, and not offered as a way out, where the run after it would not begin.


class RefreshRefusedError(HeadwaterError):
    """A run would refuse to begin after a full refresh too: `changes` are why. Nothing was removed."""

    def __init__(self, changes: Sequence[Change]) -> None:
        names = ", ".join(sorted({each.subject.application for each in changes}))
        listed = "".join(f"\n  - {change}" for change in dict.fromkeys(changes))
        ways = dict.fromkeys(way for change in changes for way in change.ways)
        out = "".join(f"\n  - {way}" for way in ways)
        super().__init__(
            f"nothing was removed, as {names} could not begin again from nothing:{listed}"
            + (f"\n  ways out:{out}" if out else "")
        )
        self.changes = tuple(changes)


def as_if_begun_again(log: PlacedLog, applications: Collection[str]) -> PlacedLog:
    """The log as it would be if these applications had committed nothing; to read only."""
    return log.beside({each: f"{each}~0" for each in applications})


def check_refresh(
    log: PlacedLog,
    topologies: Sequence[Topology],
    applications: Collection[str],
    owned: Collection[str] | None = None,
    restarted: Collection[str] = (),
) -> None:
    """Check that topologies could begin again, once all that `applications` have committed is removed.

    `owned`: the applications of the project's topologies. `restarted`: topics that start again with their seeds then.
    Raises RefreshRefusedError, LogError.
    """
    refused = refused_from_nothing(log, topologies, applications, owned)
    if left := [each for each in refused if each.subject.kind != "topic" or each.subject.name not in restarted]:
        raise RefreshRefusedError(left)


def refused_from_nothing(
    log: PlacedLog, topologies: Sequence[Topology], applications: Collection[str], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """Why a run would refuse topologies if `applications` had committed nothing."""
    empty = as_if_begun_again(log, applications)
    return tuple(
        change
        for topology in topologies
        for change in changes_of(topology, Committed(empty, topology), owned)
        if change.verdict is Verdict.ERROR
    )


def with_ways_that_help(
    log: PlacedLog, group: Sequence[Topology], changes: Sequence[Change], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """The changes of the first topology of a group, of which the others read. To begin again is a way out only if that
    would not be refused, and it says where that is.
    """
    if not any(map(_begins_again, (way for each in changes for way in each.ways))):
        return tuple(changes)
    stopped = refused_from_nothing(log, group, {each.application for each in group}, owned)
    helps = all(each.kind == OTHER_WRITER for each in stopped)  # the command is about both writers
    starts = {topic: start for part in group[0].subtopologies for topic, start in part.starts.items()}
    return tuple(replace(each, ways=tuple(_ways(each.ways, starts, helps))) for each in changes)


def _ways(ways: Sequence[Way], starts: Mapping[str, str], helps: bool) -> Iterator[Way]:
    for way in ways:
        if not _begins_again(way):
            yield way
        elif helps:
            said = ", ".join(f"{topic}: {start}" for topic, start in sorted(starts.items()) if start != "earliest")
            yield replace(way, what=way.what.replace(FROM_THE_FIRST, f"at its `start` ({said})")) if said else way


def _begins_again(way: Way) -> bool:
    return way.command is not None and way.command.startswith(RUN_AGAIN)
