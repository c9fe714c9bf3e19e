"""External topics whose declared partition count or key differs from that of their records: a run repartitions them.

All readers of such a topic are rebuilt. So it is repartitioned only if all of them can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import ExternalTopic
from ..log.declared_topics import applications_of, reads
from ..log.placed_log import PlacedLog, latest_state
from ..progress.committed import Committed
from .model import Change, Subject, Verdict, Way

STILL_READ = "topology.still_read"
"""The kind of a change that prevents a rebuild: a reader would not be rebuilt with it."""

PAUSED = "topology.paused"
"""The kind of a change that prevents a repartitioning: a reader is paused, and would not catch up."""

STAYS = "topic.stays"
"""The kind of a change that prevents a repartitioning: the records could not be repartitioned."""

TOGETHER = "topic.together"
"""The kind of a change that prevents a repartitioning: another reader of the topic cannot be rebuilt."""

REPARTITIONED = "topic.repartitioned"
"""The kind of a change: a topic was repartitioned after it was read, or will be."""

_SETTLED = ("topic.partitions", "topic.key", REPARTITIONED)
"""The kinds of changes that a repartitioning settles."""


@dataclass(frozen=True)
class Repartition:
    """A topic to repartition. `was`: as it is committed. `records`: their number."""

    topic: Topic
    was: ExternalTopic
    records: int

    def settles(self, change: Change) -> bool:
        """Whether a change is settled by this repartitioning."""
        return change.kind in _SETTLED and change.subject.name == self.topic.name

    @property
    def what(self) -> str:
        """What a run does, as a sentence."""
        now, was = self.topic, self.was
        parts = "partition" if now.partitions == 1 else "partitions"
        where = f"into {now.partitions:,} {parts} instead of {was.partitions:,}"
        if now.key == was.key:
            return f"its {self.records:,} records are put {where}"
        keys = f"by the key {_key(now.key)} instead of {_key(was.key)}"
        placed = keys if now.partitions == was.partitions else f"{where}, {keys}"
        return f"its {self.records:,} records are put {placed}"


def external_topics(topology: Topology) -> dict[str, Topic]:
    """The external topics that a topology reads, by name."""
    return {topic.name: topic for topic in topology.read if topic.writer is None}


def possible_repartitions(topologies: Iterable[Topology], committed: Mapping[str, Committed]) -> dict[str, Repartition]:
    """The topics that could be repartitioned, obstacles aside."""
    possible: dict[str, Repartition] = {}
    for topology in topologies:
        if topology.application not in committed:
            continue
        seeds = committed[topology.application].states[committed[topology.application].seeds]
        for name, topic in external_topics(topology).items():
            committed_topic = seeds.topics.get(name)
            if committed_topic is not None and committed_topic.can_move_to(topic):
                records = (
                    segments.records
                    for part in range(committed_topic.partitions)
                    for segments in seeds.ranges(name, part)
                )
                possible[name] = Repartition(topic, committed_topic, sum(records))
    return possible


def repartitioned(changes: Sequence[Change], repartitions: Mapping[str, Repartition]) -> Iterator[Change]:
    """Changes as they are after repartitioning, with one change per topic."""
    reported: set[str] = set()
    for change in changes:
        move = repartitions.get(change.subject.name)
        if move is None or not move.settles(change):
            yield change
        elif move.topic.name not in reported:
            reported.add(move.topic.name)
            subject = Subject("topic", move.topic.name, change.subject.application)
            yield Change(REPARTITIONED, subject, Verdict.REPLACE, move.what, place=change.place)


def obstacles(
    log: PlacedLog,
    topologies: Sequence[Topology],
    move: Repartition,
    owned: Collection[str] | None,
    untyped: Collection[str],
) -> Iterator[Change]:
    """The obstacles to a repartitioning, apart from the changes of the run's topologies that read the topic.

    `owned`, `untyped`: see `start_changes` (there `others`).
    """
    name = move.topic.name
    for topology in topologies:
        if name in external_topics(topology) and log.paused_since(topology.application) is not None:
            yield Change(
                PAUSED,
                Subject.of_topology(topology.application),
                Verdict.ERROR,
                f"it is paused, and has to be rebuilt as the records of {name} are repartitioned",
                ways=(Way("end the pause", f"headwater resume --select {topology.name}"),),
            )
    of_the_run = {*untyped, *(topology.application for topology in topologies)}
    for other in applications_of(log, topologies[0].project):
        if other in of_the_run or name not in _fed(reads(log, other, lenient=True)):
            continue
        if latest_state(log, other).tasks.consumed:
            yield still_read(other, name, f"{name}+", owned)


def still_read(application: str, topic: str, select: str, owned: Collection[str] | None) -> Change:
    """The change for an application that has read a topic and would not be rebuilt with it. `select`: what
    selects it.
    """
    topology = application.partition("-")[2]
    gone = owned is not None and application not in owned
    return Change(
        STILL_READ,
        Subject.of_topology(application),
        Verdict.ERROR,
        f"topology {topology} has read {topic}, and would have to be rebuilt with it, but it is "
        f"{'not in the project any more' if gone else 'not selected'}",
        ways=(Way("remove its committed state", f"headwater remove {application}"),)
        if gone
        else (Way("select it too", f"headwater run --select '{select}'"),),
    )


def stays(topic: str, reader: Topology, why: HeadwaterError) -> Change:
    """The change for a topic that could not be repartitioned. `reader`: any topology of the project."""
    subject = Subject("topic", topic, f"{reader.project}-seed")
    return Change(STAYS, subject, Verdict.ERROR, why.message, ways=(Way(why.hint),) if why.hint else ())


def together_with(move: Repartition, application: str, reader: str) -> Change:
    """The change for an application whose topic is not repartitioned because another `reader` cannot start."""
    return Change(
        TOGETHER,
        Subject("topic", move.topic.name, application),
        Verdict.ERROR,
        f"its records are not repartitioned, because topology {reader.partition('-')[2]} reads it too and cannot "
        "start; its own changes have the reason",
    )


def _fed(read: Mapping[str, str | None]) -> set[str]:
    return {topic for topic, writer in read.items() if writer is None}


def _key(columns: str) -> str:
    return columns or "(none)"
