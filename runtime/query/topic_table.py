"""A topic's records as an Arrow table of typed columns, made of whole batches and not of Python objects.

Columns: `partition`, `offset` and `timestamp`, those of the key and of the value as they are declared, then `tombstone`
and `headers` (null where a record has none). For names that meet see `types.column_names`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Int64s
from ..records.kinds import Kind
from ..records.schema import HEADERS, key_columns, value_columns
from ..records.types import TIMESTAMP, column_names
from ..topology import Topic
from .topics import TopicReader

_HEADERS = pa.map_(pa.string(), pa.string())
_BEFORE = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": TIMESTAMP}
_AFTER = {"tombstone": pa.bool_(), "headers": _HEADERS}


def table_schema(topic: Topic) -> pa.Schema:
    """The columns of the table."""
    key, value = key_columns(topic), value_columns(topic)
    keys, values = table_names(topic)
    columns = {keys[name]: kind for name, kind in key.items()} | {values[name]: kind for name, kind in value.items()}
    return pa.schema(list((_BEFORE | columns | _AFTER).items()))


def table_names(topic: Topic) -> tuple[dict[str, str], dict[str, str]]:
    """What the table calls the columns of the key and of the value."""
    return column_names([*_BEFORE, *_AFTER], key_columns(topic), value_columns(topic))


def read_table(topic: Topic, reader: TopicReader, limit: int | None = None) -> pa.Table:
    """What `reader.read(limit)` would give, in the same order; its next read goes on behind that."""
    schema = table_schema(topic)
    pieces: list[pa.Table] = []
    timestamps: defaultdict[int, list[Int64s]] = defaultdict(list)
    for partition, offsets, batch in reader.batches(limit):
        pieces.append(_table(topic, schema, partition, offsets, batch))
        timestamps[partition].append(batch.column("_timestamp").to_numpy())
    table = pa.concat_tables([schema.empty_table(), *pieces])
    if len(timestamps) > 1:
        table = table.take(pa.array(_order(timestamps.values())[:limit]))
    reader.advance(_ends(table))
    return table


def _table(topic: Topic, schema: pa.Schema, partition: int, offsets: Int64s, batch: pa.RecordBatch) -> pa.Table:
    rows = batch.num_rows
    columns = [
        np.full(rows, partition, np.int32),
        offsets,
        batch.column("_timestamp").cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP),
        *(batch.column(f"key.{name}") for name in key_columns(topic)),
        *(batch.column(f"value.{name}") for name in value_columns(topic)),
        pc.equal(batch.column("_kind"), int(Kind.TOMBSTONE)),
        _headers(batch.column(HEADERS)),
    ]
    return pa.table(columns, schema=schema)


def _headers(column: pa.Array) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column), _HEADERS)
    return pa.array([None if text is None else list(json.loads(text).items()) for text in column.to_pylist()], _HEADERS)


def _order(timestamps: Iterable[Sequence[Int64s]]) -> Int64s:
    """Rows of all partitions, one behind the other, as a merge by the partitions' next timestamps takes them.

    A record waits for those before it in its partition, so it comes where the greatest timestamp up to it does.
    """
    turns = [np.maximum.accumulate(np.concatenate(own)) for own in timestamps]
    return np.argsort(np.concatenate(turns), kind="stable")


def _ends(table: pa.Table) -> dict[int, int]:
    """The offsets behind the table's records, by partition."""
    last = table.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    return {each["partition"]: each["offset_max"] + 1 for each in last}
