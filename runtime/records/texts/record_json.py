"""The record form: one JSON object a record, the same whether `read` prints it or a seed is made of it.

How it is read is told in `ingest.record_form`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ....readable_text import json_text
from ...topology import Topic
from ..arrays import Int64s
from ..keys.encoding import normal_key
from ..kinds import Kind
from ..schema import HEADERS, is_bound, key_columns, value_columns
from .json_values import to_json

FIELDS = frozenset({"partition", "offset", "timestamp", "key", "value", "headers"})


@dataclass(frozen=True)
class Record:
    """A committed record. `timestamp`: ms. `key`, `value`: columns in their JSON forms; None for a null key, a
    tombstone. A windowed key has `window_start` and `window_end` in ms.
    """

    partition: int
    offset: int
    timestamp: int
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    headers: dict[str, str]

    def to_json(self) -> str:
        """The record as one line, without its end."""
        return json_text(asdict(self), allow_nan=False)


def records_of(topic: Topic, partition: int, offsets: Int64s, batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch, which stand at these offsets; it has all columns of `schema.topic_schema`."""
    # Logs of earlier versions have keys that are equal and look different.
    keys = _objects({name: key_to_json(name, batch.column(f"key.{name}")) for name in key_columns(topic)}, batch)
    values = _objects({name: to_json(batch.column(f"value.{name}")) for name in value_columns(topic)}, batch)
    kinds = batch.column("_kind").to_pylist()
    timestamps = batch.column("_timestamp").to_pylist()
    some = HEADERS in batch.schema.names
    headers: list[str | None] = batch.column(HEADERS).to_pylist() if some else [None] * batch.num_rows
    for row, (offset, key, value) in enumerate(zip(offsets.tolist(), keys, values, strict=True)):
        yield Record(
            partition=partition,
            offset=offset,
            timestamp=timestamps[row],
            key=None if all(column is None for column in key.values()) else key,
            value=None if kinds[row] == Kind.TOMBSTONE else value,
            headers=json.loads(headers[row] or "{}"),
        )


def key_to_json(name: str, column: pa.Array) -> list[Any]:
    """A column of keys in its JSON form. Keys that are equal look the same; bounds of windows are in ms."""
    if is_bound(name, column.type):
        return [None if micros is None else micros // 1000 for micros in column.cast(pa.int64()).to_pylist()]
    return to_json(normal_key(column))


def _objects(columns: dict[str, list[Any]], batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    if not columns:
        return iter([{} for _ in range(batch.num_rows)])
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def is_record(row: Mapping[str, Any], key: Mapping[str, pa.DataType], value: Mapping[str, pa.DataType]) -> bool:
    """Whether an object is a record in record form, and not a row that names columns. `key`, `value`: the columns.

    Where a column has the name of one of a record's fields, a row that may be either is a row: `{value: null}` of a
    column `value` is a null there. What only a record can be is one: with an `offset`, or with a `key` or `value` that
    is an object and none that the column of that name can hold.
    """
    roles = {"key": key, "value": value}
    if not row.keys() <= FIELDS or not all(isinstance(row.get(role), Mapping | None) for role in roles):
        return False
    objects = [role for role in roles if isinstance(row.get(role), Mapping)]
    for role in objects:
        data_type = key.get(role, value.get(role))
        if data_type is None or not (pa.types.is_struct(data_type) or pa.types.is_map(data_type)):
            return True
    if objects:
        return all(row[role] and row[role].keys() <= roles[role].keys() for role in objects)
    return "offset" in row.keys() - key.keys() - value.keys() or (key.keys() | value.keys()).isdisjoint(row)
