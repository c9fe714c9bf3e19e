"""Records that users name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import shortened
from ..engine.execution.order.origins import records_again
from ..engine.execution.order.partition_group import RecordId, TakenRecords
from ..engine.execution.source import Source, take
from ..ir.topology import Subtopology
from ..log.log import Log
from ..records.record_json import Record
from ..tasks.plan import TaskPlan
from .committed import Committed
from .committer import TopicRepartitionedError

# Records that a task takes under a plan, read again from the log, for reports and to be left out.


@dataclass(frozen=True)
class NamedRecord:
    """A record with its number in the order of taking, from 0, and its place. `json`: with long values shortened; empty
    of a record that is not told of.
    """

    number: int
    place: RecordId
    offset: int = -1
    json: str = ""


MOST_OF_A_VALUE = 200
"""The most characters of one text of a record in a report."""

MOST_ELEMENTS = 20


def named_records(
    part: Subtopology, task: TaskPlan, numbers: Sequence[int], log: Log, most: int | None = None
) -> list[NamedRecord]:
    """The records with these numbers, but for numbers that no record has. Of the first `most`, also what they hold.

    Raises errors of the log.
    """
    # Those that are left out are taken too, so numbers are the same whatever is left out.
    taken = taken_again(part, task, log)
    there = [number for number in numbers if number < len(taken)]
    topics = {topic.name: topic for topic in part.sources}
    told = {each.number: each.record for each in records_again(task, taken, topics, there[:most], log)}
    return [_named(number, taken.record(number), told.get(number)) for number in there]


def taken_count(part: Subtopology, task: TaskPlan, log: Log) -> int:
    """How many records a task takes under a plan, whatever their bytes."""
    return len(taken_again(part, task, log))


def taken_again(part: Subtopology, task: TaskPlan, log: Log) -> TakenRecords:
    """The records that a task takes under a plan, or more of them, without their columns. Raises errors of the log.

    More, as they have too few bytes without their columns for these to bound them.
    """
    task = replace(task, max_bytes=None)
    return take(task, [Source(topic, topic.name, ()) for topic in part.sources], log, refuse_times=False)[0]


def _named(number: int, place: RecordId, record: Record | None) -> NamedRecord:
    if record is None:
        return NamedRecord(number, place)
    return NamedRecord(number, place, record.offset, short_json(record))


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


# Topics whose records were put into other partitions since an application has read them: positions of that time are
# none in what is there now.


def repartitioned_since(committed: Committed) -> frozenset[str]:
    """The topics, as of the application's last claim."""
    fed = committed.states[committed.seeds].topics
    used = committed.own.topology.topics.items()
    return frozenset(
        name for name, each in used if each.writer is None and name in fed and fed[name].was_moved(each.since)
    )


def check_not_repartitioned(committed: Committed, *, only_read: bool = False) -> None:
    """Check that what an application has claimed still lies as it did then. `only_read`: only topics in which it has
    positions.

    Raises TopicRepartitionedError: ranges of now must not be read from positions of before.
    """
    for name in sorted(repartitioned_since(committed)):
        if only_read and not any(name in each.positions for each in committed.own.tasks.all()):
            continue
        now = committed.states[committed.seeds].topics[name]
        raise TopicRepartitionedError(committed.application, name, now.partitions, now.key)
