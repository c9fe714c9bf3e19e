"""The record form: one JSON object a record, the same whether `read` prints it or a seed is made of it.

How it is read is told in `ingest.record_form`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ...topology import Topic
from ..arrays import Int64s
from ..keys.encoding import normal_key
from ..kinds import Kind
from ..schema import HEADERS, WINDOW_COLUMNS, key_columns, value_columns
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
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


def records_of(topic: Topic, partition: int, offsets: Int64s, batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch, which stand at these offsets; it has all columns of `schema.topic_schema`."""
    # Logs of earlier versions have keys that are equal and look different.
    keys = _objects({name: normal_key(batch.column(f"key.{name}")) for name in key_columns(topic)}, batch.num_rows)
    values = _objects({name: batch.column(f"value.{name}") for name in value_columns(topic)}, batch.num_rows)
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


def _objects(columns: dict[str, pa.Array], rows: int) -> Iterator[dict[str, Any]]:
    found = [_to_ms(column) if name in WINDOW_COLUMNS else to_json(column) for name, column in columns.items()]
    if not found:
        return iter([{} for _ in range(rows)])
    return (dict(zip(columns, row, strict=True)) for row in zip(*found, strict=True))


def _to_ms(column: pa.Array) -> list[int | None]:
    return [None if micros is None else micros // 1000 for micros in column.cast(pa.int64()).to_pylist()]
