"""Checks whether the log has lost consumed records: compares committed positions with the ends of their topics.

A position past the end would count as caught up. Records that are appended up to it would be skipped without any
message. This happens if commits of one application were removed or put back from an older copy, and those of its
readers were not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..task_id import TaskKey
from ..topology import Topic, Topology
from .committed import Committed
from .global_task import counted
from .repartitioned import repartitioned_since


@dataclass(frozen=True)
class Gap:
    """Consumed records that are missing: those of a partition from `end` to `position`.

    `lane`: the lane that both numbers are positions in. None for a topic with one lane and for a global table: they are
    offsets.
    """

    topic: str
    partition: int
    position: int
    end: int
    lane: int | None = None

    def __str__(self) -> str:
        place = f"position {self.position:,} of task {self.lane} of its writer" if self.lane is not None else ""
        consumed = f"consumed up to {place or f'offset {self.position:,}'}"
        return f"{self.topic}[{self.partition}]: {consumed}, and it ends at {self.end:,}"


def gaps(topology: Topology, committed: Committed) -> Iterator[Gap]:
    """All committed positions past the end. In `committed`, writers must be at least as new as the application."""
    moved = repartitioned_since(committed)  # positions of before are none in what is there now
    for part in topology.subtopologies:
        for topic in part.sources:
            if topic.name in moved:
                continue
            for partition in range(topic.partitions):
                yield from _of_task(committed, part.name, topic, partition)
    for table in topology.global_tables:
        topic = table.topic
        for partition, position in () if topic.name in moved else counted(committed, table).items():
            end = committed.of(topic).end(topic.name, partition)
            if position > end:
                yield Gap(topic.name, partition, position, end)


def _of_task(committed: Committed, part: str, topic: Topic, partition: int) -> Iterator[Gap]:
    ends = committed.of(topic).lane_ends(topic.name, partition)
    done = committed.own.tasks.of(TaskKey(committed.application, part, partition))
    for lane, position in sorted(done.positions.get(topic.name, {}).items()):
        end = ends.get(lane, 0)
        if position > end:
            yield Gap(topic.name, partition, position, end, None if topic.writer is None else lane)
