"""Finds the changes of an application since its last commit, and checks full refreshes."""

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
from ..progress.positions import Gap, OtherCommits, RawGap, gaps, other_commits, raw_gaps, ways_on
from .comparison import OTHER_WRITER, SOMETHING_ELSE, Comparison, topic_changes
from .mirrored import refused
from .model import FROM_THE_FIRST, RUN_AGAIN, Change, Subject, SubjectKind, Verdict, Way, start_again, with_changes
from .moves import reset_changes
from .returned import settled, with_returned

RECORDS_MISSING = "topic.records_missing"
"""The kind of a change of the log itself: it has lost consumed records."""


def changes_of(topology: Topology, committed: Committed, owned: Collection[str] | None = None) -> tuple[Change, ...]:
    """The changes of an application, and of the topics that it reads and writes, as a plan shows them and a run obeys
    them.

    In `committed`, writers must be at least as new as the application. `owned`: the applications of the project's
    topologies; None if unknown.
    """
    own = committed.own
    if committed.is_new:
        return ()
    topology = settled(
        topology, committed.described(), lambda topic: recorded_declaration(topic, committed.writer(topic))
    )
    current = TopologyDescription.from_topology(topology, committed.begun)
    unread = committed.half_done(topology)
    compared = Comparison.of(topology, committed.described(), current, unread, repartitioned_since(committed))
    differences = tuple(with_returned(compared.changes(own.tasks.consumed), committed, current))
    renamed = tuple(renamed_changes(topology, own.renaming)) if own.number else ()
    if renamed:  # its files have changed with its name, which is reported
        differences = tuple(change for change in differences if change.kind != SOMETHING_ELSE)
    changes: dict[tuple[str, str], Change] = {}
    of_topics = topic_changes(topology, committed, owned)
    resets, missing = reset_changes(topology, committed), _missing(topology, committed)
    for change in (*renamed, *of_topics, *differences, *resets, *missing):
        changes.setdefault((change.kind, change.subject.name), change)
    return tuple(changes.values())


def renamed_changes(topology: Topology, renames: Renames) -> Iterator[Change]:
    """The renames by `was`.

    The subtopology behind a named step has no name of its own: the change is one of its repartition topic.
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
            what = f"it was called {old}, and resumes where that was"
            yield Change(f"{kind}.renamed", Subject(kind, new, topology.application), Verdict.COMPATIBLE, what)
    for old in renames.application:
        what = f"it was called {old.partition('-')[2]}, and resumes from its committed state"
        yield Change(
            "topology.renamed",
            Subject.of_topology(topology.application),
            Verdict.COMPATIBLE,
            what,
        )


def _missing(topology: Topology, committed: Committed) -> Iterator[Change]:
    """The changes for consumed records that the log has lost."""
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
            "the log has lost records of it that were consumed",
            tuple(lines),
            ways=ways,
        )
    in_kafka: dict[str, list[RawGap]] = {}
    for gap in raw_gaps(topology, committed):
        in_kafka.setdefault(gap.topic.name, []).append(gap)
    for topic, found in in_kafka.items():
        yield Change(
            RECORDS_MISSING,
            Subject("topic", topic, topology.application),
            Verdict.ERROR,
            "Kafka lacks records of it at the positions of its readers",
            tuple(map(str, found)),
            ways=(Way(ways_on(topology.application, found)),),
        )


def lost_records(topology: Topology, committed: Committed) -> Iterator[Gap | OtherCommits]:
    """Consumed records that the log has lost.

    Positions in a topic of another former writer count that one's records: they are not lost, and the comparison
    reports the writer.
    """
    writers = {name: used.writer for name, used in committed.described().topics.items()}
    others = {topic.name for topic in topology.read if writers.get(topic.name, topic.writer) != topic.writer}
    short = [gap for gap in gaps(topology, committed) if gap.topic not in others]
    yield from short
    others.update(gap.topic for gap in short)  # these are reported already
    yield from (commits for commits in other_commits(topology, committed) if commits.topic not in others)


def _gaps(topology: Topology, committed: Committed) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for gap in lost_records(topology, committed):
        lines.setdefault(gap.topic, []).append(str(gap))
    return lines


# A full refresh removes results for good. So it is an error, and no way out, if the run after it could not start.


class RefreshRefusedError(HeadwaterError):
    """A run could not start after a full refresh either. `changes`: with the errors. Nothing was removed."""

    def __init__(self, changes: Sequence[Change]) -> None:
        names = ", ".join(sorted({change.subject.application for change in changes}))
        super().__init__(with_changes(f"nothing was removed, as {names} could not start empty", changes))


def as_if_restarted(log: PlacedLog, applications: Collection[str]) -> PlacedLog:
    """The log as it would be if these applications had committed nothing; read-only."""
    return log.beside({application: f"{application}~0" for application in applications})


def check_refresh(
    log: PlacedLog,
    topologies: Sequence[Topology],
    applications: Collection[str],
    owned: Collection[str] | None = None,
    restarted: Collection[str] = (),
) -> None:
    """Check that topologies could start once all commits of `applications` are removed.

    `owned`: the applications of the project's topologies. `restarted`: topics that are seeded again then. Raises
    RefreshRefusedError, LogError.
    """
    errors = (
        *errors_from_nothing(log, topologies, applications, owned),
        *refused_in_kafka(log, topologies, applications),
    )
    if left := [change for change in errors if change.subject.kind != "topic" or change.subject.name not in restarted]:
        raise RefreshRefusedError(left)


def refused_in_kafka(log: PlacedLog, topologies: Sequence[Topology], applications: Collection[str]) -> Iterator[Change]:
    """Topics that `recomputed: refuse` protects: what writes them, and what writes them to Kafka, would start again."""
    for mirror in topologies:
        name = mirror.application
        if mirror.is_mirror and name in applications:
            yield from refused(mirror, log.state(name), applications, name)


def errors_from_nothing(
    log: PlacedLog, topologies: Sequence[Topology], applications: Collection[str], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """The errors of topologies if `applications` had committed nothing."""
    empty = as_if_restarted(log, applications)
    return tuple(
        change
        for topology in topologies
        for change in changes_of(topology, Committed(empty, topology), owned)
        if change.verdict is Verdict.ERROR
    )


def with_ways_that_help(
    log: PlacedLog, group: Sequence[Topology], changes: Sequence[Change], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """The changes of the first topology of a group, whose readers are the others. A restart is a way out only if it has
    no errors, and its sentence has the `start`.
    """
    if not any(map(_begins_again, (way for change in changes for way in change.ways))):
        return tuple(changes)
    stopped = errors_from_nothing(log, group, {topology.application for topology in group}, owned)
    helps = all(change.kind == OTHER_WRITER for change in stopped)  # the command is about both writers
    starts = {topic: start for part in group[0].subtopologies for topic, start in part.starts.items()}
    return tuple(replace(change, ways=tuple(_ways(change.ways, starts, helps))) for change in changes)


def _ways(ways: Sequence[Way], starts: Mapping[str, str], helps: bool) -> Iterator[Way]:
    for way in ways:
        if not _begins_again(way):
            yield way
        elif helps:
            said = ", ".join(f"{topic}: {start}" for topic, start in sorted(starts.items()) if start != "earliest")
            yield replace(way, what=way.what.replace(FROM_THE_FIRST, f"at its `start` ({said})")) if said else way


def _begins_again(way: Way) -> bool:
    return way.command is not None and way.command.startswith(RUN_AGAIN)
