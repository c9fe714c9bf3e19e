"""The form of a dead letter: a record that a step could not process, kept as it came in a topic of its own.

All topics of dead letters have the same columns (`topology.dead_letter_topic`), so that one topology can read several.
Key and value are the JSON that `headwater read` shows, because the columns of the record are those of another topic. A
record's time is a column too: the time of a dead letter is never before 1970, that of its record may be. A record from
after 9999 has none there, as no column has one: its error tells it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from ..ir.topology import Topic
from .record_json import Record
from .schema import LAST_TIMESTAMP, topic_schema
from .types import Kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DeadLetter:
    """A record of `topic` that failed at `step` (`file:line`, empty if unknown). `order`: stream time of its task."""

    topic: str
    record: Record
    step: str
    error: str
    order: int


def letters_table(topic: Topic, letters: Sequence[DeadLetter]) -> pa.Table:
    """The letters in the columns of their topic."""
    columns = [
        [each.topic for each in letters],
        [each.record.partition for each in letters],
        [each.record.offset for each in letters],
        [_time(each.record.timestamp) for each in letters],
        [_json(each.record.key) for each in letters],
        [_json(each.record.value) for each in letters],
        [json.dumps(each.record.headers, ensure_ascii=False) for each in letters],
        [each.step for each in letters],
        [each.error for each in letters],
        [Kind.VALUE] * len(letters),
        [max(0, each.order if _time(each.record.timestamp) is None else each.record.timestamp) for each in letters],
        [each.order for each in letters],
    ]
    schema = topic_schema(topic)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _time(milliseconds: int) -> datetime | None:
    return None if milliseconds > LAST_TIMESTAMP else _EPOCH + timedelta(milliseconds=milliseconds)


def _json(columns: dict[str, object] | None) -> str | None:
    """None for a null key and for a tombstone."""
    return None if columns is None else json.dumps(columns, ensure_ascii=False, allow_nan=False)
