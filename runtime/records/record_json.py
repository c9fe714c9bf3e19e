"""The record form: one JSON object a record, the same whether `read` prints it or a seed is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..ingest.incoming import Incoming, convert, event_times, missing_time, valid_times
from ..operators.rows import Int64s, Kind
from ..topology import Topic
from .keys import normal_key
from .schema import HEADERS, WINDOW_COLUMNS, key_columns, topic_schema, value_columns
from .values import BadValueError, from_json, located, texts, to_json

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


def records_of(topic: Topic, partition: int, offset: int, batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch with all columns of the topic's segments, whose first has this offset."""
    # Logs of earlier versions have keys that are equal and look different.
    keys = _objects({name: normal_key(batch.column(f"key.{name}")) for name in key_columns(topic)}, batch.num_rows)
    values = _objects({name: batch.column(f"value.{name}") for name in value_columns(topic)}, batch.num_rows)
    kinds = batch.column("_kind").to_pylist()
    timestamps = batch.column("_timestamp").to_pylist()
    some = HEADERS in batch.schema.names
    headers: list[str | None] = batch.column(HEADERS).to_pylist() if some else [None] * batch.num_rows
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        yield Record(
            partition=partition,
            offset=offset + row,
            timestamp=timestamps[row],
            key=None if all(column is None for column in key.values()) else key,
            value=None if kinds[row] == Kind.TOMBSTONE else value,
            headers=json.loads(headers[row] or "{}"),
        )


def parse_records(
    topic: Topic,
    rows: Sequence[Mapping[str, Any]],
    clock: int,
    values: Callable[[Sequence[Any], pa.DataType], pa.Array] = from_json,
) -> Incoming:
    """Objects in record form as records of a topic. `values` makes a column of its values.

    Only `value` must be there. `timestamp` is otherwise as in other seeds, offsets are ignored. Raises BadValueError.
    """
    for row, record in enumerate(rows):
        _check_fields(row, record)
    columns = _columns(topic.name, rows, "key", key_columns(topic), values)
    columns |= _columns(topic.name, rows, "value", value_columns(topic), values)
    times = _timestamps(topic, rows, columns, clock)
    kinds = [int(Kind.TOMBSTONE if record["value"] is None else Kind.VALUE) for record in rows]
    headers = [_headers(row, record.get("headers")) for row, record in enumerate(rows)]
    some = any(header is not None for header in headers)
    table = pa.table(
        [
            *columns.values(),
            pa.array(kinds, pa.int8()),
            times,
            times,
            *([convert("headers", headers, pa.string(), lambda column, _: texts(column))] if some else []),
        ],
        schema=topic_schema(topic, headers=some),
    )
    return Incoming(table, _partitions(topic, rows))


def _objects(columns: dict[str, pa.Array], rows: int) -> Iterator[dict[str, Any]]:
    found = [_to_ms(column) if name in WINDOW_COLUMNS else to_json(column) for name, column in columns.items()]
    if not found:
        return iter([{} for _ in range(rows)])
    return (dict(zip(columns, row, strict=True)) for row in zip(*found, strict=True))


def _to_ms(column: pa.Array) -> list[int | None]:
    return [None if micros is None else micros // 1000 for micros in column.cast(pa.int64()).to_pylist()]


def _from_ms(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    return located(
        from_json(values, pa.int64()), data_type, lambda some, to: some.cast(pa.timestamp("ms", to.tz)).cast(to)
    )


def _check_fields(row: int, record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping):
        raise BadValueError(row, "not an object")
    unknown = sorted(record.keys() - FIELDS)
    if unknown:
        raise BadValueError(row, f"a record has no {', '.join(map(str, unknown))}")
    if "value" not in record:
        raise BadValueError(row, "there is no value (null deletes)")
    for role in ("key", "value"):
        if not isinstance(record.get(role), Mapping | None):
            raise BadValueError(row, "neither an object nor null", role)


def _columns(
    topic: str,
    rows: Sequence[Mapping[str, Any]],
    role: str,
    types: Mapping[str, pa.DataType],
    values: Callable[[Sequence[Any], pa.DataType], pa.Array],
) -> dict[str, pa.Array]:
    objects = [record.get(role) or {} for record in rows]
    for row, found in enumerate(objects):
        unknown = sorted(found.keys() - types.keys())
        if unknown:
            raise BadValueError(row, f"the {role} of {topic} has no column {', '.join(map(str, unknown))}", role)
    return {
        f"{role}.{name}": convert(
            f"{role}.{name}",
            [found.get(name) for found in objects],
            data_type,
            _from_ms if role == "key" and name in WINDOW_COLUMNS else values,
        )
        for name, data_type in types.items()
    }


def _timestamps(
    topic: Topic, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, pa.Array], clock: int
) -> pa.Array:
    given = convert("timestamp", [record.get("timestamp") for record in rows], pa.int64(), from_json)
    if not given.null_count:
        return valid_times(given, "timestamp")
    if topic.timestamp is not None:
        missing = given.is_null().to_pylist()
        absent = np.flatnonzero(missing)
        some = {name: column.take(pa.array(absent)) for name, column in columns.items()}
        try:
            times = event_times(topic, some, len(absent), clock)
        except BadValueError as error:
            row = int(absent[error.row])
            found = BadValueError(row, error.cause, error.column)
            raise missing_time(topic, found, rows[row]["value"]) from error
        given = _fill(given, absent, times)
    return valid_times(given.fill_null(clock), "timestamp")


def _fill(column: pa.Array, rows: Int64s, values: pa.Array) -> pa.Array:
    everywhere = column.fill_null(0).to_numpy(zero_copy_only=False).copy()
    everywhere[rows] = values.to_numpy()
    return pa.array(everywhere)


def _headers(row: int, headers: Any) -> str | None:
    if headers is None or headers == {}:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        raise BadValueError(row, "not an object of texts", "headers")
    return json.dumps(headers, ensure_ascii=False, separators=(",", ":"))


def _partitions(topic: Topic, rows: Sequence[Mapping[str, Any]]) -> Int64s:
    column = convert("partition", [record.get("partition") for record in rows], pa.int32(), from_json)
    for row, partition in enumerate(column.to_pylist()):
        if partition is not None and not 0 <= partition < topic.partitions:
            cause = f"{topic.name} has partitions 0 to {topic.partitions - 1}, no {partition}"
            raise BadValueError(row, cause, "partition")
    return np.array(column.fill_null(-1), np.int64)
