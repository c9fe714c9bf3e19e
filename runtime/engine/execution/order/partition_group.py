"""Takes the next records of a task's partitions, in an order that epochs do not change."""

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
from ..rows import Rows, no_rows
from .prefix_merge import Chunk, PrefixMerge, RunningMaximum, concat_chunks

# The records of an epoch and their order. The order does not depend on where epochs end, so results do not either.
#
# - Inside a partition, lanes are merged by `_order` (the stream time of the writing task), then lane, then position.
#   The merge stops where an exhausted lane may still yield an earlier record.
# - Across partitions, the task takes from the partition with the smallest timestamp at its head; ties go by rank. It
#   stops at an exhausted partition while one of its writers may still write.

_NONE = np.zeros(0, np.int64)

META_COLUMNS = {"_kind": pa.int8(), "_timestamp": pa.int64(), "_order": pa.int64(), "_headers": pa.string()}


@dataclass(frozen=True)
class Reading:
    """A topic that a stage reads. `columns`: the columns to read. `rank`: unique in the stage, see `Source`."""

    topic: Topic
    columns: Flow
    rank: int


@dataclass(frozen=True)
class RecordId:
    """The address of a record in the log."""

    topic: str
    partition: int
    lane: int
    position: int


@dataclass(frozen=True)
class TakenRecords:
    """The records that a task takes in an epoch, numbered from 0 in the order of taking.

    `rows`: one entry for each topic; the only path level of a row is the number of its record. `positions`: topic ->
    lane -> position at which reading continues. `stream_time`: the task's stream time after the last record, ms.
    `places`: for each topic, (lane, position) of each of its rows, int64. `skipped`: records to skip, by number.
    `offsets`: for each topic, the offset of each row, int64. `held_by`: (topic, lane) of the lanes that hold back
    records that are already read. `full`: whether the epoch ended at a limit of the plan. `size`: bytes in memory.
    """

    rows: tuple[Rows, ...]
    positions: dict[str, dict[int, int]]
    stream_time: int
    partition: int
    topics: tuple[str, ...]
    places: tuple[tuple[Int64s, Int64s], ...] = field(repr=False)
    skipped: Mapping[int, SkippedRecord] = field(default_factory=dict)
    trial_records: TrialRecords | None = None
    offsets: tuple[Int64s, ...] = field(default=(), repr=False)
    held_by: tuple[tuple[str, int], ...] = ()
    full: bool = False
    size: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    @property
    def kept(self) -> tuple[Rows, ...]:
        """`rows` without skipped records, and without records that the trial excludes."""
        found = self.rows
        if self.skipped:
            out = np.fromiter(self.skipped, np.int64, len(self.skipped))
            found = tuple(rows.filter(~np.isin(rows.path[0], out)) for rows in found)
        if self.trial_records is not None:
            numbers, only = np.array(self.trial_records.numbers, np.int64), self.trial_records.only
            found = tuple(rows.filter(np.isin(rows.path[0], numbers, invert=not only)) for rows in found)
        return found

    def order_at(self, number: int) -> int:
        """The task's stream time after a record, ms. `number`: of the record. Raises IndexError."""
        topic, row = self.find(number)
        return int(self.rows[topic].order[row])

    def record(self, number: int) -> RecordId:
        """The address of the record with this number. Raises IndexError."""
        topic, row = self.find(number)
        lanes, positions = self.places[topic]
        return RecordId(self.topics[topic], self.partition, int(lanes[row]), int(positions[row]))

    def find(self, number: int) -> tuple[int, int]:
        """(The index of the record's topic, the record's row). Raises IndexError."""
        for topic, rows in enumerate(self.rows):
            row = int(np.searchsorted(rows.path[0], number))
            if row < len(rows) and rows.path[0][row] == number:
                return topic, row
        raise IndexError(number)


class TimestampError(HeadwaterError):
    """The timestamp of a record is out of range: before 1970, as in Kafka Streams (no window holds it), or after 9999.

    `numbers`: the numbers of all such records of the epoch, ascending.
    """

    def __init__(self, record: RecordId, offset: int, timestamp: int, numbers: Sequence[int] = ()) -> None:
        where = f"record {offset} of {record.topic}-{record.partition}"
        super().__init__(f"{where} has the timestamp {timestamp}, which {timestamp_error(timestamp)}")
        self.record = record
        self.offset = offset
        self.timestamp = timestamp
        self.numbers = tuple(numbers)


class LaneFeed:
    """A feed of one lane of a partition, read piece by piece. Its keys are `_order`.

    `position`: where reading continues after the pulled records. `pulled`: the number of pulled records.
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
        """The smallest `_order` that a later record of this lane may have. None: no record can come.

        After the last range this is the writer's clock: its later records have at least this `_order`.
        """
        if self._unread:
            return self._last if self._reading is not None else max(self._last, self._unread[-1].min_order)
        if self._lane.more:
            return self._last
        return None if self._lane.idle else max(self._last, self._lane.clock)

    def _chunk(self, fetched: Fetched) -> Chunk:
        count = len(fetched)
        self.pulled += count
        # A single lane needs no merge, so `_order` is not read.
        keys = to_numpy(fetched.records.column("_order")) if self._keyed else np.zeros(count, np.int64)
        self._last = int(keys[-1])
        lanes = np.broadcast_to(np.int64(self.rank), count)
        return Chunk(keys, fetched.records, lanes, fetched.positions, fetched.offsets)


def read_task(
    plan: TaskPlan, readings: Sequence[Reading], log: RangeReader, *, reject_times: bool = True
) -> TakenRecords:
    """Take the records of an epoch: at most `plan.max_records` and `plan.max_bytes`, but at least one record.

    A regrouped change of a table is two records. If the last record is the first half of one, the second is taken too.
    Raises TimestampError if `reject_times`, and errors of the log.
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
    timestamps = np.zeros(counts, np.int64)
    moving = np.full(counts, plan.stream_time)
    for reading, (chunk, places) in zip(readings, chunks, strict=True):
        if chunk is not None and reading.topic.kafka is None:  # a raw record has its time once it is decoded
            timestamps[places] = chunk.batch.column("_timestamp").to_numpy()
            if not inputs[reading.topic.name].responses:
                moving[places] = np.where(invalid_timestamps(timestamps[places]), plan.stream_time, timestamps[places])
    # Stream time after each record becomes `_order` of the records that this task writes. Responses of foreign-key
    # joins do not move it, because their arrival depends on where epochs end.
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
        # The merge of a full epoch has not reached its end, so it cannot say what holds records back.
        held_by=() if full else _held_by(task, merged, [inputs[reading.topic.name] for reading in readings]),
        full=full,
        size=sum(chunk.batch.nbytes for chunk, _ in chunks if chunk is not None),
    )
    taken = replace(taken, skipped=_skipped(taken, plan.skipped), trial_records=plan.trial_records)
    # Only taken records are checked, so the set of failures does not depend on where the epoch ends.
    wrong = np.flatnonzero(invalid_timestamps(timestamps)).tolist() if reject_times else []
    wrong = [number for number in wrong if number not in taken.skipped]
    if wrong:
        topic, row = taken.find(wrong[0])
        offset = int(taken.offsets[topic][row])
        raise TimestampError(taken.record(wrong[0]), offset, int(timestamps[wrong[0]]), wrong)
    return taken


def _skipped(taken: TakenRecords, wanted: Sequence[SkippedRecord]) -> dict[int, SkippedRecord]:
    """The taken records that the plan skips, by number, ascending."""
    by_place = {(each.topic, each.lane, each.position): each for each in wanted}
    found: dict[int, SkippedRecord] = {}
    for topic, rows, (lanes, positions) in zip(taken.topics, taken.rows, taken.places, strict=True):
        mine = [each.position for each in wanted if each.topic == topic]
        for index in np.flatnonzero(np.isin(positions, mine)).tolist() if mine else ():
            each = by_place.get((topic, int(lanes[index]), int(positions[index])))
            if each is not None:
                found[int(rows.path[0][index])] = each
    return dict(sorted(found.items()))


def _in_order(plan: TaskPlan) -> Iterator[tuple[LogRange, int]]:
    """(Range, first position to read) of a plan, in about the order in which they are merged. For reading ahead."""
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
    """Whether a writer of the partition may still write, so that other partitions must wait for it."""
    return any(lane.more or not lane.idle for lane in topic.lanes)


def _held_by(
    task: PrefixMerge, merged: Sequence[PrefixMerge], topics: Sequence[TopicInput]
) -> tuple[tuple[str, int], ...]:
    """(Topic, lane) of the lanes that the remaining records wait for. Empty if the next plan has more of them."""
    if not task.left and not any(each.left for each in merged):
        return ()
    lanes = [(topics[index], topics[index].lanes[lane]) for index in task.holding() for lane in merged[index].holding()]
    if any(lane.more for _, lane in lanes):
        return ()
    return tuple((topic.topic, lane.lane) for topic, lane in lanes)


@dataclass
class _Run:
    """The pulled records of one topic. `places`: for each chunk, the numbers of its records, int64, ascending."""

    chunks: list[Chunk] = field(default_factory=list)
    places: list[Int64s] = field(default_factory=list)

    def first(self, count: int) -> tuple[Chunk | None, Int64s]:
        """(The topic's records among the first `count` of the task, their numbers). Empties this run."""
        if not self.chunks:
            return None, np.zeros(0, np.int64)
        places = np.concatenate(self.places)
        taken = int(np.searchsorted(places, count))
        kept, left = list[Chunk](), taken
        # Chunks behind the last taken record are not copied. A chunk is dropped as soon as it is copied.
        while self.chunks and (left or not kept):
            chunk = self.chunks.pop(0)
            kept.append(chunk.slice(0, left))
            left -= len(kept[-1])
        self.chunks, self.places = [], []
        return concat_chunks(kept), places[:taken]

    def kind(self, place: int) -> int | None:
        """The kind of the record with the number `place`; None for a record of another topic."""
        for chunk, places in zip(self.chunks, self.places, strict=True):
            found = int(np.searchsorted(places, place))
            if found < len(places) and places[found] == place:
                return int(chunk.batch.column("_kind")[found].as_py())
        return None


def _pull(merge: PrefixMerge, topics: int, limit: int, size: int | None) -> tuple[list[_Run], int, bool]:
    """Pull records until there are `limit` of them or `size` bytes, or no more can be taken.

    Returns (one run for each topic, the number of records to take, whether a limit was reached). More records may be
    pulled than taken.
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
            # Inverse permutation: index in the chunks -> index in the order of taking. Chunks [10, 30] and [20] have
            # the order [0, 2, 1]; so their records get the numbers [0, 2] and [1].
            places[pulled.order] = np.arange(count)
        start, parts = 0, list[tuple[Chunk, Int64s]]()
        for index, chunk in pulled.runs:
            parts.append((chunk, places[start : start + len(chunk)]))
            runs[index].chunks.append(chunk)
            runs[index].places.append(parts[-1][1] + pulled_records)
            start += len(chunk)
        if size is not None and pulled_records < limit:
            # The size of whole buffers is fast, and never too small. Slices are measured near the limit only.
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
    """Whether the last pulled record is the last one below the limit, and the first half of a change."""
    return pulled == limit and any(run.kind(limit - 1) == Kind.OLD_SAME_GROUP for run in runs)


def _fitting(parts: Sequence[tuple[Chunk, Int64s]], size: int) -> int:
    """The number of records, in the order of taking, that fit into `size` bytes. `parts`: (chunk, record numbers)."""

    def size_of(count: int) -> int:
        return sum(chunk.batch.slice(0, int(np.searchsorted(places, count))).nbytes for chunk, places in parts)

    return bisect_right(range(1, sum(len(chunk) for chunk, _ in parts) + 1), size, key=size_of)


def _consumed(topic: TopicInput, feeds: Sequence[LaneFeed], chunk: Chunk | None) -> dict[int, int]:
    """Lane -> position at which reading continues: behind the last taken record, or all pulled ones."""
    lanes, positions = (_NONE, _NONE) if chunk is None else (chunk.lane, chunk.position)
    counts = np.bincount(lanes, minlength=max(lane.lane for lane in topic.lanes) + 1)
    ends = np.zeros(len(counts), np.int64)
    ends[lanes] = positions + 1  # positions ascend, and NumPy keeps the last assignment to an index
    consumed = {}
    for lane, feed in zip(topic.lanes, feeds, strict=True):
        taken = int(counts[lane.lane])
        behind = int(ends[lane.lane]) if taken else lane.position
        consumed[lane.lane] = feed.position if taken == feed.pulled else behind
    return consumed


def _rows(reading: Reading, chunk: Chunk | None, places: Int64s, order: Int64s) -> Rows:
    if chunk is None:
        return no_rows(reading.columns)
    batch = chunk.batch
    headers = batch.column("_headers")
    rows = Rows(
        (places,),
        to_numpy(batch.column("_kind")).astype(np.int8, copy=False),
        to_numpy(batch.column("_timestamp")),
        order[places],
        None if headers.null_count == len(headers) else headers,
    )
    return rows.with_columns(
        {name: batch.column(f"key.{name}") for name in parse_columns(reading.columns.key)},
        {name: batch.column(f"value.{name}") for name in parse_columns(reading.columns.value)},
    )


# Time that passes without a record. Only tests of a project use it; everywhere else records alone move clocks.
#
# The time passes in an epoch of its own, behind all rows of the task. It reaches upstream steps first. Downstream steps
# process the rows that these emit before the time reaches them.

_BEHIND = 2**62
"""The second path level of rows emitted as time passes: greater than that of any row made of a record."""


@dataclass(frozen=True)
class PassedTime:
    """Time that passes without a record. `time`: the new time of all clocks of the task, ms.

    `level`: the first level of the last path in the stage. `order`: the `_order` of emitted rows: the time, or in a
    trial the number of the task's first record.
    """

    time: int
    level: int
    order: int

    def place(self, rank: int) -> Rows:
        """One row without columns: the path and time of rows that a step emits. `rank`: of the step in its stage."""
        path = tuple(np.array([level]) for level in (self.level, _BEHIND, rank))
        time, order = np.array([self.time]), np.array([self.order])
        return Rows(path, np.array([Kind.VALUE], np.int8), time, order)
