"""Incoming records, and the locations of errors in them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import IO, Any, AnyStr

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..ir.topology import Topic
from ..log.errors import SeedError
from ..records.arrays import BadValueError, Int64s, cast_with_row, to_numpy, type_mismatch, valid_text
from ..records.schema import (
    invalid_timestamps,
    key_columns,
    times_of_column,
    timestamp_error,
    topic_schema,
    value_columns,
)
from ..records.types import Kind
from ..records.values import cast_text, from_json, in_years, narrow, nested, parse_text

# Converts incoming records to the columns of a topic. Tables and Python rows are matched by column names.


@dataclass(frozen=True)
class Incoming:
    """Records of one topic, in order. `table` has the columns of `topic_schema`.

    `partitions`: the partition of each record, -1 for the one of its key; None: all by key.
    """

    table: pa.Table
    partitions: Int64s | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, part: slice) -> Incoming:
        """A slice of the records, without a copy."""
        start, stop, _ = part.indices(len(self))
        partitions = None if self.partitions is None else self.partitions[start:stop]
        return Incoming(self.table.slice(start, stop - start), partitions)


def join(pieces: Sequence[Incoming]) -> Incoming:
    """Concatenates pieces of one topic. Headers are null for a piece without headers."""
    table = pa.concat_tables([piece.table for piece in pieces], promote_options="default")
    if all(piece.partitions is None for piece in pieces):
        return Incoming(table)
    partitions = [
        np.full(len(piece), -1, np.int64) if piece.partitions is None else piece.partitions for piece in pieces
    ]
    return Incoming(table, np.concatenate(partitions))


class SourceColumnsError(Exception):
    """Rows without a column of the topic, or with two columns of its name."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def source_columns(topic: Topic, found: Collection[str]) -> dict[str, tuple[str, pa.DataType]]:
    """For each column of the topic's records (`key.a`, `value.b`): the name of the input column, and the type.

    `found`: names of the input columns. The column `key.a` or `value.b` is used, or else `a` or `b`. Other columns are
    ignored. Raises SourceColumnsError.
    """
    roles = (("key", key_columns(topic)), ("value", value_columns(topic)))
    wanted = [(role, name, data_type) for role, columns in roles for name, data_type in columns.items()]
    missing = [name for role, name, _ in wanted if name not in found and f"{role}.{name}" not in found]
    if missing:
        raise SourceColumnsError(f"no column {', '.join(missing)}; there is {', '.join(found) or 'none'}")
    sources = {
        f"{role}.{name}": (f"{role}.{name}" if f"{role}.{name}" in found else name, data_type)
        for role, name, data_type in wanted
    }
    counts = Counter(found)
    twice = dict.fromkeys(source for source, _ in sources.values() if counts[source] > 1)
    if twice:
        raise SourceColumnsError(f"more than one column {', '.join(twice)}")
    return sources


def from_table(topic: Topic, table: pa.Table, clock: int) -> Incoming:
    """The rows of a table as records with a value. `clock`: the timestamp (ms) if the topic has no column for it.

    Raises SourceColumnsError, BadValueError.
    """
    columns = source_columns(topic, table.column_names)
    return build(
        topic,
        {name: convert(source, table[source], data_type, cast) for name, (source, data_type) in columns.items()},
        table.num_rows,
        clock,
    )


def build(topic: Topic, columns: Mapping[str, pa.Array], rows: int, clock: int) -> Incoming:
    """Records with a value, from the columns of their keys and values. Raises BadValueError."""
    times = event_times(topic, columns, rows, clock)
    kinds = pa.array(np.full(rows, int(Kind.VALUE), np.int8))
    return Incoming(pa.table([*columns.values(), kinds, times, times], schema=topic_schema(topic)))


def event_times(topic: Topic, columns: Mapping[str, pa.Array], rows: int, clock: int) -> pa.Array:
    """The records' timestamps in ms: from the topic's timestamp column, or else `clock`. Raises BadValueError."""
    if topic.timestamp is None:
        return pa.array(np.full(rows, clock, np.int64))
    return valid_times(times_of_column(columns[f"value.{topic.timestamp}"]), topic.timestamp)


def valid_times(times: pa.Array, column: str | None) -> pa.Array:
    """Timestamps as int64.

    Raises BadValueError for a null, for a time after 9999 and, as in Kafka, for a time before 1970.
    """
    times = times.cast(pa.int64())
    bad = to_numpy(times.is_null()) if times.null_count else invalid_timestamps(to_numpy(times))
    if bad.any():
        row = int(np.argmax(bad))
        time = times[row].as_py()
        cause = "is null" if time is None else timestamp_error(time)
        raise BadValueError(row, f"the timestamp {cause}", column)
    return times


def missing_time(topic: Topic, error: BadValueError, columns: Mapping[str, Any] | None) -> BadValueError:
    """The error to show: a missing timestamp column is reported as missing, not as null.

    `columns`: the given columns, None for a tombstone.
    """
    column = topic.timestamp
    if (
        error.column != column
        or column is None
        or (columns is not None and {column, f"value.{column}"} & columns.keys())
    ):
        return error
    if columns is None:
        return BadValueError(error.row, "a tombstone has no value with its timestamp: give `timestamp`")
    names = ", ".join(map(str, columns)) or "none"
    return BadValueError(error.row, f"the timestamp comes from this column, which is missing; there is {names}", column)


def convert(
    name: str,
    values: Any,
    data_type: pa.DataType,
    how: Callable[[Any, pa.DataType], pa.Array],
) -> pa.Array:
    """`how(values, data_type)`, with the column's name in its BadValueError."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    try:
        return how(values, data_type)
    except BadValueError as error:
        raise BadValueError(error.row, error.cause, name) from error


def cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """A column cast to `data_type`, without loss except for fractions of a microsecond. Text is parsed.

    Raises BadValueError.
    """
    if column.type == data_type:
        return valid_text(column)
    if pa.types.is_dictionary(column.type):
        return cast(column.dictionary_decode(), data_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return parse_text(column.cast(pa.string()), data_type)
    if pa.types.is_floating(column.type) and not pa.types.is_floating(data_type):
        # pandas represents integers with nulls as floats with NaN.
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return cast_with_row(column, data_type, _cast)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(data_type) and pa.types.is_integer(column.type):
        raise pa.ArrowInvalid("a number has no unit of time")
    if pa.types.is_boolean(column.type) != pa.types.is_boolean(data_type) and not pa.types.is_null(column.type):
        raise pa.ArrowInvalid("Arrow would take true for 1, and every number but 0 for true")
    times = pa.types.is_timestamp(column.type) and pa.types.is_date(data_type)
    if times and not pc.all(pc.equal(column, pc.floor_temporal(column, unit="day"))).as_py():
        raise pa.ArrowInvalid("a date has no time of day")
    if pa.types.is_float32(data_type):
        return narrow(column)
    if pa.types.is_decimal(data_type):
        # Through text: Arrow rounds floats, rejects integers whose type has more digits than the decimal, and makes
        # others of decimals with too many.
        return cast_text(pc.cast(column, pa.string()), data_type)
    exact = not (pa.types.is_floating(data_type) and pa.types.is_integer(column.type))
    options = pc.CastOptions(data_type, allow_time_truncate=True) if exact else pc.CastOptions.unsafe(data_type)
    return in_years(pc.cast(column, options=options))


def from_python(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Python values, or their JSON forms, as a column. Raises BadValueError.

    Values are those of `from_json`; also `datetime` and `date` for times, `bytes` for binary columns, and NaN and
    infinity for floats. Scalars of NumPy and Arrow are unwrapped. None and the missing values of pandas (`NaT`, `NA`)
    are null; a float NaN is not.
    """
    plain = [value if type(value) in _PLAIN else _plain(row, value, data_type) for row, value in enumerate(values)]
    if pa.types.is_nested(data_type):
        return nested([_in_json_form(value, data_type) for value in plain], data_type, from_python)
    if pa.types.is_floating(data_type):
        plain = [_NOT_FINITE.get(repr(value), value) if type(value) is float else value for value in plain]
    else:
        for row, value in enumerate(plain):
            if type(value) is float and math.isnan(value):
                raise BadValueError(row, f"{type_mismatch(value, data_type)}; where a value is missing, give None")
    if not pa.types.is_temporal(data_type) and not pa.types.is_binary(data_type):
        return from_json(plain, data_type)
    typed = [None if type(value) in _JSON else _typed(row, value, data_type) for row, value in enumerate(plain)]
    others = [None if converted is not None else value for converted, value in zip(typed, plain, strict=True)]
    return pc.coalesce(pa.array(typed, data_type), from_json(others, data_type))


_JSON = frozenset({type(None), bool, int, float, str, Decimal, list, dict})
"""Classes of the values that `from_json` knows."""

_PLAIN = _JSON | {dt.datetime, dt.date, bytes, tuple, set}

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Floats in their JSON form, by their `repr`: JSON has them as texts only."""


def _plain(row: int, value: Any, data_type: pa.DataType) -> Any:
    """A scalar of a library, or of a subclass, as Python's own."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if type(value).__name__ in ("NaTType", "NAType") and type(value).__module__.startswith("pandas."):
        return None
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        value = value.astype("datetime64[us]").item()  # of nanoseconds `item` makes a number
        if not isinstance(value, dt.datetime):
            raise BadValueError(row, f"{type_mismatch(value, data_type)}: outside of the years 1 to 9999")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def _typed(row: int, value: Any, data_type: pa.DataType) -> Any:
    """A time or bytes, as Arrow takes it exactly. Raises BadValueError."""
    if pa.types.is_binary(data_type) and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if pa.types.is_temporal(data_type) and isinstance(value, dt.date):
        return _time(row, value, data_type)
    raise BadValueError(row, type_mismatch(value, data_type))


def _time(row: int, value: dt.date, data_type: pa.DataType) -> dt.date:
    """A time in UTC without a zone, or a date. A date has no time of day, and a time of a date is midnight."""
    if not isinstance(value, dt.datetime):
        return value if pa.types.is_date(data_type) else dt.datetime.combine(value, dt.time())
    try:
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise BadValueError(row, f"{type_mismatch(value, data_type)}: outside of the years 1 to 9999") from error
    if not pa.types.is_date(data_type):
        return utc
    if utc.time() != dt.time():
        raise BadValueError(row, type_mismatch(value, data_type))
    return utc.date()


def _in_json_form(value: Any, data_type: pa.DataType) -> Any:
    """A list, an object or a map in its JSON form; maps may also be lists of pairs, as Arrow gives them. Nested values
    are unchanged, and so is what is none of these.
    """
    if pa.types.is_map(data_type):
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return value
        if not pa.types.is_string(data_type.key_type):
            if isinstance(value, Mapping) and all(type(key) is str for key, _ in pairs):
                return dict(pairs)  # keys as texts, as in JSON
            return [{"key": key, "value": item} for key, item in pairs]
        as_object = dict(pairs)
        return as_object if len(as_object) == len(pairs) else value
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple | np.ndarray) else value


# Locations of errors in a seed: the file and the line, or the row of a function's result.

LONGEST_ROW = 1 << 29
"""The most bytes of a row of CSV, and characters of a line of JSON (up to 2 GB): Arrow's texts have at most 2 GB."""

_NOT_UTF8 = "invalid UTF8"
"""A part of Arrow's error message."""


@contextmanager
def locating_errors(source: str, location_of: Callable[[int], str] = str) -> Iterator[None]:
    """Raise errors of bad values as SeedError, with their file and line."""
    try:
        yield
    except BadValueError as error:
        raise SeedError(source, error.cause, location_of(error.row), error.column) from error
    except SourceColumnsError as error:
        raise SeedError(source, error.cause) from error
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        raise SeedError(source, str(error)) from error


@contextmanager
def in_utf8(path: Path) -> Iterator[None]:
    """Add the line to the error for a file that is not UTF-8."""
    try:
        yield
    except (SeedError, UnicodeDecodeError) as error:
        cause = error.__cause__ if isinstance(error, SeedError) else error
        position = _not_utf8(path) if isinstance(cause, UnicodeDecodeError) or _NOT_UTF8 in str(cause) else None
        if position is None:
            raise
        line, byte = position
        raise SeedError(
            path.name, f"the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8", f"line {line}"
        ) from error


def row_too_long(source: str, line: int) -> SeedError:
    """The error for a row longer than LONGEST_ROW, with the line on which it begins."""
    return SeedError(
        source,
        f"the row is longer than the limit of {LONGEST_ROW >> 20} MiB",
        f"line {line}",
        hint="put large values into files of their own, and their names into the row",
    )


def numbered_lines(file: IO[AnyStr], source: str) -> Iterator[tuple[int, AnyStr]]:
    """The lines of a file with their numbers from 1. Raises SeedError for a line that is too long."""
    for number in count(1):
        line = file.readline(LONGEST_ROW + 1)
        if not line:
            return
        if len(line) > LONGEST_ROW:
            raise row_too_long(source, number)
        yield number, line


def _not_utf8(path: Path) -> tuple[int, int] | None:
    """The first line that is not UTF-8, counted from 1, and the invalid byte."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return None
