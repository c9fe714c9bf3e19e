"""How much an application has not consumed yet, and about how long a run takes for it."""

from __future__ import annotations

from collections.abc import Mapping

from ...log.state import LogState
from ...progress.beginnings import first_positions
from ...progress.committed import Committed
from ...task_id import TaskKey
from ...topology import Topic, Topology
from ..model import ReadAgain
from .plan import Waiting


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
