"""Records of a task for reports, and topics that were repartitioned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import shortened
from ..engine.execution.order.origins import records_again
from ..engine.execution.order.partition_group import RecordId, TakenRecords
from ..engine.execution.source import take
from ..engine.operators.topics import Source
from ..ir.topology import Subtopology
from ..log.ranges import RangeReader
from ..records.record_json import Record
from ..tasks.plan import TaskPlan
from .committed import Committed
from .committer import TopicRepartitionedError


@dataclass(frozen=True)
class NamedRecord:
    """A record of a task. `number`: in the order of processing, from 0. `place`: topic, lane and position.

    `json`: with shortened values; empty for records that are not reported.
    """

    number: int
    place: RecordId
    offset: int = -1
    json: str = ""


MOST_OF_A_VALUE = 200
"""The greatest number of characters of a text of a record in a report."""

MOST_ELEMENTS = 20


def named_records(
    part: Subtopology, task: TaskPlan, numbers: Sequence[int], log: RangeReader, most: int | None = None
) -> list[NamedRecord]:
    """The records with these numbers, as far as they exist. The first `most` have their content too.

    Raises errors of the log.
    """
    # Skipped records are read too, so the numbers do not depend on them.
    taken = taken_again(part, task, log)
    existing = [number for number in numbers if number < len(taken)]
    topics = {topic.name: topic for topic in part.sources}
    contents = {record.number: record.record for record in records_again(task, taken, topics, existing[:most], log)}
    return [_named(number, taken.record(number), contents.get(number)) for number in existing]


def taken_count(part: Subtopology, task: TaskPlan, log: RangeReader) -> int:
    """The number of records that a task reads by a plan, without its limit of bytes."""
    return len(taken_again(part, task, log))


def taken_again(part: Subtopology, task: TaskPlan, log: RangeReader) -> TakenRecords:
    """The records that a task reads by a plan, without their columns. Raises errors of the log.

    There may be more than under the plan, as the limit of bytes does not apply without columns.
    """
    task = replace(task, max_bytes=None)
    return take(task, [Source(topic, topic.name, ()) for topic in part.sources], log, reject_times=False)[0]


def _named(number: int, place: RecordId, record: Record | None) -> NamedRecord:
    if record is None:
        return NamedRecord(number, place)
    return NamedRecord(number, place, record.offset, short_json(record))


def short_json(record: Record) -> str:
    """The record as one line of JSON, with shortened texts and lists."""
    return json.dumps(_short(asdict(record)), ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    match value:
        case str():
            return shortened(value, MOST_OF_A_VALUE)
        case dict():
            return {key: _short(item) for key, item in value.items()}
        case list() | tuple():
            more = len(value) - MOST_ELEMENTS
            return [_short(item) for item in value[:MOST_ELEMENTS]] + ([f"... and {more:,} more"] if more > 0 else [])
    return value


# Topics that were repartitioned since an application has read them: its positions are not valid any more.


def repartitioned_since(committed: Committed) -> frozenset[str]:
    """Topics that were repartitioned since the application's last claim."""
    external = committed.states[committed.seeds].topics
    used = committed.own.topology.topics.items()
    return frozenset(
        name
        for name, topic in used
        if topic.writer is None and name in external and external[name].was_moved(topic.since)
    )


def check_not_repartitioned(committed: Committed, *, only_read: bool = False) -> None:
    """Check that no source was repartitioned since the claim. `only_read`: only topics with positions.

    Raises TopicRepartitionedError: present ranges must not be read from earlier positions.
    """
    for name in sorted(repartitioned_since(committed)):
        if only_read and not any(name in task.positions for task in committed.own.tasks.all()):
            continue
        now = committed.states[committed.seeds].topics[name]
        raise TopicRepartitionedError(committed.application, name, now.partitions, now.key)
