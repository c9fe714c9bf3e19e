"""The source record of each row: its number, stream time, topic and offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....ir.topology import Topic
from ....log.ranges import LogRange, RangeReader
from ....records.arrays import Int64s
from ....records.record_json import Record, records_of
from ....records.schema import topic_schema
from ....tasks.plan import TaskPlan
from ..rows import Rows
from .partition_group import RecordId, TakenRecords

# Metadata of the records of an epoch, beside their columns: source, and stream time when taken.

Places = tuple[str, Int64s, Int64s]
"""(Topic, numbers of its records in the epoch, their offsets). Both arrays are int64, one entry for each record."""


@dataclass(frozen=True)
class Origins:
    """The records that a task takes in an epoch, numbered from 0 in the order of taking. Skipped records count too.

    `before`: the task's stream time when the epoch began, ms. `times`: int64, one for each record: the stream time
    after it, ms; it never falls. `places`: one entry for each topic. `numbers`: in a later stage, the record number by
    the first level of a row's path; levels count from 1, so `numbers[0]` is unused. None: the level is the number.
    `first`: only in a trial, where `_order` of a row is a record number, counted over all tasks: that of record 0.
    `lanes`: for each topic, lane and position of each of its records. Empty in a later stage.

    Example: a task takes four records, at the stream time 100.

        origins = Origins(100, [100, 120, 120, 150], (("orders", [0, 2], [7, 8]), ("users", [1, 3], [3, 4])))
        origins.topic(2), origins.offset(2)    "orders", 8
        origins.topic(3), origins.offset(3)    "users", 4
        origins.time(1)                        120
        origins.reached(120)                   1: with record 1 stream time is 120
        origins.reached(151)                   4: no record moves stream time so far

        later = replace(origins, numbers=[0, 0, 2])    # levels 1 and 2 are of the records 0 and 2
        later.numbers_of(rows)                 [0, 2, 2] for rows with the first path levels [1, 2, 2]
        later.levels_of([0, 1, 2, 3])          [1, 1, 2, 2]: record 1 has no row, so it comes behind level 1
    """

    before: int
    times: Int64s
    places: Sequence[Places] = ()
    numbers: Int64s | None = None
    first: int | None = None
    lanes: Sequence[tuple[Int64s, Int64s]] = ()

    @classmethod
    def of(cls, taken: TakenRecords, before: int) -> Origins:
        """The origins of an epoch's records. `before`: stream time when it began, ms."""
        times: Int64s = np.full(len(taken), before)
        for rows in taken.rows:
            times[rows.path[0]] = rows.order
        places = zip(taken.topics, taken.rows, taken.offsets, strict=True)
        found = tuple((topic, rows.path[0], offsets) for topic, rows, offsets in places)
        return cls(before, times, found, lanes=taken.places)

    def __len__(self) -> int:
        return len(self.times)

    def numbers_of(self, rows: Rows) -> Int64s:
        """The number of the source record of each row."""
        return rows.path[0] if self.numbers is None else self.numbers[rows.path[0]]

    def levels_of(self, numbers: Int64s) -> Int64s:
        """The first path level for rows that come directly behind these records."""
        if self.numbers is None:
            return numbers
        return np.searchsorted(self.numbers[1:], numbers, side="right")

    def order_of(self, numbers: Int64s) -> Int64s:
        """The `_order` of rows made of these records. An epoch without records has the stream time of its beginning."""
        return self.times_of(numbers) if self.first is None else numbers + self.first

    def time(self, number: int) -> int:
        """The stream time after a record, ms. A negative number means the beginning of the epoch."""
        return self.before if number < 0 or not len(self) else int(self.times[number])

    def times_of(self, numbers: Int64s) -> Int64s:
        """The stream time after each of these records, ms. An epoch without records has that of its beginning."""
        return self.times[numbers] if len(self) else np.full(len(numbers), self.before)

    def reached(self, time: int) -> int:
        """The first record with a stream time of at least `time` (ms). Without such a record: the number of records."""
        return int(np.searchsorted(self.times, time))

    def topic(self, number: int) -> str:
        """The topic of a record."""
        return self.places[int(self._found[0][number])][0]

    def offset(self, number: int) -> int:
        """The offset of a record."""
        return int(self._found[1][number])

    def places_in(self, topic: str, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """(Lane, position) of each of these records, which are all of one topic."""
        index = [name for name, _, _ in self.places].index(topic)
        at = np.searchsorted(self.places[index][1], numbers)
        lanes, positions = self.lanes[index]
        return lanes[at], positions[at]

    @cached_property
    def _found(self) -> tuple[Int64s, Int64s]:
        topics, offsets = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for topic, (_, numbers, found) in enumerate(self.places):
            topics[numbers], offsets[numbers] = topic, found
        return topics, offsets


# Reads skipped records from the log once more, for dead letters and reports.


@dataclass(frozen=True)
class Again:
    """A record that a task took under a plan, with all columns. `number`: its number in the epoch, from 0."""

    number: int
    topic: str
    record: Record


def records_again(
    plan: TaskPlan, taken: TakenRecords, topics: Mapping[str, Topic], numbers: Sequence[int], log: RangeReader
) -> list[Again]:
    """The records with these numbers, in ascending order. Reads each range once. Raises errors of the log."""
    wanted: dict[LogRange, dict[int, int]] = defaultdict(dict)
    for number in numbers:
        place = taken.record(number)
        wanted[_range(plan, place)][place.position] = number
    found: list[Again] = []
    for within, positions in wanted.items():
        topic = topics[within.topic]
        for record, position in _records(within, topic, sorted(positions), log):
            found.append(Again(positions[position], topic.name, record))
    return sorted(found, key=lambda each: each.number)


def _range(plan: TaskPlan, record: RecordId) -> LogRange:
    """The range of a plan with a taken record."""
    return next(
        each
        for topic in plan.inputs
        for lane in topic.lanes
        for each in lane.ranges
        if (topic.topic, lane.lane) == (record.topic, record.lane) and each.start <= record.position < each.end
    )


def _records(
    within: LogRange, topic: Topic, positions: Sequence[int], log: RangeReader
) -> Iterator[tuple[Record, int]]:
    """(Record, position) for these positions, which ascend."""
    columns = topic_schema(topic, headers=True)
    left: Int64s = np.array(positions, np.int64)
    for fetched in log.read(within, positions[0], columns):
        index = np.flatnonzero(np.isin(fetched.positions, left))
        batch = fetched.records.take(index)
        yield from zip(
            records_of(topic, within.partition, fetched.offsets[index], batch),
            fetched.positions[index].tolist(),
            strict=True,
        )
        if fetched.end > positions[-1]:
            return
