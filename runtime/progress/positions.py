"""Positions of the global task, and checks of committed positions against the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..engine.execution.rows import null_keys
from ..ir.topology import GlobalTable, Topic, Topology
from ..log.commit.records import TaskCommit
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..records.schema import key_columns
from ..task_id import TaskKey, global_task
from .committed import Committed
from .named_records import repartitioned_since

# Counts of records that a topology's global tables drop, once for the application.
#
# Every client loads a global table as a whole, so no client can count null keys for all. The driver counts them: it
# reads the keys of committed records, and commits its positions as the progress of a task of its own (Kafka Streams'
# task -1_-1). So a record counts once, whatever is restarted or restored.

AGAIN_SECONDS = 1.0
"""The delay before unreadable records are read again."""


def counted_as(table: GlobalTable) -> str:
    """The key of a table's positions. It contains the topic, to which the offsets belong."""
    return f"{table.name}:{table.topic.name}"


def counted(committed: Committed, table: GlobalTable) -> Mapping[int, int]:
    """Partition -> offset up to which a table's topic is counted.

    Earlier versions used the name of the table alone as key. Such positions are valid only if the application has read
    the table's topic.
    """
    own = committed.own
    seen = own.tasks.last_commit(global_task(committed.application)).globals_
    earlier = seen.get(table.name, {}) if table.topic.name in own.topology.topics else {}
    return seen.get(counted_as(table)) or earlier


class GlobalTask:
    """Counts records with a null key in the source topics of global tables. Used from the loop's thread only.

    `dropped`: `<table>:null_key` -> records that are not committed yet.
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
        """Count null keys in new records. Raises LogError.

        Unreadable records are counted later, at the latest by another run: tasks that read the table report the error,
        and no other task needs the records.
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
        """The task's commit; empty if no record was read since the last call."""
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
            int(null_keys(fetched.records.columns, len(fetched.records))[fetched.offsets >= start].sum())
            for within in ranges
            for fetched in self._committed.log.read(within, within.position_of(start), columns)
        )


# Checks for lost consumed records: committed positions are compared with the ends of their topics.
#
# A position past the end would count as caught up, and records appended up to it would be skipped silently. This
# happens if commits of one application were removed or restored from an older copy, and those of its readers were not.
# If records are appended before anybody notices, the positions are within the topic again. So the last commit that a
# reader knew must still exist too.


@dataclass(frozen=True)
class Gap:
    """Missing consumed records of a partition, from `end` to `position`.

    `lane`: the lane of these positions. None for a topic with one lane and for a global table: they are offsets.
    """

    topic: str
    partition: int
    position: int
    end: int
    lane: int | None = None

    def __str__(self) -> str:
        at = f"position {self.position:,} of task {self.lane} of its writer" if self.lane is not None else ""
        consumed = f"consumed up to {at or f'offset {self.position:,}'}"
        return f"{self.topic}[{self.partition}]: {consumed}, and it ends at {self.end:,}"


@dataclass(frozen=True)
class OtherCommits:
    """Commit `number` of a topic's `writer`, which the reader knew, does not exist. `latest`: the last existing one."""

    topic: str
    writer: str
    number: int
    latest: int

    def __str__(self) -> str:
        there = "another commit has its place" if self.number <= self.latest else f"commit {self.latest} is the last"
        return f"{self.topic}: read from commits of {self.writer} up to {self.number}, and {there} now"


def other_commits(topology: Topology, committed: Committed) -> Iterator[OtherCommits]:
    """Topics with writers that have other commits than those that the application has read."""
    lost = {state.place: state for state in committed.writers if not state.has_source(committed.own.sources)}
    for name, topic in {topic.name: topic for topic in topology.read}.items():
        if topic.kafka is None and (state := lost.get(committed.writer(topic).place)) is not None:
            yield OtherCommits(name, state.application, committed.own.sources[state.place][0], state.number)


def gaps(topology: Topology, committed: Committed) -> Iterator[Gap]:
    """All committed positions past the end. The writers' states must be at least as new as the application's."""
    moved = repartitioned_since(committed)  # earlier positions are not valid in these topics
    for part in topology.subtopologies:
        for topic in part.sources:
            if topic.name in moved or topic.kafka is not None:  # for those of Kafka, see `raw_gaps`
                continue
            for partition in range(topic.partitions):
                yield from _task_gaps(committed, part.name, topic, partition)
    for table in topology.global_tables:
        topic = table.topic
        for partition, position in () if topic.name in moved else counted(committed, table).items():
            end = committed.of(topic).end(topic.name, partition)
            if position > end:
                yield Gap(topic.name, partition, position, end)


def _task_gaps(committed: Committed, part: str, topic: Topic, partition: int) -> Iterator[Gap]:
    ends = committed.of(topic).lane_ends(topic.name, partition)
    done = committed.own.tasks.last_commit(TaskKey(committed.application, part, partition))
    for lane, position in sorted(done.positions.get(topic.name, {}).items()):
        end = ends.get(lane, 0)
        if position > end:
            yield Gap(topic.name, partition, position, end, None if topic.writer is None else lane)


# Positions in Kafka. Nobody but Kafka keeps these records, so they may be gone before they were consumed.


@dataclass(frozen=True)
class RawGap:
    """A position in a partition of Kafka at which reading cannot continue. `copy`: our topic with the records.

    `position`: of the task. `low`, `high`: the first offset in Kafka, and the one behind the last.
    """

    topic: Topic
    copy: str
    partition: int
    position: int
    low: int
    high: int

    @property
    def gone(self) -> int:
        """The number of offsets that were deleted before they were read; 0 if the partition ends before the position.

        At most as many records are gone.
        """
        return max(0, self.low - self.position)

    def __str__(self) -> str:
        name = self.topic.name if self.topic.kafka is None else self.topic.kafka.name
        if self.gone:
            until = self.low - 1
            what = f"offsets {self.position:,} to {until:,} ({self.gone:,}) were deleted before they were read"
            return f"{name}[{self.partition}]: {what}"
        return f"{name}[{self.partition}]: read up to offset {self.position:,}, and it ends at {self.high:,}"


class RawRecordsMissingError(HeadwaterError):
    """Kafka lacks records at the positions of an application. `gaps`: where."""

    def __init__(self, application: str, gaps: Sequence[RawGap]) -> None:
        listed = "".join(f"\n  - {gap}" for gap in gaps)
        super().__init__(f"Kafka lacks records that {application} would read next:{listed}", ways_on(application, gaps))
        self.application = application
        self.gaps = tuple(gaps)


def ways_on(application: str, gaps: Iterable[RawGap]) -> str:
    """The commands with which an application continues without the missing records."""
    name = application.partition("-")[2]
    places: dict[tuple[str, str], list[int]] = {}
    for gap in gaps:
        places.setdefault((gap.copy, "earliest" if gap.gone else "latest"), []).append(gap.partition)
    # With other partitions, records that stores have already would be read again.
    moves = " && ".join(
        f"headwater rewind {name} --topic {topic}{''.join(f' --partition {partition}' for partition in partitions)} "
        f"--to {start}"
        for (topic, start), partitions in places.items()
    )
    return f"to go on without them: {moves}"


def raw_gaps(topology: Topology, committed: Committed) -> Iterator[RawGap]:
    """The positions of raw topics without records in Kafka, as of its last poll."""
    kafka = committed.kafka
    for part in topology.subtopologies:
        for topic in part.sources:
            for partition in range(len(kafka.ends.get(topic.name, ()))):
                task = TaskKey(committed.application, part.name, partition)
                positions = committed.own.tasks.last_commit(task).positions.get(topic.name, {})
                low, high = kafka.low(topic.name, partition), kafka.high(topic.name, partition)
                for position in positions.values():
                    if not low <= position <= high:
                        copy = part.sinks[0].name if part.sinks else topic.name
                        yield RawGap(topic, copy, partition, position, low, high)


def check_raw_positions(topology: Topology, committed: Committed) -> None:
    """Raise RawRecordsMissingError if Kafka lacks records at committed positions: nothing is left out silently."""
    if gaps := tuple(raw_gaps(topology, committed)):
        raise RawRecordsMissingError(committed.application, gaps)
