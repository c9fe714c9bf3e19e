"""Dead letters: records that a step could not process, in a topic of their own.

All dead letter topics have the same columns (`topology.dead_letter_topic`), so one topology can read several of them.
The columns of the record are those of another topic, so its key and value are the JSON that `headwater read` prints.
Its time is a column too: the timestamp of a dead letter is never before 1970, that of the record may be. The column is
null for a time after 9999, which no timestamp column can hold; the error message has it.
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
    """A record of `topic` that failed.

    `step`: `file:line`, empty if unknown. `order`: stream time of its task, ms.
    """

    topic: str
    record: Record
    step: str
    error: str
    order: int


def letters_table(topic: Topic, letters: Sequence[DeadLetter]) -> pa.Table:
    """Dead letters as rows of their topic."""
    columns = [
        [letter.topic for letter in letters],
        [letter.record.partition for letter in letters],
        [letter.record.offset for letter in letters],
        [_time(letter.record.timestamp) for letter in letters],
        [_json(letter.record.key) for letter in letters],
        [_json(letter.record.value) for letter in letters],
        [json.dumps(letter.record.headers, ensure_ascii=False) for letter in letters],
        [letter.step for letter in letters],
        [letter.error for letter in letters],
        [Kind.VALUE] * len(letters),
        [max(0, _timestamp(letter)) for letter in letters],
        [letter.order for letter in letters],
    ]
    schema = topic_schema(topic)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _timestamp(letter: DeadLetter) -> int:
    return letter.order if _time(letter.record.timestamp) is None else letter.record.timestamp


def _time(milliseconds: int) -> datetime | None:
    return None if milliseconds > LAST_TIMESTAMP else _EPOCH + timedelta(milliseconds=milliseconds)


def _json(columns: dict[str, object] | None) -> str | None:
    """Columns as JSON; None for a null key and for a tombstone."""
    return None if columns is None else json.dumps(columns, ensure_ascii=False, allow_nan=False)
