"""The records that an epoch leaves out, read again from the log: for dead letters and for reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...log.ranges import LogRange, RangeReader
from ...records.arrays import Int64s
from ...records.schema import topic_schema
from ...records.texts.record_json import Record, records_of
from ...tasks.plan import TaskPlan
from ...topology import Topic
from .partition_group import RecordId, TakenRecords


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
