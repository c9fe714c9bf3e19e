"""Checks whether the log has lost consumed records: compares committed positions with the ends of their topics.

A position past the end would count as caught up. Records that are appended up to it would be skipped without any
message. This happens if commits of one application were removed or put back from an older copy, and those of its
readers were not. If records were appended before anybody noticed, the positions lie within the topic again. So the
commit that a reader has known last must still be there as well.
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


@dataclass(frozen=True)
class OtherCommits:
    """The last commit of a topic's writer that the reader has known is not there: commit `number` of `writer`.

    `latest`: the last one that is there.
    """

    topic: str
    writer: str
    number: int
    latest: int

    def __str__(self) -> str:
        there = "another commit has its place" if self.number <= self.latest else f"commit {self.latest} is the last"
        return f"{self.topic}: read from commits of {self.writer} up to {self.number}, and {there} now"


def other_commits(topology: Topology, committed: Committed) -> Iterator[OtherCommits]:
    """The topics whose writers have other commits now than those that the application has read."""
    lost = {state.place: state for state in committed.writers if not state.has_known(committed.own.sources)}
    for name, topic in {topic.name: topic for topic in topology.read}.items():
        if (state := lost.get(committed.of(topic).place)) is not None:
            yield OtherCommits(name, state.application, committed.own.sources[state.place][0], state.number)


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
