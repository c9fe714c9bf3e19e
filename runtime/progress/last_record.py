"""The last record that a task takes under a plan, read again from the log for an error report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import shortened
from ..log.log import Log
from ..operators.order.partition_group import read_again
from ..operators.source import Source, take
from ..records.record_json import Record, records_of
from ..tasks.plan import TaskPlan
from ..topology import Subtopology


@dataclass(frozen=True)
class TakenRecord:
    """The record's place in the log, the record as JSON with long values shortened, and its number in the epoch, from
    1.
    """

    topic: str
    partition: int
    offset: int
    json: str
    number: int


MOST_OF_A_VALUE = 200
"""The most characters of one text of a record in a report."""

MOST_ELEMENTS = 20


def last_record(part: Subtopology, task: TaskPlan, log: Log) -> TakenRecord | None:
    """The last record that the plan takes; None if it takes none."""
    sources = [Source(topic, topic.name) for topic in part.sources]
    taken, _ = take(task, sources, log)
    if not len(taken):
        return None
    found = taken.record(len(taken) - 1)
    topic = next(topic for topic in part.sources if topic.name == found.topic)
    again = read_again(task, found, log)
    offset = int(again.offsets[0])
    (record,) = records_of(topic, found.partition, again.offsets, again.records)
    return TakenRecord(found.topic, found.partition, offset, short_json(record), len(taken))


def short_json(record: Record) -> str:
    """The record as one line of JSON, in which long texts and lists are shortened."""
    return json.dumps(_short(asdict(record)), ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    match value:
        case str():
            return shortened(value, MOST_OF_A_VALUE)
        case dict():
            return {key: _short(each) for key, each in value.items()}
        case list() | tuple():
            more = len(value) - MOST_ELEMENTS
            return [_short(each) for each in value[:MOST_ELEMENTS]] + ([f"... and {more:,} more"] if more > 0 else [])
    return value
