"""Where the rows of a stage come from."""

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

# Where the records of an epoch come from, and when they were taken: what steps know of them beside their columns.

Places = tuple[str, Int64s, Int64s]
"""A topic, and the numbers and offsets of the records that are of it."""


@dataclass(frozen=True)
class Origins:
    """The records that a task takes in an epoch, numbered from 0 in the order of taking, whatever becomes of them.

    `before`: the task's stream time when the epoch began, ms. `times`: the stream time with each record. `places`: of
    each topic. `numbers`: of the rows of a later stage, by the first level of their path, from 1 on; None: that level
    is the number.
    `first`: in a trial, the number of the first record among those of all tasks, which rows have as their `_order`.
    """

    before: int
    times: Int64s
    places: Sequence[Places] = ()
    numbers: Int64s | None = None
    first: int | None = None

    @classmethod
    def of(cls, taken: TakenRecords, before: int) -> Origins:
        """Those of the records of an epoch that began at the stream time `before`, ms."""
        times: Int64s = np.full(len(taken), before)
        for rows in taken.rows:
            times[rows.path[0]] = rows.order
        places = zip(taken.topics, taken.rows, taken.offsets, strict=True)
        return cls(before, times, tuple((topic, rows.path[0], offsets) for topic, rows, offsets in places))

    def __len__(self) -> int:
        return len(self.times)

    def numbers_of(self, rows: Rows) -> Int64s:
        """Which record each row comes from, directly or not."""
        return rows.path[0] if self.numbers is None else self.numbers[rows.path[0]]

    def levels_of(self, numbers: Int64s) -> Int64s:
        """The first level of the paths of rows that come behind these records."""
        if self.numbers is None:
            return numbers
        return np.searchsorted(self.numbers[1:], numbers, side="right")

    def order_of(self, numbers: Int64s) -> Int64s:
        """The `_order` of rows that come from these records; from none, if there are none."""
        if self.first is not None:
            return numbers + self.first
        if not len(self):
            return np.full(len(numbers), self.before)
        return self.times[numbers]

    def time(self, number: int) -> int:
        """The stream time with a record; before the first one that of the epoch's beginning."""
        return self.before if number < 0 or not len(self) else int(self.times[number])

    def times_of(self, numbers: Int64s) -> Int64s:
        """The stream time with each of these records; of rows that come from none, as there are none, that of the
        epoch's beginning.
        """
        return self.times[numbers] if len(self) else np.full(len(numbers), self.before)

    def reached(self, time: int) -> int:
        """The number of the first record with which stream time is as late as `time`; beyond the last, if none is."""
        return int(np.searchsorted(self.times, time))

    def topic(self, number: int) -> str:
        """The topic of a record."""
        return self.places[int(self._found[0][number])][0]

    def offset(self, number: int) -> int:
        """The offset of a record."""
        return int(self._found[1][number])

    @cached_property
    def _found(self) -> tuple[Int64s, Int64s]:
        topics, offsets = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for topic, (_, numbers, found) in enumerate(self.places):
            topics[numbers], offsets[numbers] = topic, found
        return topics, offsets


# The records that an epoch leaves out, read again from the log: for dead letters and for reports.


@dataclass(frozen=True)
class Again:
    """A record that a task took under a plan, with all its columns. `number`: in the order of taking, from 0."""

    number: int
    topic: str
    record: Record


def records_again(
    plan: TaskPlan, taken: TakenRecords, topics: Mapping[str, Topic], numbers: Sequence[int], log: RangeReader
) -> list[Again]:
    """The records with these numbers, in their order. Each range is gone through once. Raises errors of the log."""
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
    """The records at these positions, each with its position."""
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
