"""Repartitioning of a topic of the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..ir.topology import Topic
from ..log.commit.descriptions import ExternalTopic
from ..log.commit.external_records import EXTERNAL_LANE, Ranges, SeededPart, ranges_of_both
from ..log.commit.records import RepartitionedTopic
from ..log.errors import RangeMissingError
from ..log.log import Listed, Log
from ..log.state import LogState
from ..records.arrays import Bools, Int64s, to_numpy
from ..records.keys import key_partitions
from ..records.schema import as_column, as_schema, key_columns, schema_of_both, value_columns
from ..records.types import Kind
from .append import WRITE_ROWS, overfull, with_normal_keys

# Which records of a topic have no order yet among partitions: those of one commit. Commits come one after another.

Ends = tuple[int, ...]
"""An offset of each partition."""


@dataclass(frozen=True)
class Group:
    """Records up to these offsets, from where the group before ends. `seed`: whether they are those of the seed."""

    ends: Ends
    seed: bool = False


def groups(state: LogState, topic: str, after: Ends) -> Iterator[Group]:
    """The groups of a topic behind these offsets, the earliest first.

    Where nothing says what was fed together, because an earlier version has not noted it, all is one group, but for
    the seed's records.
    """
    partitions = range(len(after))
    last = tuple(state.end(topic, each) for each in partitions)
    marks = [mark for mark in state.marks.of_topic(topic) if any(map(int.__gt__, mark, after))]
    parts = (state.seeds[topic].parts or ()) if topic in state.seeds else ()
    begin = after
    for end in dict.fromkeys((*marks, last)):
        yield from _split(begin, end, parts)
        begin = end


def _split(begin: Ends, end: Ends, parts: tuple[SeededPart, ...]) -> Iterator[Group]:
    """A group, or what is before the seed, the seed, and what is behind it."""
    own = {
        part.partition: part for part in parts if begin[part.partition] <= part.start < part.end <= end[part.partition]
    }
    if own:
        # A partition without records of the seed has all that it has behind them: a seed mostly comes first.
        before = tuple(own[each].start if each in own else begin[each] for each in range(len(end)))
        seeded = tuple(own[each].end if each in own else begin[each] for each in range(len(end)))
        yield Group(before)
        yield Group(seeded, seed=True)
    yield Group(end)


# The order of records that lie in several partitions, and were fed in one.
#
# Those of a partition keep theirs. Between partitions the record with the smallest timestamp at the head comes first,
# as a task takes them, and of equal ones that which has fewer of its partition before it. So records that were sorted
# by time, or that went round robin, come as they were fed.


@dataclass
class _Head:
    """The records of a partition that come next. `times`: of each the greatest timestamp up to it, as those behind a
    record cannot come before it. `first`: how many of the partition came before.
    """

    number: int
    rest: Iterator[pa.RecordBatch]
    by_time: bool
    records: pa.RecordBatch | None = None
    times: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    first: int = 0
    _greatest: int = np.iinfo(np.int64).min

    def fill(self) -> bool:
        """Have records, unless there are no more; whether there are any."""
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
        """What comes behind these records comes not before this place."""
        return int(self.times[-1]), self.first + len(self.times), self.number

    def taken(self, bound: tuple[int, int, int]) -> tuple[pa.RecordBatch, Int64s, Int64s]:
        """The records before a place: with their times, and how many of the partition came before each."""
        assert self.records is not None
        time, turn, number = bound
        before = int(np.searchsorted(self.times, time, "left"))
        same = int(np.searchsorted(self.times, time, "right"))
        count = min(same, max(before, turn - self.first + (self.number < number)))
        found = self.records[:count], self.times[:count], np.arange(self.first, self.first + count)
        self.records, self.times, self.first = self.records[count:], self.times[count:], self.first + count
        return found


def in_order(partitions: Sequence[Iterator[pa.RecordBatch]], *, by_time: bool = True) -> Iterator[pa.RecordBatch]:
    """The records of partitions in one order. `by_time`: else in turns.

    At most two batches of each partition are in memory. Records of one batch have columns of the same types.
    """
    heads = [_Head(number, rest, by_time) for number, rest in enumerate(partitions)]
    while heads := [each for each in heads if each.fill()]:
        bound = min(each.bound for each in heads)
        taken = [(each.number, *each.taken(bound)) for each in heads]
        some = [each for each in taken if len(each[1])]
        numbers = np.concatenate([np.full(len(records), number) for number, records, _, _ in some])
        times = np.concatenate([each for _, _, each, _ in some])
        turns = np.concatenate([each for _, _, _, each in some])
        order = pa.array(np.lexsort((numbers, turns, times)))
        yield from _together([records for _, records, _, _ in some]).take(order).to_batches()


def went_in_turns(counts: Sequence[int]) -> bool:
    """Whether partitions have as many records as if each had gone to the next one, the first to partition 0."""
    total, parts = sum(counts), len(counts)
    return list(counts) == [(total - number + parts - 1) // parts for number in range(parts)]


def _together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Records with the columns of all of them, as the log would read them."""
    schema = batches[0].schema
    for each in batches[1:]:
        both = schema_of_both(schema, each.schema)
        assert both is not None, (schema, each.schema)
        schema = both
    return pa.Table.from_batches([as_schema(each, schema) for each in batches]).combine_chunks()


# Reads the committed records of one partition in pieces, also while files are merged.

NOTED = "~noted"
"""No column of a record has this name."""


class PartitionReader:
    """Each record is given once. `check`: called before it goes on after files were replaced. `noted`: ranges of
    offsets; each record then says in a column `NOTED` whether it is in one.
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
        """The records before offset `end` that were not given yet. Raises errors of the log."""
        while self._next < end:
            if self._left is None and not self._fill():
                return
            assert self._left is not None
            count = int(np.searchsorted(self._offsets, end))
            if not count:
                return
            found = self._with_note(self._left[:count], self._offsets[:count])
            self._next = int(self._offsets[count - 1]) + 1
            rest = self._left[count:]
            self._left, self._offsets = (rest if rest.num_rows else None), self._offsets[count:]
            self.records += count
            yield found

    def _with_note(self, records: pa.RecordBatch, offsets: Int64s) -> pa.RecordBatch:
        if self._noted is None:
            return records
        within = np.zeros(len(offsets), np.bool_)
        for start, end in self._noted:
            within |= (offsets >= start) & (offsets < end)
        return records.append_column(NOTED, pa.array(within))

    def _fill(self) -> bool:
        found = next(self._batches, None)
        if found is None:
            self._batches = self._committed()  # more may be committed since
            found = next(self._batches, None)
        if found is None:
            return False
        self._offsets, self._left = found
        return True

    def _committed(self) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        start = self._next
        while True:
            try:
                for within in self._state.ranges(self._topic, self._partition, start):
                    for fetched in self._log.read(within, within.position_of(start)):
                        rows = np.flatnonzero(fetched.offsets >= start)
                        if len(rows):
                            start = int(fetched.offsets[rows[-1]]) + 1
                            yield fetched.offsets[rows], fetched.records.take(pa.array(rows))
                return
            except RangeMissingError as error:
                if not self._state.was_replaced(error):
                    raise
                self._check()


# Records under another key, which is made of the columns that they have.


class DeletionsWithoutKeyError(HeadwaterError):
    """Records that delete have no value, and so no columns for the new key of their `topic`. The ways out are those of
    any changed key.
    """

    def __init__(self, topic: str, columns: str) -> None:
        super().__init__(
            f"the records of {topic} cannot be put where the key {columns} belongs: some of them delete a key of "
            "before, and do not say which key of now that is"
        )
        self.topic = topic


def rekeyed(topic: Topic, records: pa.RecordBatch) -> pa.RecordBatch:
    """Records with the key that `topic` has now: each column from the key of before, or else from the value.

    Columns of the key of before stay, in the value. So do columns of the value that became the key. Raises
    DeletionsWithoutKeyError.
    """
    have = dict(zip(records.schema.names, records.columns, strict=True))
    keys = key_columns(topic)
    from_value = [name for name in keys if f"key.{name}" not in have]
    if from_value and pc.any(pc.equal(have["_kind"], int(Kind.TOMBSTONE))).as_py():
        raise DeletionsWithoutKeyError(topic.name, topic.key)
    found = {
        f"key.{name}": as_column(have.get(f"key.{name}", have.get(f"value.{name}")), records.num_rows, wanted)
        for name, wanted in keys.items()
    }
    values = value_columns(topic)
    for name, column in have.items():
        role, _, rest = name.partition(".")
        if role == "key" and f"value.{rest}" not in have:
            wanted = values.get(rest, column.type)
            found[f"value.{rest}"] = as_column(column, records.num_rows, wanted)
        elif role != "key":
            found[name] = column
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


# Writes the records of a topic again, each into the partition that it has now, and those that come while it does.


class TopicWriter:
    """`topic`: as it is declared now; `known`: as its records lie. `go_on`: called again and again; what it raises ends
    this.
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
            PartitionReader(log, state, topic.name, each, go_on, None if noted is None else noted.get(each, ()))
            for each in range(known.partitions)
        ]
        self._put_back: dict[int, Ranges] = {}
        self._done = (0,) * known.partitions
        self._ends = np.zeros(topic.partitions, np.int64)
        self._seeded: tuple[SeededPart, ...] = ()
        self._marks: list[tuple[int, ...]] = []
        self._held: list[tuple[pa.RecordBatch, Int64s]] = []
        self.written: list[Listed] = []

    @property
    def records(self) -> int:
        """How many records have been read."""
        return sum(reader.records for reader in self._readers)

    def write(self) -> RepartitionedTopic:
        """Write what is committed by now and was not written yet. The topic as the next commit would say it, together
        with all that is `written`. Raises DeletionsWithoutKeyError, errors of the log, and what `go_on` raises.
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
        for records in in_order([self._read(*each) for each in enumerate(group.ends)], by_time=by_time):
            self._go_on()
            where = self._partitions(records, row)
            row += records.num_rows
            if NOTED in records.schema.names:
                self._note(to_numpy(records.column(NOTED)), where)
                records = records.drop_columns([NOTED])
            self._ends += np.bincount(where, minlength=self._topic.partitions)
            self._hold(records, where)
        self._done = group.ends
        self._marks.append(tuple(map(int, self._ends)))
        if group.seed:
            grown = np.flatnonzero(self._ends > begin)
            self._seeded = tuple(SeededPart(int(each), int(begin[each]), int(self._ends[each])) for each in grown)

    def _note(self, noted: Bools, where: Int64s) -> None:
        """Keep where the records are that were put back."""
        for partition in np.unique(where[noted]).tolist():
            offsets = self._ends[partition] + np.flatnonzero(noted[where == partition])
            ranges = tuple((int(each), int(each) + 1) for each in offsets)
            self._put_back = ranges_of_both(self._put_back, {partition: ranges})

    def _read(self, partition: int, end: int) -> Iterator[pa.RecordBatch]:
        for records in self._readers[partition].until(end):
            if self._known.key == self._topic.key:
                yield records
            else:
                table = pa.Table.from_batches([rekeyed(self._topic, records)])
                yield from with_normal_keys(self._topic, table).to_batches()

    def _partitions(self, records: pa.RecordBatch, row: int) -> Int64s:
        """As an append finds them: those of the keys, and of null keys one after another."""
        found = key_partitions(self._topic, records)
        return np.where(found >= 0, found, np.arange(row, row + records.num_rows) % self._topic.partitions)

    def _hold(self, records: pa.RecordBatch, where: Int64s) -> None:
        held = self._held
        full = sum(len(each) for _, each in held) >= WRITE_ROWS or overfull([each for each, _ in held], records)
        if held and (full or held[0][0].schema != records.schema):
            self._flush()
        self._held.append((records, where))

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches([records for records, _ in self._held])
            where = np.concatenate([each for _, each in self._held])
            name = f"s-{uuid.uuid4().hex}"
            self.written += self._log.write(
                self._state.application, self._topic.name, name, table, where, EXTERNAL_LANE
            )
            self._held = []
