"""Topics that are fed from outside and declared with another partition count or key than their records have: a run puts
the records where they are declared to be.

All that has read such a topic is computed again. So nothing is moved unless all of it can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import FedTopic
from ..log.declared_topics import applications_of, reads
from ..log.placed_log import PlacedLog
from ..log.state import LogState
from ..progress.committed import Committed
from .model import Change, Subject, Verdict, Way

STILL_READ = "topology.still_read"
"""The kind of a change that stops what is computed again: an application reads it that would not be."""

PAUSED = "topology.paused"
"""The kind of a change that stops it: a reader is paused, and would not catch up."""

STAYS = "topic.stays"
"""The kind of a change that stops it: the records could not be put elsewhere."""

TOGETHER = "topic.together"
"""The kind of a change that stops it: another reader of the topic cannot be computed again."""

REPARTITIONED = "topic.repartitioned"
"""The kind of a change: the records of a topic lie elsewhere than where they were read, or will."""

_LIES_ELSEWHERE = ("topic.partitions", "topic.key", REPARTITIONED)
"""The kinds of changes that moving the records settles."""


@dataclass(frozen=True)
class Repartition:
    """A topic whose records are to be put elsewhere. `was`: as it is committed."""

    topic: Topic
    was: FedTopic
    records: int

    def settles(self, change: Change) -> bool:
        """Whether a change is that the records lie elsewhere."""
        return change.kind in _LIES_ELSEWHERE and change.subject.name == self.topic.name

    @property
    def what(self) -> str:
        """What a run does, in words."""
        now, was = self.topic, self.was
        parts = "partition" if now.partitions == 1 else "partitions"
        where = f"into {now.partitions:,} {parts} instead of {was.partitions:,}"
        if now.key == was.key:
            return f"its {self.records:,} records are put {where}"
        keys = f"by the key {_key(now.key)} instead of {_key(was.key)}"
        placed = keys if now.partitions == was.partitions else f"{where}, {keys}"
        return f"its {self.records:,} records are put {placed}"


def fed_topics(topology: Topology) -> dict[str, Topic]:
    """The topics that a topology reads and nobody in the project writes."""
    return {topic.name: topic for topic in topology.read if topic.writer is None}


def possible_repartitions(topologies: Iterable[Topology], committed: Mapping[str, Committed]) -> dict[str, Repartition]:
    """The topics that could be moved, if nothing else stands against it."""
    found: dict[str, Repartition] = {}
    for topology in topologies:
        if topology.application not in committed:
            continue
        seeds = committed[topology.application].states[committed[topology.application].seeds]
        for name, topic in fed_topics(topology).items():
            known = seeds.topics.get(name)
            if known is not None and known.can_move_to(topic):
                records = (each.records for part in range(known.partitions) for each in seeds.ranges(name, part))
                found[name] = Repartition(topic, known, sum(records))
    return found


def repartitioned(changes: Sequence[Change], repartitions: Mapping[str, Repartition]) -> Iterator[Change]:
    """Changes as they are once records lie where they belong: each topic is told once."""
    told: set[str] = set()
    for change in changes:
        move = repartitions.get(change.subject.name)
        if move is None or not move.settles(change):
            yield change
        elif move.topic.name not in told:
            told.add(move.topic.name)
            subject = Subject("topic", move.topic.name, change.subject.application)
            yield Change(REPARTITIONED, subject, Verdict.REPLACE, move.what, place=change.place)


def obstacles(
    log: PlacedLog,
    topologies: Sequence[Topology],
    move: Repartition,
    owned: Collection[str] | None,
    unjudged: Collection[str],
) -> Iterator[Change]:
    """Why records must not be moved, whatever has changed about the topologies of a run that read them.

    `owned`, `unjudged`: see `judge`.
    """
    name = move.topic.name
    for topology in topologies:
        if name in fed_topics(topology) and log.paused_since(topology.application) is not None:
            yield Change(
                PAUSED,
                Subject.of_topology(topology.application),
                Verdict.ERROR,
                f"it is paused, and has to be computed again as the records of {name} are put elsewhere",
                ways=(Way("end the pause", f"headwater resume --select {topology.name}"),),
            )
    known = {*unjudged, *(each.application for each in topologies)}
    for other in applications_of(log, topologies[0].project):
        if other in known or name not in _fed(reads(log, other, lenient=True)):
            continue
        if LogState.load(log.commits(other)).tasks.consumed:
            yield still_read(other, name, f"{name}+", owned)


def still_read(application: str, topic: str, select: str, owned: Collection[str] | None) -> Change:
    """That an application has read a topic, and would not be computed again with what changes. `select`: what does."""
    topology = application.partition("-")[2]
    gone = owned is not None and application not in owned
    return Change(
        STILL_READ,
        Subject.of_topology(application),
        Verdict.ERROR,
        f"topology {topology} has read {topic}, and would have to be computed again with it, but it is "
        f"{'not in the project any more' if gone else 'not selected'}",
        ways=(Way("forget what it has committed", f"headwater remove {application}"),)
        if gone
        else (Way("select it too", f"headwater run --select '{select}'"),),
    )


def stays(topic: str, reader: Topology, why: HeadwaterError) -> Change:
    """That the records of a topic could not be put elsewhere. `reader`: any topology of the project."""
    subject = Subject("topic", topic, f"{reader.project}-seed")
    return Change(STAYS, subject, Verdict.ERROR, why.message, ways=(Way(why.hint),) if why.hint else ())


def together_with(move: Repartition, application: str, reader: str) -> Change:
    """That an application has to wait with a topic for another `reader` that is refused."""
    return Change(
        TOGETHER,
        Subject("topic", move.topic.name, application),
        Verdict.ERROR,
        f"its records are not put elsewhere, because topology {reader.partition('-')[2]} reads it too and is refused: "
        "the reason is told there",
    )


def _fed(read: Mapping[str, str | None]) -> set[str]:
    return {topic for topic, writer in read.items() if writer is None}


def _key(columns: str) -> str:
    return columns or "(none)"
