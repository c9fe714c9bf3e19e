"""Records as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...readable_text import json_text
from ..ir.topology import Topic
from .arrays import Int64s
from .keys import normal_key
from .schema import HEADERS, is_bound, key_columns, value_columns
from .types import Kind

# Columns as JSON values. `docs/log.md` has the table of types.


def to_json(column: pa.Array) -> list[Any]:
    """The column's values as JSON values of Python; see the table of types."""
    data_type = column.type
    if pa.types.is_floating(data_type):
        return [_float_to_json(value) for value in _shortest(column)]
    if pa.types.is_decimal(data_type):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_binary(data_type):
        return [None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()]
    if pa.types.is_date(data_type):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_timestamp(data_type):
        text = pc.replace_substring(column.cast(pa.string()), " ", "T")
        return list(pc.replace_substring_regex(text, r"\.?0*(Z?)$", r"\1").to_pylist())
    if pa.types.is_list(data_type):
        return _lists(to_json(column.flatten()), pc.list_value_length(column).to_pylist())
    if pa.types.is_struct(data_type):
        return _structs_to_json(column)
    if pa.types.is_map(data_type):
        return _maps_to_json(column)
    if pa.types.is_string(data_type):
        return _texts_to_json(column)
    return list(column.to_pylist())


def _float_to_json(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shortest(column: pa.Array) -> list[float | None]:
    """Doubles unchanged. For floats, the double with the shortest text: 0.1 and not 0.10000000149011612."""
    if pa.types.is_float64(column.type):
        return list(column.to_pylist())
    return [None if text is None else float(text) for text in column.cast(pa.string()).to_pylist()]


def _texts_to_json(column: pa.Array) -> list[str | None]:
    """Texts. Bytes that are not UTF-8, which logs of earlier versions may have, become U+FFFD."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        values = column.cast(pa.binary()).to_pylist()
        return [None if value is None else value.decode(errors="replace") for value in values]


def _lists(items: list[Any], lengths: list[int | None]) -> list[Any]:
    """Lists of these lengths, cut from the items of all of them; None where the length is None."""
    bounds = pairwise(accumulate((length or 0 for length in lengths), initial=0))
    return [None if length is None else items[start:end] for length, (start, end) in zip(lengths, bounds, strict=True)]


def _structs_to_json(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    fields = [to_json(field) for field in column.flatten()]
    rows: Any = zip(*fields, strict=True) if fields else ([] for _ in column)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
    ]


def _maps_to_json(column: pa.Array) -> list[Any]:
    rows = column.to_pylist()
    pairs = list(chain.from_iterable(row or () for row in rows))
    keys = to_json(pa.array([key for key, _ in pairs], column.type.key_type))
    items = to_json(pa.array([item for _, item in pairs], column.type.item_type))
    lengths = [None if row is None else len(row) for row in rows]
    maps = _lists(list(zip(keys, items, strict=True)), lengths)
    if pa.types.is_string(column.type.key_type):
        return [None if row is None else dict(row) for row in maps]
    return [None if row is None else [{"key": key, "value": item} for key, item in row] for row in maps]


# The record form: one JSON object for each record, as output of `read` and as a seed. `ingest.record_form` reads it.

FIELDS = frozenset({"partition", "offset", "timestamp", "key", "value", "headers"})


@dataclass(frozen=True)
class Record:
    """A committed record. `timestamp`: ms. `key`, `value`: columns as JSON values.

    `key` is None for a null key, `value` for a tombstone. A windowed key has `window_start` and `window_end` in ms.
    `headers`: texts by name, or a list of pairs, see `records/headers.py`.
    """

    partition: int
    offset: int
    timestamp: int
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    headers: dict[str, str] | list[list[Any]]

    def to_json(self) -> str:
        """The record as one line, without a line end."""
        return json_text(asdict(self), allow_nan=False)


def records_of(topic: Topic, partition: int, offsets: Int64s, batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch with these offsets. `batch`: all columns of `schema.topic_schema`, headers optional."""
    keys = _objects({name: key_to_json(name, batch.column(f"key.{name}")) for name in key_columns(topic)}, batch)
    values = _objects({name: to_json(batch.column(f"value.{name}")) for name in value_columns(topic)}, batch)
    kinds = batch.column("_kind").to_pylist()
    timestamps = batch.column("_timestamp").to_pylist()
    headers: list[str | None] = [None] * batch.num_rows
    if HEADERS in batch.schema.names:
        headers = batch.column(HEADERS).to_pylist()
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
    """A key column as JSON values. Equal keys have equal values; window bounds are in ms."""
    if is_bound(name, column.type):
        return [None if micros is None else micros // 1000 for micros in column.cast(pa.int64()).to_pylist()]
    # Earlier versions wrote equal floats with different bytes.
    return to_json(normal_key(column))


def _objects(columns: dict[str, list[Any]], batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    if not columns:
        return iter([{} for _ in range(batch.num_rows)])
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def is_record(row: Mapping[str, Any], key: Mapping[str, pa.DataType], value: Mapping[str, pa.DataType]) -> bool:
    """Whether an object is a record in record form, and not a row by column names. `key`, `value`: the topic's columns.

    If columns have names of record fields, an object that may be either is a row: `{value: null}` for a column `value`
    is a null there. It is a record if it can be nothing else: with an `offset`, or with a `key` or `value` that is an
    object which the column of that name cannot hold.
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
