"""Positions of tasks, also of the global one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..engine.execution.rows import null_keys
from ..ir.topology import GlobalTable, Topic, Topology
from ..log.commit.records import TaskCommit
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..records.schema import key_columns
from ..task_id import TaskKey, global_task
from .committed import Committed
from .named_records import repartitioned_since

# Counts the records that a topology's global tables drop, once for the application.
#
# Every client loads a global table whole, so no client can count its null keys for all. The driver counts them: it
# looks
# at the keys of committed records, and commits its position as the progress of a task of its own (Kafka Streams' task
# -1_-1). So a record counts once, whatever is restarted or restored.

AGAIN_SECONDS = 1.0
"""How long records that cannot be read are left alone."""


def counted_as(table: GlobalTable) -> str:
    """The name under which the positions of a table are kept. It has the topic, as offsets are of that one only."""
    return f"{table.name}:{table.topic.name}"


def counted(committed: Committed, table: GlobalTable) -> Mapping[int, int]:
    """Partition -> offset up to which a table's topic was looked at.

    Earlier versions kept positions under the name of the table alone. They mean the table's topic only if that is one
    that the application has read.
    """
    own = committed.own
    seen = own.tasks.last_commit(global_task(committed.application)).globals_
    earlier = seen.get(table.name, {}) if table.topic.name in own.topology.topics else {}
    return seen.get(counted_as(table)) or earlier


class GlobalTask:
    """Counts records with a null key in the topics of global tables. Used from the loop's thread only.

    `dropped`: `<table>:null_key` -> records that no commit has counted yet.
    """

    def __init__(self, topology: Topology, committed: Committed) -> None:
        self._committed = committed
        self._tables = {table.name: table for table in topology.global_tables}
        self._task = global_task(committed.application)
        self._counted = {name: dict(counted(committed, table)) for name, table in self._tables.items()}
        self._moved = False
        self._again_at = float("-inf")
        self.dropped: Counter[str] = Counter()

    def advance(self) -> None:
        """Count null keys in the records that were committed since the last call. Raises LogError.

        Records that cannot be read are counted later, by another run at the latest: the tasks that read the table tell
        of them, and no other task needs them.
        """
        if time.monotonic() < self._again_at:
            return
        for table in self._tables.values():
            topic = table.topic
            done = self._counted[table.name]
            for partition in range(topic.partitions):
                end = self._committed.of(topic).end(topic.name, partition)
                start = done.get(partition, 0)
                if end > start:
                    try:
                        count = self._null_keys(table, partition, start)
                    except (RangeMissingError, CorruptSegmentError):
                        self._again_at = time.monotonic() + AGAIN_SECONDS
                        continue
                    self.dropped += Counter({f"{table.name}:null_key": count})
                    done[partition] = end
                    self._moved = True

    def take(self) -> tuple[TaskCommit, ...]:
        """The task's commit, or nothing if no record was read since the last call."""
        if not self._moved:
            return ()
        dropped, self.dropped, self._moved = dict(self.dropped), Counter(), False
        seen = {counted_as(table): dict(self._counted[name]) for name, table in self._tables.items()}
        return (TaskCommit(self._task.subtopology, self._task.partition, {}, -1, dropped=dropped, globals_=seen),)

    def _null_keys(self, table: GlobalTable, partition: int, start: int) -> int:
        """The number of null keys from offset `start` on."""
        topic = table.topic
        ranges = self._committed.of(topic).ranges(topic.name, partition, start)
        columns = [f"key.{name}" for name in key_columns(topic)]
        return sum(
            int(null_keys(found.records.columns, len(found.records))[found.offsets >= start].sum())
            for each in ranges
            for found in self._committed.log.read(each, each.position_of(start), columns)
        )


# Checks whether the log has lost consumed records: compares committed positions with the ends of their topics.
#
# A position past the end would count as caught up. Records that are appended up to it would be skipped without any
# message. This happens if commits of one application were removed or put back from an older copy, and those of its
# readers were not. If records were appended before anybody noticed, the positions lie within the topic again. So the
# commit that a reader has known last must still be there as well.


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
    lost = {state.place: state for state in committed.writers if not state.has_source(committed.own.sources)}
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
    done = committed.own.tasks.last_commit(TaskKey(committed.application, part, partition))
    for lane, position in sorted(done.positions.get(topic.name, {}).items()):
        end = ends.get(lane, 0)
        if position > end:
            yield Gap(topic.name, partition, position, end, None if topic.writer is None else lane)
