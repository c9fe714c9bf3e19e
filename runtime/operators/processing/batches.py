"""Records as Arrow batches, for processors that take many at once.

A batch has the columns of key and value (a key column that shares its name with one of the value is `key.<name>`), and
of each record `_timestamp` (ms), `_headers` (JSON, or null) and `_kind`: 1, or 0 where the value is null.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...dataclass_json import parsed
from ...python_functions.values import UnfitValueError
from ...records.arrays import Bools, Int8s, Int64s, to_numpy
from ...records.kinds import Kind
from ..batch_columns import physical_key
from ..rows import Rows
from .columns import Columns, column_of, refuse_others, times_of
from .record import header_text

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
    given = batch.schema.names
    timestamp = times_of(batch, "_timestamp", "forward") if "_timestamp" in given else plain.timestamp
    kind = _kinds(batch) if "_kind" in given else np.full(len(batch), int(Kind.VALUE), np.int8)
    headers = _headers(batch) if "_headers" in given else plain.headers
    made = Rows((*plain.path, _places(source)), kind, timestamp, plain.order, headers, {}, (), ())
    return made.with_columns(
        {name: column_of(batch, keys[name], of, "forward") for name, of in key.items()},
        {name: _of_values(column_of(batch, name, of, "forward"), kind == Kind.VALUE) for name, of in value.items()},
    )


def _kinds(batch: Columns) -> Int8s:
    """What each record is: a value, or a null value."""
    column = column_of(batch, "_kind", META["_kind"], "forward")
    known = pa.array([int(Kind.TOMBSTONE), int(Kind.VALUE)], META["_kind"])
    wrong = np.flatnonzero(~to_numpy(pc.is_in(column, known)))
    if len(wrong):
        found = column[int(wrong[0])].as_py()
        raise UnfitValueError(f"row {wrong[0]}: `_kind` is 1, or 0 where the value is null, not {found}")
    kinds: Int8s = to_numpy(column)
    return kinds


def _headers(batch: Columns) -> pa.Array:
    """The headers of each record, as topics have them. Equal texts are looked at once."""
    found = column_of(batch, "_headers", META["_headers"], "forward").dictionary_encode()
    texts = []
    for number, text in enumerate(found.dictionary.to_pylist()):
        try:
            texts.append(_header(text))
        except ValueError:
            row = pc.index(found.indices, number).as_py()
            raise UnfitValueError(
                f'row {row}: `_headers` is null or JSON with texts by name, such as {{"source": "web"}}, '
                f"not {text!r:.100}"
            ) from None
    return pa.DictionaryArray.from_arrays(found.indices, pa.array(texts, pa.string())).dictionary_decode()


def _header(text: str) -> str | None:
    """Headers that are given as JSON. Raises ValueError."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    header_text(found)
    return text if found else None


def _of_values(column: pa.Array, there: Bools) -> pa.Array:
    """A column of the value, null where the record's value is null."""
    return column if there.all() else column.take(pa.array(np.arange(len(there)), mask=~there))


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
