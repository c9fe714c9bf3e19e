"""Records as Arrow batches, for processors that take many at once.

A batch has the columns of key and value (a key column that shares its name with one of the value is `key.<name>`), and
of each record `_timestamp` (ms), `_headers` (JSON, or null) and `_kind`: 1, or 0 where the value is null.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ...python_functions.values import UnfitValueError
from ...records.arrays import Int64s, to_numpy
from ..batch_columns import physical_key
from ..rows import Rows
from .columns import Columns, column_of, refuse_others

META = {"_timestamp": pa.int64(), "_headers": pa.string(), "_kind": pa.int8()}
ROW = "_row"
"""The column of a result that says which record of the batch each one comes from."""


def batch_of(rows: Rows, start: int, end: int) -> pa.RecordBatch:
    """The rows from `start` to `end` as a batch."""
    headers = pa.nulls(len(rows), pa.string()) if rows.headers is None else rows.headers
    columns = {
        **rows.columns,
        "_timestamp": pa.array(rows.timestamp),
        "_headers": headers,
        "_kind": pa.array(rows.kind),
    }
    return pa.RecordBatch.from_pydict(columns).slice(start, end - start)


def rows_of_batch(batch: Columns, key: Mapping[str, pa.DataType], value: Mapping[str, pa.DataType], came: Rows) -> Rows:
    """The records that a processor has made of those that came. Raises UnfitValueError."""
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        raise UnfitValueError(f"`process_batch` returns an Arrow RecordBatch or Table, not {type(batch).__name__}")
    keys = {name: physical_key(name, dict(value)) for name in key}
    refuse_others(batch, [*keys.values(), *value, *META, ROW], "forward")
    source = _sources(batch, len(came))
    plain = came.take(source)
    meta = {name: column_of(batch, name, kind, "forward") for name, kind in META.items() if name in batch.schema.names}
    numbers = {name: meta[name] for name in ("_timestamp", "_kind") if name in meta}
    if any(column.null_count for column in numbers.values()):
        raise UnfitValueError("`_timestamp` and `_kind` of a batch cannot be null")
    timestamp = to_numpy(numbers["_timestamp"]) if "_timestamp" in numbers else plain.timestamp
    if len(timestamp) and int(timestamp.min()) < 0:
        raise UnfitValueError("a record cannot have a timestamp before 1970")
    kind = to_numpy(numbers["_kind"]) if "_kind" in numbers else np.ones(len(batch), np.int8)
    made = Rows(
        (*plain.path, _places(source)), kind, timestamp, plain.order, meta.get("_headers", plain.headers), {}, (), ()
    )
    return made.with_columns(
        {name: column_of(batch, keys[name], of, "forward") for name, of in key.items()},
        {name: column_of(batch, name, of, "forward") for name, of in value.items()},
    )


def _sources(batch: Columns, came: int) -> Int64s:
    """Which record each one comes from."""
    if ROW not in batch.schema.names:
        if len(batch) != came:
            raise UnfitValueError(
                f"a batch of {len(batch)} records was made of {came}: its column `{ROW}` has to say, by their numbers "
                "from 0, which record each one comes from"
            )
        return np.arange(came)
    column = column_of(batch, ROW, pa.int64(), "forward")
    found: Int64s = np.zeros(0, np.int64) if column.null_count else to_numpy(column)
    if len(found) != len(batch) or (np.diff(found) < 0).any() or (len(found) and not 0 <= found[0] <= found[-1] < came):
        raise UnfitValueError(f"`{ROW}` of a batch has numbers from 0 to {came - 1}, none below the one before it")
    return found


def _places(source: Int64s) -> Int64s:
    """The place of each among those of the same record."""
    begins = np.ones(len(source), np.bool_)
    begins[1:] = source[1:] != source[:-1]
    starts = np.maximum.accumulate(np.where(begins, np.arange(len(source)), 0))
    places: Int64s = np.arange(len(source)) - starts
    return places
