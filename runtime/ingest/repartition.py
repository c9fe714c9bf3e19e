"""Repartitioning: writes the records of external topics into other partitions, or under another key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..ir.topology import Topic
from ..log.commit.descriptions import ExternalTopic
from ..log.commit.external_records import Ranges, SeededPart, ranges_of_both
from ..log.commit.records import DELAY_MS, RepartitionedTopic, RepartitionRecord
from ..log.errors import CommitExistsError, SegmentError, UnreadableFileError
from ..log.log import Listed, Log
from ..log.state import LogState, committed_records
from ..records.arrays import Bools, Int64s, to_numpy
from ..records.schema import as_column, as_schema, key_columns, schema_of_both, value_columns
from ..records.types import Kind
from ..timed_parts import wall_ms
from .append import WRITE_ROWS, overfull, partitions_of, with_normal_keys, write_external

# Groups: records of one commit have no order among partitions. Commits follow each other.

Ends = tuple[int, ...]
"""An offset for each partition."""


@dataclass(frozen=True)
class Group:
    """Records up to these offsets, from the end of the previous group. `seed`: whether they are the seed's."""

    ends: Ends
    seed: bool = False


def groups(state: LogState, topic: str, after: Ends) -> Iterator[Group]:
    """The groups of a topic after these offsets, the earliest first.

    An earlier version did not note which records were appended together. Such records form one group, except for the
    seed's.
    """
    partitions = range(len(after))
    last = tuple(state.end(topic, partition) for partition in partitions)
    marks = [mark for mark in state.marks.get(topic, ()) if any(map(int.__gt__, mark, after))]
    parts = (state.seeds[topic].parts or ()) if topic in state.seeds else ()
    begin = after
    for end in dict.fromkeys((*marks, last)):
        yield from _split(begin, end, parts)
        begin = end


def _split(begin: Ends, end: Ends, parts: tuple[SeededPart, ...]) -> Iterator[Group]:
    """A group, or the parts before the seed, of the seed, and after it."""
    own = {
        part.partition: part for part in parts if begin[part.partition] <= part.start < part.end <= end[part.partition]
    }
    if own:
        # In a partition without records of the seed, all records follow the seed: a seed mostly comes first.
        before = tuple(own[partition].start if partition in own else begin[partition] for partition in range(len(end)))
        seeded = tuple(own[partition].end if partition in own else begin[partition] for partition in range(len(end)))
        yield Group(before)
        yield Group(seeded, seed=True)
    yield Group(end)


# The order of records that are in several partitions and were appended as one sequence.
#
# Records of a partition keep their order. Between partitions the record with the smallest timestamp at the head comes
# first, as in a task; of equal ones, the one with fewer records of its partition before it. So records that were sorted
# by time, or spread round robin, get their original order.


@dataclass
class _Head:
    """The next records of a partition. `times`: for each record the greatest timestamp up to it, because later records
    cannot precede it. `first`: the number of the partition's records before these.
    """

    number: int
    rest: Iterator[pa.RecordBatch]
    by_time: bool
    records: pa.RecordBatch | None = None
    times: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    first: int = 0
    _greatest: int = np.iinfo(np.int64).min

    def fill(self) -> bool:
        """Load records if there are none. Returns whether there are any."""
        while self.records is None or not self.records.num_rows:
            self.records = next(self.rest, None)
            if self.records is None:
                return False
            times = self.records.column("_timestamp").to_numpy() if self.by_time else np.zeros(len(self.records))
            self.times = np.maximum.accumulate(np.maximum(times.astype(np.int64), self._greatest))
            self._greatest = int(self.times[-1]) if len(self.times) else self._greatest
        return True

    @property
    def bound(self) -> tuple[int, int, int]:
        """No record after these sorts before this position: greatest time, number in the partition, partition."""
        return int(self.times[-1]), self.first + len(self.times), self.number

    def taken(self, bound: tuple[int, int, int]) -> tuple[pa.RecordBatch, Int64s, Int64s]:
        """The records before a position, with their times and their numbers in the partition."""
        assert self.records is not None
        time, turn, number = bound
        before = int(np.searchsorted(self.times, time, "left"))
        same = int(np.searchsorted(self.times, time, "right"))
        count = min(same, max(before, turn - self.first + (self.number < number)))
        result = self.records[:count], self.times[:count], np.arange(self.first, self.first + count)
        self.records, self.times, self.first = self.records[count:], self.times[count:], self.first + count
        return result


def in_order(partitions: Sequence[Iterator[pa.RecordBatch]], *, by_time: bool = True) -> Iterator[pa.RecordBatch]:
    """The records of all partitions in one order. `by_time=False`: in turns.

    At most two batches of each partition are in memory. Records of a batch have columns of the same types.

        timestamps of partition 0: 1, 5, 2; of partition 1: 3, 4
        by time: 1, 3, 4, 5, 2 (2 stays behind 5); in turns: 1, 3, 5, 4, 2
    """
    heads = [_Head(number, rest, by_time) for number, rest in enumerate(partitions)]
    while heads := [head for head in heads if head.fill()]:
        bound = min(head.bound for head in heads)
        taken = [(head.number, *head.taken(bound)) for head in heads]
        parts = [part for part in taken if len(part[1])]
        numbers = np.concatenate([np.full(len(records), number) for number, records, _, _ in parts])
        times = np.concatenate([column for _, _, column, _ in parts])
        turns = np.concatenate([column for _, _, _, column in parts])
        order = pa.array(np.lexsort((numbers, turns, times)))
        yield from _together([records for _, records, _, _ in parts]).take(order).to_batches()


def went_in_turns(counts: Sequence[int]) -> bool:
    """Whether the sizes of partitions are those of a round-robin distribution that starts at partition 0."""
    total, parts = sum(counts), len(counts)
    return list(counts) == [(total - number + parts - 1) // parts for number in range(parts)]


def _together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Records with the columns of all batches, as the log would read them."""
    schema = batches[0].schema
    for batch in batches[1:]:
        both = schema_of_both(schema, batch.schema)
        assert both is not None, (schema, batch.schema)
        schema = both
    return pa.Table.from_batches([as_schema(batch, schema) for batch in batches]).combine_chunks()


# Reads the committed records of one partition in pieces, also while files are merged.

NOTED = "~noted"
"""The name of a column that no record has."""


class PartitionReader:
    """Returns each record once. `check`: called before it continues after files were replaced. `noted`: ranges of
    offsets; the column `NOTED` of a record then says whether it is in one of them.
    """

    def __init__(
        self,
        log: Log,
        state: LogState,
        topic: str,
        partition: int,
        check: Callable[[], None],
        noted: Ranges | None = None,
    ) -> None:
        self._log = log
        self._state = state
        self._topic = topic
        self._partition = partition
        self._check = check
        self._noted = noted
        self._next = 0
        self._left: pa.RecordBatch | None = None
        self._offsets = np.empty(0, np.int64)
        self._batches = self._committed()
        self.records = 0

    def until(self, end: int) -> Iterator[pa.RecordBatch]:
        """The records before offset `end` that were not returned yet. Raises errors of the log."""
        while self._next < end:
            if self._left is None and not self._fill():
                return
            assert self._left is not None
            count = int(np.searchsorted(self._offsets, end))
            if not count:
                return
            records = self._with_note(self._left[:count], self._offsets[:count])
            self._next = int(self._offsets[count - 1]) + 1
            rest = self._left[count:]
            self._left, self._offsets = (rest if rest.num_rows else None), self._offsets[count:]
            self.records += count
            yield records

    def _with_note(self, records: pa.RecordBatch, offsets: Int64s) -> pa.RecordBatch:
        if self._noted is None:
            return records
        within = np.zeros(len(offsets), np.bool_)
        for start, end in self._noted:
            within |= (offsets >= start) & (offsets < end)
        return records.append_column(NOTED, pa.array(within))

    def _fill(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = self._committed()  # there may be new commits
            batch = next(self._batches, None)
        if batch is None:
            return False
        self._offsets, self._left = batch
        return True

    def _committed(self) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        return committed_records(self._log, self._state, self._topic, self._partition, self._next, check=self._check)


# Records under another key, built from their columns.


class DeletionsWithoutKeyError(HeadwaterError):
    """Tombstones have no value, and so no columns for the new key of their `topic`.

    The ways out are those of any changed key.
    """

    def __init__(self, topic: str, columns: str) -> None:
        super().__init__(
            f"the records of {topic} cannot be moved to the partitions of the key {columns}: tombstones among them "
            "have the former key only"
        )
        self.topic = topic


def rekeyed(topic: Topic, records: pa.RecordBatch) -> pa.RecordBatch:
    """Records with the present key of `topic`: its columns come from the former key, or else from the value.

    Columns of the former key are kept in the value, and so are columns of the value that became the key. Raises
    DeletionsWithoutKeyError.
    """
    have = dict(zip(records.schema.names, records.columns, strict=True))
    keys = key_columns(topic)
    from_value = [name for name in keys if f"key.{name}" not in have]
    if from_value and pc.any(pc.equal(have["_kind"], int(Kind.TOMBSTONE))).as_py():
        raise DeletionsWithoutKeyError(topic.name, topic.key)
    columns = {
        f"key.{name}": as_column(have.get(f"key.{name}", have.get(f"value.{name}")), records.num_rows, wanted)
        for name, wanted in keys.items()
    }
    values = value_columns(topic)
    for name, column in have.items():
        role, _, rest = name.partition(".")
        if role == "key" and f"value.{rest}" not in have:
            wanted = values.get(rest, column.type)
            columns[f"value.{rest}"] = as_column(column, records.num_rows, wanted)
        elif role != "key":
            columns[name] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


# Writes the records of a topic into their present partitions, also those that arrive meanwhile.


class TopicWriter:
    """Writes a topic again. `topic`: as declared now; `known`: as its records are stored. `go_on`: called repeatedly;
    an error that it raises ends the work.
    """

    def __init__(
        self, log: Log, state: LogState, topic: Topic, known: ExternalTopic, go_on: Callable[[], None]
    ) -> None:
        self._log = log
        self._state = state
        self._topic = topic
        self._known = known
        self._go_on = go_on
        noted = state.put_back.get(topic.name)
        self._readers = [
            PartitionReader(
                log, state, topic.name, partition, go_on, None if noted is None else noted.get(partition, ())
            )
            for partition in range(known.partitions)
        ]
        self._put_back: dict[int, Ranges] = {}
        self._done = (0,) * known.partitions
        self._ends = np.zeros(topic.partitions, np.int64)
        self._seeded: tuple[SeededPart, ...] = ()
        self._marks: list[tuple[int, ...]] = []
        self._pending: list[tuple[pa.RecordBatch, Int64s]] = []
        self.written: list[Listed] = []

    @property
    def records(self) -> int:
        """The number of records read."""
        return sum(reader.records for reader in self._readers)

    def write(self) -> RepartitionedTopic:
        """Write records that were committed since the last call. Returns the topic's entry for the next commit, which
        lists all of `written`. Raises DeletionsWithoutKeyError, errors of the log, and what `go_on` raises.
        """
        for group in groups(self._state, self._topic.name, self._done):
            self._write_group(group)
        self._flush()
        seed = self._state.seeds.get(self._topic.name)
        return RepartitionedTopic(
            self._known.moved_to(self._topic),
            None if seed is None else replace(seed, parts=None if seed.parts is None else self._seeded),
            tuple(self._marks),
            self._put_back,
        )

    def _write_group(self, group: Group) -> None:
        counts = [end - start for start, end in zip(self._done, group.ends, strict=True)]
        if not any(counts):
            return
        begin = self._ends.copy()
        row = 0
        by_time = bool(self._known.key) or not went_in_turns(counts)
        for records in in_order([self._read(*partition) for partition in enumerate(group.ends)], by_time=by_time):
            self._go_on()
            where = partitions_of(self._topic, records, row)
            row += records.num_rows
            if NOTED in records.schema.names:
                self._note(to_numpy(records.column(NOTED)), where)
                records = records.drop_columns([NOTED])
            self._ends += np.bincount(where, minlength=self._topic.partitions)
            self._add(records, where)
        self._done = group.ends
        self._marks.append(tuple(map(int, self._ends)))
        if group.seed:
            grown = np.flatnonzero(self._ends > begin)
            self._seeded = tuple(
                SeededPart(int(partition), int(begin[partition]), int(self._ends[partition])) for partition in grown
            )

    def _note(self, noted: Bools, where: Int64s) -> None:
        """Note the new offsets of records that were put back."""
        for partition in np.unique(where[noted]).tolist():
            offsets = self._ends[partition] + np.flatnonzero(noted[where == partition])
            ranges = tuple((int(offset), int(offset) + 1) for offset in offsets)
            self._put_back = ranges_of_both(self._put_back, {partition: ranges})

    def _read(self, partition: int, end: int) -> Iterator[pa.RecordBatch]:
        for records in self._readers[partition].until(end):
            if self._known.key == self._topic.key:
                yield records
            else:
                table = pa.Table.from_batches([rekeyed(self._topic, records)])
                yield from with_normal_keys(self._topic, table).to_batches()

    def _add(self, records: pa.RecordBatch, where: Int64s) -> None:
        pending = self._pending
        full = sum(len(part) for _, part in pending) >= WRITE_ROWS or overfull([part for part, _ in pending], records)
        if pending and (full or pending[0][0].schema != records.schema):
            self._flush()
        self._pending.append((records, where))

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches([records for records, _ in self._pending])
            where = np.concatenate([partitions for _, partitions in self._pending])
            self.written += write_external(self._log, self._state.application, self._topic, table, where)
            self._pending = []


# Repartitions topics, all of them with one commit.


class TopicMovedMeanwhileError(HeadwaterError):
    """Another process has reset `topic`, repartitioned it, or put dead letters back into it, at the same time."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} was reset, repartitioned, or got dead letters back meanwhile; nothing was changed by this run",
            "try again",
        )
        self.topic = topic


class RecordsGoneMeanwhileError(HeadwaterError):
    """Records of `topic` were removed (retention, compaction) while all of them were to be repartitioned."""

    def __init__(self, topic: str, missing: int) -> None:
        super().__init__(
            f"{missing:,} records of {topic} were removed while it was repartitioned, and rebuilt results would lack "
            "them; nothing was changed",
            "`headwater plan` shows what can be done now",
        )
        self.topic = topic


class UnreadableTopicError(HeadwaterError):
    """Records of `topic` cannot be read: `cause`."""

    def __init__(self, topic: str, cause: HeadwaterError) -> None:
        super().__init__(
            f"not all records of {topic} can be read, so it is not repartitioned: {cause.message}", cause.hint
        )
        self.topic = topic


TOPIC_ERRORS = (DeletionsWithoutKeyError, TopicMovedMeanwhileError, RecordsGoneMeanwhileError, UnreadableTopicError)
"""Why one `topic` cannot be repartitioned. Others may be."""


@dataclass(frozen=True)
class Moved:
    """A topic that was repartitioned. `was`: its former declaration."""

    topic: Topic
    was: ExternalTopic
    records: int


def repartition(
    log: Log,
    application: str,
    topics: Sequence[Topic],
    *,
    whole: Collection[str] = (),
    delay_ms: int = DELAY_MS,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[Moved, ...]:
    """Move the records of these topics to the partitions of their present declarations.

    They keep keys, values, timestamps, headers and their order, see `in_order`. Nothing is visible before the commit,
    and records appended meanwhile are included. `application`: `<project>-seed`. `whole`: topics that must not have
    lost a record. `delay_ms`: see `RepartitionRecord`. `go_on`: called repeatedly; an error that it raises ends the
    work. Raises errors of the log, and one of TOPIC_ERRORS: then nothing was changed.
    """
    state = LogState.load(log.commits(application))
    declared = {topic.name: state.topics[topic.name] for topic in topics}
    put_back = {topic.name: state.put_back.get(topic.name) for topic in topics}
    topics = [topic for topic in topics if declared[topic.name].can_move_to(topic)]

    def check_unchanged() -> None:
        go_on()
        for name, before in declared.items():
            now = state.topics.get(name)
            if now is None or (now.since, now.key, now.partitions) != (before.since, before.key, before.partitions):
                raise TopicMovedMeanwhileError(name)
            if state.put_back.get(name) != put_back[name]:
                raise TopicMovedMeanwhileError(name)

    writers = [TopicWriter(log, state, topic, declared[topic.name], check_unchanged) for topic in topics]
    try:
        while topics:
            check_unchanged()
            after = tuple(map(_written, topics, writers))
            _check_whole(state, declared, writers, topics, whole)
            segments = tuple(segment for writer in writers for segment in writer.written)
            try:
                state.commit(RepartitionRecord(wall_ms(), after, segments, delay_ms))
                break
            except CommitExistsError:
                state.refresh()
    except BaseException:
        _remove(log, state, writers)
        raise
    return tuple(
        Moved(topic, declared[topic.name], writer.records) for topic, writer in zip(topics, writers, strict=True)
    )


def _written(topic: Topic, writer: TopicWriter) -> RepartitionedTopic:
    try:
        return writer.write()
    except (SegmentError, UnreadableFileError) as error:
        raise UnreadableTopicError(topic.name, error) from error


def _check_whole(
    state: LogState,
    declared: dict[str, ExternalTopic],
    writers: Sequence[TopicWriter],
    topics: Sequence[Topic],
    whole: Collection[str],
) -> None:
    for topic, writer in zip(topics, writers, strict=True):
        ends = sum(state.end(topic.name, partition) for partition in range(declared[topic.name].partitions))
        if topic.name in whole and writer.records < ends:
            raise RecordsGoneMeanwhileError(topic.name, ends - writer.records)


def _remove(log: Log, state: LogState, writers: Sequence[TopicWriter]) -> None:
    """Remove written files, unless a commit lists them: an error may have come after the commit."""
    paths = {segment.path for writer in writers for segment in writer.written}
    with suppress(HeadwaterError, OSError):
        state.refresh()
        for path in paths - state.paths():
            log.remove(path)
