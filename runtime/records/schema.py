"""The columns of a topic's records in a log, derived from its declaration."""

from __future__ import annotations

import pyarrow as pa

from ..topology import Topic
from .arrays import Bools, Int64s
from .types import TIMESTAMP, parse_columns

WINDOW_COLUMNS = ("window_start", "window_end")
"""The key columns that a windowed topic has besides those it declares."""

HEADERS = "_headers"
"""The column of a record's headers, as JSON; absent where no record of a file has any."""

LAST_TIMESTAMP = 253_402_300_799_999
"""The last ms of the year 9999. A later time is in another unit, and would soon overflow microseconds."""

CHANGELOG = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("_timestamp", pa.int64())])
"""A store's changelog: a null value deletes the key. A changelog's partitions have one lane each, their own task's."""


def no_timestamps(times: Int64s) -> Bools:
    """Which of these no record has as its timestamp: as in Kafka those before 1970, and those after 9999."""
    return (times < 0) | (times > LAST_TIMESTAMP)


def no_timestamp(time: object) -> str | None:
    """What is wrong with the timestamp of a record; None if nothing is."""
    if type(time) is not int:
        return "is no whole number of ms since 1970"
    if time < 0:
        return "lies before 1970"
    return "lies after 9999, in milliseconds" if time > LAST_TIMESTAMP else None


def is_bound(column: str, data_type: pa.DataType) -> bool:
    """Whether a column of a key is a bound of its window, which people see in ms."""
    return column in WINDOW_COLUMNS and data_type == TIMESTAMP


def may_be_missing(column: str) -> bool:
    """Whether records may lack a column, which is null then: one of the value, added to the topic later, or headers."""
    return column == HEADERS or column.startswith("value.")


def changelog_topic(application: str, store: str) -> str:
    """The changelog topic of a store, named as Kafka Streams names it."""
    return f"{application}-{store}-changelog"


def key_columns(topic: Topic) -> dict[str, pa.DataType]:
    """The key's columns by name, those of the window last."""
    return parse_columns(topic.key) | (dict.fromkeys(WINDOW_COLUMNS, TIMESTAMP) if topic.windowed else {})


def value_columns(topic: Topic) -> dict[str, pa.DataType]:
    """The value's columns by name."""
    return parse_columns(topic.value)


def topic_schema(topic: Topic, headers: bool = False) -> pa.Schema:
    """The schema of the topic's records: `key.<column>`, `value.<column>`, then what each record has.

    `_kind`: see `Kind`; a record whose value is null has null value columns too. `_timestamp`: ms. `_order`: stream
    time of the writing task when it made the record, ms; in a topic that is fed from outside, the timestamp.
    """
    fields = [pa.field(f"key.{name}", data_type) for name, data_type in key_columns(topic).items()]
    fields += [pa.field(f"value.{name}", data_type) for name, data_type in value_columns(topic).items()]
    fields += [pa.field("_kind", pa.int8()), pa.field("_timestamp", pa.int64()), pa.field("_order", pa.int64())]
    if headers:
        fields.append(pa.field(HEADERS, pa.string()))
    return pa.schema(fields)
