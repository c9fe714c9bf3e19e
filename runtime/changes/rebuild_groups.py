"""What is rebuilt together, evolves, or waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir.topology import Topic, Topology
from ..log.state import LogState
from ..progress.committed import Committed
from ..progress.planner import first_positions
from ..task_id import TaskKey
from .model import CONTINUE, FROM_THE_FIRST, UNDO, Change, ReadAgain, Subject, Verdict, start_again
from .moves import Moves
from .plan import Waiting

# How changes read where the result is computed again.

RECOMPUTED = "topology.recomputed"
"""The kind of a change of a topology whose result is computed again."""

_FROM_NOW_ON = {
    "flow.added": "it is new",
    "flow.removed": "it is gone",
    "topic.columns": "its columns changed",
}
"""Changes that are told in other words where nothing is computed again: then they count for new records only."""


def written_by(group: Iterable[Topology]) -> frozenset[str]:
    """The topics that topologies write."""
    return frozenset(topic.name for each in group for topic in each.written)


def evolving_of(change: Change, written: Collection[str]) -> Change:
    """What a change means where the result is computed again: none is refused, and each counts for all records.

    `written`: the topics that are computed again. Others stay as they are.
    """
    if change.kind in _FROM_NOW_ON and (change.subject.kind == "flow" or change.subject.name in written):
        what = f"{_FROM_NOW_ON[change.kind]}, for all records"
        return replace(change, verdict=Verdict.REPLACE, what=what, ways=(), onward="")
    if change.onward:
        return replace(change, verdict=Verdict.REPLACE, what=f"{change.what}, for all records", ways=(), onward="")
    if change.verdict is Verdict.ERROR:
        return replace(change, verdict=Verdict.REPLACE, ways=())
    return change


def computed_again(
    topology: Topology,
    changed: bool,
    again: Iterable[ReadAgain] = (),
    *,
    may_go_on: bool = False,
    may_begin_again: bool = False,
) -> Change:
    """That a topology's result is computed again. `changed`: because it has changed itself. `again`: what it reads.

    `may_go_on`: whether the changes may count from the next record on instead. `may_begin_again`: whether the topology
    may begin with nothing instead, without a result until that has caught up.
    """
    ways = [UNDO, CONTINUE] if may_go_on else [UNDO]
    if changed and may_begin_again:
        ways.append(start_again(f"give up the present result first, and start {FROM_THE_FIRST}", f"{topology.name}+"))
    why = "" if changed else "it reads what is computed again: "
    return Change(
        RECOMPUTED,
        Subject.of_topology(topology.application),
        Verdict.REPLACE,
        f"{why}its result is computed again beside the one that is there, which stays until the new one has caught up",
        ways=tuple(ways),
        reads_again=tuple(again),
    )


# Which topologies are computed again together: changed ones, with all that have read from them.


def together(
    topologies: Sequence[Topology],
    changed: Collection[str],
    moves: Moves | None = None,
    before: Mapping[str, Collection[str]] | None = None,
) -> Iterator[list[Topology]]:
    """The topologies that are computed again together: changed ones with all that read from them, or take over what
    these have written, in given order.

    `before`: application -> those whose results it has read so far. One that reads another topic by now still has what
    it made of them, until its own new result takes over: so both do at once.
    """
    reached: dict[str, set[str]] = {name: {name} for name in changed}
    taken = {} if moves is None else moves.takes()
    writers = {
        name: {*writers_of(each), *taken.get(name, ()), *(before or {}).get(name, ())}
        for name, each in ((each.application, each) for each in topologies)
    }
    for members in reached.values():
        while more := {name for name, read in writers.items() if name not in members and read & members}:
            members |= more
    left = list(reached.values())
    while left:
        group = left.pop()
        while joined := [each for each in left if each & group]:
            group = group.union(*joined)
            left = [each for each in left if each not in joined]
        yield [each for each in topologies if each.application in group]


def with_readers(topologies: Sequence[Topology], application: str) -> list[Topology]:
    """A topology, then all that read from it."""
    (group,) = together(topologies, {application})
    return sorted(group, key=lambda each: each.application != application)


def writers_of(topology: Topology) -> set[str]:
    """The applications whose topics a topology reads."""
    return {topic.writer for topic in topology.read if topic.writer is not None}


# How much an application has not consumed yet, and about how long a run takes for it.


def waiting(topology: Topology, committed: Committed) -> Waiting:
    """What is committed to its topics and not consumed; of topics that it writes for itself nothing is told.

    Tasks work side by side, so the slowest one decides how long it takes.
    """
    topics: dict[str, int] = {}
    passed: dict[str, int] = {}
    size, slowest = 0, None
    for part in topology.subtopologies:
        sources = [topic for topic in part.sources if topic.writer != topology.application]
        begins = {
            topic.name: found
            for topic in sources
            if topic.name in part.starts and (found := first_positions(part, topic, committed)) is not None
        }
        for partition in range(part.partitions):
            task = TaskKey(topology.application, part.name, partition)
            positions = committed.own.tasks.of(task).positions
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
    """All records that are there of the topics that an application reads, without those that it writes itself."""
    topics: dict[str, Topic] = {
        topic.name: topic
        for part in topology.subtopologies
        for topic in part.sources
        if topic.writer != topology.application
    }
    return tuple(_whole(committed.of(topic), topic) for topic in topics.values())


def _whole(state: LogState, topic: Topic) -> ReadAgain:
    start: dict[int, int] = {}
    records = size = 0
    known = state.topics.get(topic.name)  # its records may lie in other partitions than it is declared to have now
    for partition in range(topic.partitions if known is None else known.partitions):
        ranges = state.ranges(topic.name, partition)
        start[partition] = min((each.start_offset for each in ranges), default=state.end(topic.name, partition))
        records += sum(each.records for each in ranges)
        size += sum(each.size for each in ranges)
    return ReadAgain(topic.name, start, records, size)


def beyond(state: LogState, topic: str, partition: int, positions: Mapping[int, int]) -> tuple[int, int]:
    """Records and bytes of a partition beyond these positions of its lanes."""
    records = size = 0.0
    for lane in state.lane_ends(topic, partition):
        start = positions.get(lane, 0)
        for each in state.lane_ranges(topic, partition, lane, start):
            part = each.part_from(start)
            records, size = records + each.records * part, size + each.size * part
    return round(records), round(size)
