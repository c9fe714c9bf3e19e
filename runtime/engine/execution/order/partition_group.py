"""Which records a task takes next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from .....errors import HeadwaterError
from ....ir.topology import Topic
from ....log.ranges import Fetched, LogRange, RangeReader
from ....records.arrays import Int64s, to_numpy
from ....records.schema import invalid_timestamps, timestamp_error
from ....records.types import Kind, parse_columns
from ....tasks.plan import LaneInput, SkippedRecord, TaskPlan, TopicInput, TrialRecords
from ....timed_parts import timed
from ...operators.operator import Flow
from ..rows import Rows
from .prefix_merge import Chunk, PrefixMerge, RunningMaximum, concat_chunks

# Which committed records a task takes in an epoch, and in which order.
#
# This order makes results independent of where epochs end. Inside a partition, lanes are merged by the stream time of
# their writers' tasks (`_order`), then lane, then position. The merge stops where a lane that has run out could still
# yield an earlier record. Among its partitions, a task takes the one whose head has the smallest timestamp; ties go by
# rank. It stops at a partition that has run out while one of its writers may still write.

_NONE = np.zeros(0, np.int64)

META_COLUMNS = {"_kind": pa.int8(), "_timestamp": pa.int64(), "_order": pa.int64(), "_headers": pa.string()}


@dataclass(frozen=True)
class Reading:
    """A topic that a stage reads. `columns`: those needed. `rank`: unique in the stage, see `Source`."""

    topic: Topic
    columns: Flow
    rank: int


@dataclass(frozen=True)
class RecordId:
    """A record's place in the log."""

    topic: str
    partition: int
    lane: int
    position: int


@dataclass(frozen=True)
class TakenRecords:
    """The records that a task takes in an epoch. `rows`: for each topic read, with their places in the order of taking.

    `positions`: topic -> lane -> where reading continues. `stream_time`: the task's clock after the last record.
    `left_out`: those of `rows` that no step may get, by their places. `offsets`: of each record of `rows`. `held_by`:
    where records are left that may not be taken, the topics and lanes that they wait for. `full`: whether the bounds of
    an epoch have ended it. `size`: the bytes of the records, as they are in memory.
    """

    rows: tuple[Rows, ...]
    positions: dict[str, dict[int, int]]
    stream_time: int
    partition: int
    topics: tuple[str, ...]
    places: tuple[tuple[Int64s, Int64s], ...] = field(repr=False)
    left_out: Mapping[int, SkippedRecord] = field(default_factory=dict)
    trial_records: TrialRecords | None = None
    offsets: tuple[Int64s, ...] = field(default=(), repr=False)
    held_by: tuple[tuple[str, int], ...] = ()
    full: bool = False
    size: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    @property
    def kept(self) -> tuple[Rows, ...]:
        """`rows` without those that are left out, or not shown in a trial."""
        found = self.rows
        if self.left_out:
            out = np.fromiter(self.left_out, np.int64, len(self.left_out))
            found = tuple(rows.filter(~np.isin(rows.path[0], out)) for rows in found)
        if self.trial_records is not None:
            numbers, only = np.array(self.trial_records.numbers, np.int64), self.trial_records.only
            found = tuple(rows.filter(np.isin(rows.path[0], numbers, invert=not only)) for rows in found)
        return found

    def order_at(self, number: int) -> int:
        """The task's stream time after the record with this number, ms."""
        return next(
            int(rows.order[found])
            for rows in self.rows
            if (found := int(np.searchsorted(rows.path[0], number))) < len(rows) and rows.path[0][found] == number
        )

    def record(self, number: int) -> RecordId:
        """The record with this number, from 0, in the order of taking."""
        for topic, rows, (lanes, positions) in zip(self.topics, self.rows, self.places, strict=True):
            found = np.searchsorted(rows.path[0], number)
            if found < len(rows) and rows.path[0][found] == number:
                return RecordId(topic, self.partition, int(lanes[found]), int(positions[found]))
        raise IndexError(number)


class TimestampError(HeadwaterError):
    """A record that has no time of records, so it fails: one from before 1970, which no window holds, as in Kafka
    Streams, or from after 9999. `numbers`: of all such records that the task takes, in the order of taking.
    """

    def __init__(self, record: RecordId, offset: int, timestamp: int, numbers: Sequence[int] = ()) -> None:
        where = f"record {offset} of {record.topic}-{record.partition}"
        super().__init__(f"{where} has the timestamp {timestamp}, which {timestamp_error(timestamp)}")
        self.record = record
        self.offset = offset
        self.timestamp = timestamp
        self.numbers = tuple(numbers)


class LaneFeed:
    """One lane of a partition, read piece by piece, keyed by `_order`.

    `position`: where reading continues after the pulled records. `pulled`: how many these are.
    """

    def __init__(self, log: RangeReader, lane: LaneInput, columns: pa.Schema, keyed: bool) -> None:
        self.rank = lane.lane
        self.position = lane.position
        self.pulled = 0
        self._log = log
        self._lane = lane
        self._columns = columns
        self._keyed = keyed
        # Reversed: the next range is at the end, where `pop` is cheap.
        self._unread = [each for each in reversed(lane.ranges) if each.end > lane.position]
        self._reading: Iterator[Fetched] | None = None
        self._last = -(2**63)

    def pull(self) -> Chunk | None:
        """The next records. Ranges without records are skipped."""
        while self._unread:
            within = self._unread[-1]
            if self._reading is None:
                self._reading = self._log.read(within, max(self.position, within.start), self._columns)
            with timed("decode"):
                fetched = next(self._reading, None)
            self.position = within.end if fetched is None else fetched.end
            if self.position >= within.end:
                self._unread.pop()
                self._reading = None
            if fetched is not None:
                return self._chunk(fetched)
        return None

    def bound(self) -> int | None:
        """No record that was not pulled yet has an `_order` below this. None if no record can come.

        After the last range this is the writer's clock, because the writer makes no record with an earlier `_order`.
        """
        if self._unread:
            return self._last if self._reading is not None else max(self._last, self._unread[-1].min_order)
        if self._lane.more:
            return self._last
        return None if self._lane.idle else max(self._last, self._lane.clock)

    def _chunk(self, fetched: Fetched) -> Chunk:
        count = len(fetched)
        self.pulled += count
        # A single lane is in order by itself, so `_order` is not even read.
        keys = to_numpy(fetched.records.column("_order")) if self._keyed else np.zeros(count, np.int64)
        self._last = int(keys[-1])
        lanes = np.broadcast_to(np.int64(self.rank), count)
        return Chunk(keys, fetched.records, lanes, fetched.positions, fetched.offsets)


def read_task(
    plan: TaskPlan, readings: Sequence[Reading], log: RangeReader, *, refuse_times: bool = True
) -> TakenRecords:
    """Take at most `plan.max_records` records and `plan.max_bytes` bytes of them, but one record at least; and one more
    if the last is the first half of a regrouped table's change.

    Raises TimestampError, unless that is not asked for, and errors of the log.
    """
    inputs = {topic.topic: topic for topic in plan.inputs}
    log = log.ahead(_in_order(plan))
    lanes = [_lanes(log, inputs[reading.topic.name], reading) for reading in readings]
    merged = [PrefixMerge(each) for each in lanes]
    feeds = [
        RunningMaximum(reading.rank, each, _waits(inputs[reading.topic.name]))
        for reading, each in zip(readings, merged, strict=True)
    ]
    task = PrefixMerge(feeds)
    runs, counts, full = _pull(task, len(feeds), plan.max_records, plan.max_bytes)
    chunks = [run.first(counts) for run in runs]
    timestamps = np.empty(counts, np.int64)
    moving = np.full(counts, plan.stream_time)
    for reading, (chunk, places) in zip(readings, chunks, strict=True):
        if chunk is not None:
            timestamps[places] = chunk.batch.column("_timestamp").to_numpy()
            if not inputs[reading.topic.name].responses:
                moving[places] = np.where(invalid_timestamps(timestamps[places]), plan.stream_time, timestamps[places])
    # The stream time after each record: it becomes `_order` of the records that this task makes. When answers come
    # depends on where epochs end, so they do not move it.
    order = np.maximum(np.maximum.accumulate(moving), plan.stream_time)
    taken = TakenRecords(
        tuple(_rows(reading, chunk, places, order) for reading, (chunk, places) in zip(readings, chunks, strict=True)),
        {
            reading.topic.name: _consumed(inputs[reading.topic.name], each, chunk)
            for reading, each, (chunk, _) in zip(readings, lanes, chunks, strict=True)
        },
        int(order[-1]) if counts else plan.stream_time,
        plan.key.partition,
        tuple(reading.topic.name for reading in readings),
        tuple((_NONE, _NONE) if chunk is None else (chunk.lane, chunk.position) for chunk, _ in chunks),
        offsets=tuple(_NONE if chunk is None else chunk.offset for chunk, _ in chunks),
        # Of a full epoch the merge has not come to its end.
        held_by=() if full else _held_by(task, merged, [inputs[reading.topic.name] for reading in readings]),
        full=full,
        size=sum(chunk.batch.nbytes for chunk, _ in chunks if chunk is not None),
    )
    taken = replace(taken, left_out=_left_out(taken, plan.skipped), trial_records=plan.trial_records)
    # Only among the records that are taken, so that an earlier end of the epoch does not change what fails.
    wrong = np.flatnonzero(invalid_timestamps(timestamps)).tolist() if refuse_times else []
    wrong = [number for number in wrong if number not in taken.left_out]
    if wrong:
        record = taken.record(wrong[0])
        again = read_again(plan, record, log)
        raise TimestampError(record, int(again.offsets[0]), int(timestamps[wrong[0]]), wrong)
    return taken


def _left_out(taken: TakenRecords, wanted: Sequence[SkippedRecord]) -> dict[int, SkippedRecord]:
    """The records to leave out that are taken, by their numbers in the order of taking."""
    by_place = {(each.topic, each.lane, each.position): each for each in wanted}
    found: dict[int, SkippedRecord] = {}
    for topic, rows, (lanes, positions) in zip(taken.topics, taken.rows, taken.places, strict=True):
        mine = [each.position for each in wanted if each.topic == topic]
        for index in np.flatnonzero(np.isin(positions, mine)).tolist() if mine else ():
            each = by_place.get((topic, int(lanes[index]), int(positions[index])))
            if each is not None:
                found[int(rows.path[0][index])] = each
    return dict(sorted(found.items()))


def read_again(plan: TaskPlan, record: RecordId, log: RangeReader) -> Fetched:
    """Read one record again that was taken under a plan."""
    (within,) = (
        each
        for topic in plan.inputs
        for lane in topic.lanes
        for each in lane.ranges
        if (topic.topic, lane.lane) == (record.topic, record.lane) and each.start <= record.position < each.end
    )
    return next(log.read(within, record.position))[:1]


def _in_order(plan: TaskPlan) -> Iterator[tuple[LogRange, int]]:
    """The ranges of a plan, each from where reading begins, in about the order in which they are merged."""
    lanes = [lane for topic in plan.inputs for lane in topic.lanes]
    starts = [(each, max(lane.position, each.start)) for lane in lanes for each in lane.ranges]
    yield from sorted(starts, key=lambda each: each[0].min_order)


def _lanes(log: RangeReader, topic: TopicInput, reading: Reading) -> list[LaneFeed]:
    keyed = len(topic.lanes) > 1
    columns = {f"key.{name}": kind for name, kind in parse_columns(reading.columns.key).items()}
    columns |= {f"value.{name}": kind for name, kind in parse_columns(reading.columns.value).items()}
    columns |= {name: kind for name, kind in META_COLUMNS.items() if keyed or name != "_order"}
    schema = pa.schema(list(columns.items()))
    return [LaneFeed(log, lane, schema, keyed) for lane in topic.lanes]


def _waits(topic: TopicInput) -> bool:
    """Whether records may still come that must be taken before those of other partitions."""
    return any(lane.more or not lane.idle for lane in topic.lanes)


def _held_by(
    task: PrefixMerge, merged: Sequence[PrefixMerge], topics: Sequence[TopicInput]
) -> tuple[tuple[str, int], ...]:
    """The topics and lanes that the records wait for that are left; none where the next plan has more of them."""
    if not task.left and not any(each.left for each in merged):
        return ()
    lanes = [(topics[index], topics[index].lanes[lane]) for index in task.holding() for lane in merged[index].holding()]
    if any(lane.more for _, lane in lanes):
        return ()
    return tuple((topic.topic, lane.lane) for topic, lane in lanes)


@dataclass
class _Run:
    """The pulled records of one topic: chunks, and the place of each record in the order of taking."""

    chunks: list[Chunk] = field(default_factory=list)
    places: list[Int64s] = field(default_factory=list)

    def first(self, count: int) -> tuple[Chunk | None, Int64s]:
        """The topic's records among the first `count` of the task."""
        if not self.chunks:
            return None, np.zeros(0, np.int64)
        places = np.concatenate(self.places)
        taken = int(np.searchsorted(places, count))
        kept, left = list[Chunk](), taken
        # Chunks behind the last record are not copied, and none is held beside the copy.
        while self.chunks and (left or not kept):
            chunk = self.chunks.pop(0)
            kept.append(chunk.slice(0, left))
            left -= len(kept[-1])
        self.chunks, self.places = [], []
        return concat_chunks(kept), places[:taken]

    def kind(self, place: int) -> int | None:
        """The kind of the record at `place`, if it is of this topic."""
        for chunk, places in zip(self.chunks, self.places, strict=True):
            found = int(np.searchsorted(places, place))
            if found < len(places) and places[found] == place:
                return int(chunk.batch.column("_kind")[found].as_py())
        return None


def _pull(merge: PrefixMerge, topics: int, limit: int, size: int | None) -> tuple[list[_Run], int, bool]:
    """Pull at least `limit` records, or `size` bytes of them, if there are so many. Also returns how many of them to
    take, and whether these bounds are the reason that there are no more.
    """
    runs = [_Run() for _ in range(topics)]
    pulled_records, measured, most = 0, 0, 0
    unmeasured: list[Chunk] = []
    while pulled_records < limit or _parted(runs, limit, pulled_records):
        pulled = merge.pull()
        if pulled is None:
            break
        count = sum(len(chunk) for _, chunk in pulled.runs)
        places = np.arange(count)
        if pulled.order is not None:
            # The inverse permutation: from each record's place in the chunks to its place in the order of taking.
            places[pulled.order] = np.arange(count)
        start, parts = 0, list[tuple[Chunk, Int64s]]()
        for index, chunk in pulled.runs:
            parts.append((chunk, places[start : start + len(chunk)]))
            runs[index].chunks.append(chunk)
            runs[index].places.append(parts[-1][1] + pulled_records)
            start += len(chunk)
        if size is not None and pulled_records < limit:
            # Buffers are counted fast, but whole; the bytes of slices of them only where it matters.
            unmeasured += [chunk for chunk, _ in parts]
            most += sum(chunk.batch.get_total_buffer_size() for chunk, _ in parts)
            if most >= size:
                measured += sum(chunk.batch.nbytes for chunk in unmeasured)
                most, unmeasured = measured, []
            if most >= size:
                before = measured - sum(chunk.batch.nbytes for chunk, _ in parts)
                limit = min(limit, max(1, pulled_records + _fitting(parts, size - before)))
        pulled_records += count
    if pulled_records < limit:
        return runs, pulled_records, False
    return runs, limit + 1 if pulled_records > limit and _parted(runs, limit, limit) else limit, True


def _parted(runs: Sequence[_Run], limit: int, pulled: int) -> bool:
    """Whether the last record before the limit is half of a change, and is the last that was pulled."""
    return pulled == limit and any(run.kind(limit - 1) == Kind.OLD_SAME_GROUP for run in runs)


def _fitting(parts: Sequence[tuple[Chunk, Int64s]], size: int) -> int:
    """How many records take at most `size` bytes, in the order of taking: the places of each chunk's records."""

    def size_of(count: int) -> int:
        return sum(chunk.batch.slice(0, int(np.searchsorted(places, count))).nbytes for chunk, places in parts)

    return bisect_right(range(1, sum(len(chunk) for chunk, _ in parts) + 1), size, key=size_of)


def _consumed(topic: TopicInput, feeds: Sequence[LaneFeed], chunk: Chunk | None) -> dict[int, int]:
    """Lane -> where reading continues: after the last record taken, or after all pulled ones if all were taken."""
    lanes, positions = (_NONE, _NONE) if chunk is None else (chunk.lane, chunk.position)
    counts = np.bincount(lanes, minlength=max(lane.lane for lane in topic.lanes) + 1)
    ends = np.zeros(len(counts), np.int64)
    ends[lanes] = positions + 1  # a later record of a lane replaces the earlier one, as positions ascend
    consumed = {}
    for lane, feed in zip(topic.lanes, feeds, strict=True):
        taken = int(counts[lane.lane])
        behind = int(ends[lane.lane]) if taken else lane.position
        consumed[lane.lane] = feed.position if taken == feed.pulled else behind
    return consumed


def _rows(reading: Reading, chunk: Chunk | None, places: Int64s, order: Int64s) -> Rows:
    keys, values = parse_columns(reading.columns.key), parse_columns(reading.columns.value)
    if chunk is None:
        empty = Rows((_NONE,), _NONE.astype(np.int8), _NONE, _NONE, None, {}, (), ())
        return empty.with_columns(
            {name: pa.nulls(0, data_type) for name, data_type in keys.items()},
            {name: pa.nulls(0, data_type) for name, data_type in values.items()},
        )
    batch = chunk.batch
    headers = batch.column("_headers")
    rows = Rows(
        (places,),
        to_numpy(batch.column("_kind")).astype(np.int8, copy=False),
        to_numpy(batch.column("_timestamp")),
        order[places],
        None if headers.null_count == len(headers) else headers,
        {},
        (),
        (),
    )
    return rows.with_columns(
        {name: batch.column(f"key.{name}") for name in keys}, {name: batch.column(f"value.{name}") for name in values}
    )


# Time that passes without a record: only tests of a project have tasks take notice of it.
#
# Everywhere else it is records that move the clocks of steps. What a step gives up as time passes comes behind all rows
# that its task has had, in an epoch of its own: first at the steps above, whose rows are then processed by those below
# before time reaches these.

_BEHIND = 2**62
"""The second level of the paths of what comes out: behind all that records have led to."""


@dataclass(frozen=True)
class PassedTime:
    """`time`: what all clocks of the task are moved to, ms. `level`: the first level of the last path in the stage.
    `order`: the `_order` of what comes out: the time, but in a trial the number of the task's first record.
    """

    time: int
    level: int
    order: int

    def place(self, rank: int) -> Rows:
        """One row without columns: where that comes out which a step gives up. `rank`: of the step in its stage."""
        path = tuple(np.array([level]) for level in (self.level, _BEHIND, rank))
        time, order = np.array([self.time]), np.array([self.order])
        return Rows(path, np.array([Kind.VALUE], np.int8), time, order, None, {}, (), ())
