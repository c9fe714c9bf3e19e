"""Groups of topologies that are rebuilt together, changes of rebuilds, and unread records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir.topology import Topic, Topology
from ..progress.committed import Committed
from ..progress.kafka_ends import TopicEnds
from ..progress.planner import first_positions
from ..task_id import TaskKey
from .model import CONTINUE, FROM_THE_FIRST, UNDO, Change, ReadAgain, Subject, Verdict, start_again
from .moves import Moves
from .plan import Waiting

RECOMPUTED = "topology.recomputed"
"""The kind of the change of a rebuilt topology."""

_FROM_NOW_ON = {
    "flow.added": "it is new",
    "flow.removed": "it is gone",
    "topic.columns": "its columns changed",
}
"""Kinds of changes with another sentence in a rebuild: without one they apply to new records only."""


def written_by(group: Iterable[Topology]) -> frozenset[str]:
    """The topics that topologies write."""
    return frozenset(topic.name for topology in group for topic in topology.written)


def as_rebuilt(change: Change, written: Collection[str]) -> Change:
    """A change as it is in a rebuild: no error any more, and applied to all records.

    `written`: the rebuilt topics. Others stay as they are.
    """
    if change.kind in _FROM_NOW_ON and (change.subject.kind == "flow" or change.subject.name in written):
        what = f"{_FROM_NOW_ON[change.kind]}, for all records"
        return replace(change, verdict=Verdict.REPLACE, what=what, ways=(), onward="")
    if change.onward:
        return replace(change, verdict=Verdict.REPLACE, what=f"{change.what}, for all records", ways=(), onward="")
    if change.verdict is Verdict.ERROR:
        return replace(change, verdict=Verdict.REPLACE, ways=())
    return change


def rebuild_change(
    topology: Topology,
    changed: bool,
    again: Iterable[ReadAgain] = (),
    *,
    may_continue: bool = False,
    may_restart: bool = False,
) -> Change:
    """The change of a rebuilt topology. `changed`: it has changed itself; else a topology that it reads. `again`:
    records that it reads again.

    `may_continue`: its changes may apply from the next record on instead. `may_restart`: it may start from nothing
    instead, without a result until it has caught up.
    """
    ways = [UNDO, CONTINUE] if may_continue else [UNDO]
    if changed and may_restart:
        ways.append(start_again(f"drop the present result first, and start {FROM_THE_FIRST}", f"{topology.name}+"))
    cause = "" if changed else "it reads a rebuilt result: "
    return Change(
        RECOMPUTED,
        Subject.of_topology(topology.application),
        Verdict.REPLACE,
        f"{cause}its result is rebuilt; the present one stays until the rebuild has caught up",
        ways=tuple(ways),
        reads_again=tuple(again),
    )


def together(
    topologies: Sequence[Topology],
    changed: Collection[str],
    moves: Moves | None = None,
    before: Mapping[str, Collection[str]] | None = None,
) -> Iterator[list[Topology]]:
    """The groups of topologies that are rebuilt together, in the given order: changed ones with their readers, and
    those that take topics over from them.

    `before`: application -> those whose results it has read so far. Its present result depends on them, even if it
    reads other topics now. So both are replaced by one commit.
    """
    reached: dict[str, set[str]] = {name: {name} for name in changed}
    taken = {} if moves is None else moves.takes()
    writers = {
        name: {*writers_of(each), *taken.get(name, ()), *(before or {}).get(name, ())}
        for name, each in ((topology.application, topology) for topology in topologies)
    }
    for members in reached.values():
        while more := {name for name, read in writers.items() if name not in members and read & members}:
            members |= more
    left = list(reached.values())
    while left:
        group = left.pop()
        while joined := [other for other in left if other & group]:
            group = group.union(*joined)
            left = [other for other in left if other not in joined]
        yield [topology for topology in topologies if topology.application in group]


def with_readers(topologies: Sequence[Topology], application: str) -> list[Topology]:
    """A topology, then its readers."""
    (group,) = together(topologies, {application})
    return sorted(group, key=lambda topology: topology.application != application)


def writers_of(topology: Topology) -> set[str]:
    """The applications whose topics a topology reads."""
    return {topic.writer for topic in topology.read if topic.writer is not None}


def waiting(topology: Topology, committed: Committed) -> Waiting:
    """The unread records of a topology, without those of topics that it writes itself.

    Tasks run in parallel, so the slowest one decides the time.
    """
    topics: dict[str, int] = {}
    passed: dict[str, int] = {}
    size, slowest = 0, None
    for part in topology.subtopologies:
        sources = [topic for topic in part.sources if topic.writer != topology.application]
        begins = {
            topic.name: start
            for topic in sources
            if topic.name in part.starts and (start := first_positions(part, topic, committed)) is not None
        }
        for partition in range(part.partitions):
            task = TaskKey(topology.application, part.name, partition)
            positions = committed.own.tasks.last_commit(task).positions
            unread = 0
            for topic in sources:
                state, first = committed.of(topic), begins.get(topic.name, {}).get(partition, {})
                records, taken = beyond(state, topic.name, partition, positions.get(topic.name, first))
                if first:
                    before = beyond(state, topic.name, partition, {})[0] - records
                    passed[topic.name] = passed.get(topic.name, 0) + before
                topics[topic.name] = topics.get(topic.name, 0) + records
                unread, size = unread + records, size + taken
            rate = committed.own.tasks.records_per_second(task)
            if unread and rate:
                slowest = max(slowest or 0.0, unread / rate)
    left = {name: records for name, records in topics.items() if records}
    return Waiting(sum(left.values()), size, slowest, left, {name: count for name, count in passed.items() if count})


def from_the_first(topology: Topology, committed: Committed) -> tuple[ReadAgain, ...]:
    """All available records of the topics that an application reads, without those that it writes itself."""
    topics: dict[str, Topic] = {
        topic.name: topic
        for part in topology.subtopologies
        for topic in part.sources
        if topic.writer != topology.application
    }
    return tuple(_whole(committed, topic) for topic in topics.values())


def _whole(committed: Committed, topic: Topic) -> ReadAgain:
    state = committed.of(topic)
    if topic.kafka is not None and topic.name not in committed.kafka:  # nobody has asked Kafka what it still has
        ends = {partition: state.end(topic.name, partition) for partition in range(topic.partitions)}
        return ReadAgain(topic.name, dict.fromkeys(ends, 0), sum(ends.values()), 0)
    start: dict[int, int] = {}
    records = size = 0
    fed = committed.writer(topic).topics.get(topic.name)  # the declaration may have other partitions
    for partition in range(topic.partitions if fed is None else fed.partitions):
        ranges = state.ranges(topic.name, partition)
        start[partition] = min((segments.start_offset for segments in ranges), default=state.end(topic.name, partition))
        records += sum(segments.records for segments in ranges)
        size += sum(segments.size for segments in ranges)
    return ReadAgain(topic.name, start, records, size)


def beyond(state: TopicEnds, topic: str, partition: int, positions: Mapping[int, int]) -> tuple[int, int]:
    """Records and bytes of a partition beyond these positions of its lanes."""
    records = size = 0.0
    for lane in state.lane_ends(topic, partition):
        start = positions.get(lane, 0)
        for segments in state.lane_ranges(topic, partition, lane, start):
            part = segments.part_from(start)
            records, size = records + segments.records * part, size + segments.size * part
    return round(records), round(size)
