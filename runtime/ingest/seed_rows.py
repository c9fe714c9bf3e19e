"""Reads the rows of a seed piece by piece, from a file or from a function of the project."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from ..log.errors import SeedError
from ..records.record_json import FIELDS
from ..records.schema import key_columns, value_columns
from ..records.values import BadValueError, from_json
from ..topology import Topic
from .incoming import (
    Incoming,
    SourceColumnsError,
    build,
    convert,
    from_python,
    from_table,
    from_text,
    missing_time,
    valid_times,
)
from .incoming import source_columns as columns_of
from .record_form import parse_records

# A setting of the whole process. Python's csv only checks quotes and finds lines here; Arrow, which reads the rows, has
# no such limit, so a smaller one would refuse valid files.
csv.field_size_limit(2**31 - 1)

_NOT_UTF8 = "invalid UTF8"
"""The words in Arrow's error."""

PIECE_ROWS = 65_536
"""Rows that are converted at once: enough for Arrow to be fast, with little memory."""

_CSV_BLOCK = 16 << 20
"""Bytes of a CSV file that are parsed at once. No row may be longer."""


def csv_rows(path: Path, topic: Topic, clock: int) -> Iterator[Incoming]:
    """The rows of a CSV file in UTF-8 with a header. Raises SeedError."""
    first = 0
    with _in_utf8(path), _told(path.name, lambda row: f"line {_csv_line(path, first + row)}"):
        _check_quotes(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
        wanted = dict.fromkeys(source for source, _ in columns_of(topic, header).values())
        for batch in _csv_batches(path, list(wanted)):
            yield from_text(topic, pa.Table.from_batches([batch]), clock)
            first += batch.num_rows


def jsonl_rows(path: Path, topic: Topic, clock: int) -> Iterator[Incoming]:
    """The rows of a file with one JSON object on each line and a field for each column. A missing field is null."""
    seen: set[str] = set()
    for numbers, objects in _json_lines(path):
        with _told(path.name, _line_among(numbers)):
            yield _from_objects(topic, objects, clock, from_json, seen)
    with _told(path.name):
        columns_of(topic, sorted(seen))


def record_rows(path: Path, topic: Topic, clock: int) -> Iterator[Incoming]:
    """The records of a file with one JSON object in record form on each line."""
    for numbers, objects in _json_lines(path):
        with _told(path.name, _line_among(numbers)):
            yield parse_records(topic, objects, clock)


def parquet_rows(path: Path, topic: Topic, clock: int) -> Iterator[Incoming]:
    """The rows of a Parquet file."""
    first = 1
    with _told(path.name, lambda row: f"row {first + row}"), parquet.ParquetFile(path) as file:
        wanted = dict.fromkeys(source for source, _ in columns_of(topic, file.schema_arrow.names).values())
        for batch in file.iter_batches(PIECE_ROWS, columns=list(wanted)):
            yield from_table(topic, pa.Table.from_batches([batch]), clock)
            first += batch.num_rows


def yielded_rows(source: str, found: Any, topic: Topic, clock: int) -> Iterator[Incoming]:
    """The rows that a function or a caller has given. Raises SeedError.

    `found`: a table (Arrow's, pandas' or another that Arrow understands), or an iterable of tables, of objects with a
    field for each column, or of objects in record form.
    """
    seen: set[str] = set()
    first = 1
    with _told(source, lambda row: f"row {first + row}"):
        for piece in _pieces(found):
            if isinstance(piece, pa.Table):
                incoming = from_table(topic, piece, clock)
            elif _in_record_form(topic, piece):
                incoming = parse_records(topic, piece, clock, from_python)
            else:
                incoming = _from_objects(topic, piece, clock, from_python, seen)
            yield incoming
            first += len(incoming)
        if seen:
            columns_of(topic, sorted(seen))


def times_of(source: str, timestamps: Sequence[int]) -> pa.Array:
    """Timestamps that a caller has given, in ms. Raises SeedError."""
    with _told(source, lambda row: f"row {row + 1}"):
        return valid_times(from_python(timestamps, pa.int64()), "timestamps")


@contextmanager
def _told(source: str, place: Callable[[int], str] = str) -> Iterator[None]:
    """Add the file and the line to the error of a bad value."""
    try:
        yield
    except BadValueError as error:
        raise SeedError(source, error.cause, place(error.row), error.column) from error
    except SourceColumnsError as error:
        raise SeedError(source, error.cause) from error
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        raise SeedError(source, str(error)) from error


@contextmanager
def _in_utf8(path: Path) -> Iterator[None]:
    """Add the line to the error of a file that is not UTF-8."""
    try:
        yield
    except (SeedError, UnicodeDecodeError) as error:
        cause = error.__cause__ if isinstance(error, SeedError) else error
        found = _not_utf8(path) if isinstance(cause, UnicodeDecodeError) or _NOT_UTF8 in str(cause) else None
        if found is None:
            raise
        line, byte = found
        raise SeedError(
            path.name, f"the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8", f"line {line}"
        ) from error


def _not_utf8(path: Path) -> tuple[int, int] | None:
    """The first line that is not UTF-8, counted from 1, and the faulty byte."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return None


def _line_among(numbers: Sequence[int]) -> Callable[[int], str]:
    return lambda row: f"line {numbers[row]}"


def _csv_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns as text. An empty cell is null; `""` is an empty text."""
    wrong: list[arrow_csv.InvalidRow] = []

    def refuse(row: arrow_csv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    convert_options = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    read_options = arrow_csv.ReadOptions(block_size=_CSV_BLOCK)
    parse_options = arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse)
    try:
        with arrow_csv.open_csv(path, read_options, parse_options, convert_options) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        if not wrong:
            raise
        expected = wrong[0].expected_columns
        line, found = next((line, len(cells)) for line, cells in _csv_lines(path) if len(cells) != expected)
        raise SeedError(path.name, f"the header has {expected} columns, this row {found}", f"line {line}") from error


def _check_quotes(path: Path) -> None:
    """Raise SeedError for an unclosed quote. Arrow would read all lines up to the next quote as one cell."""
    with path.open("rb") as file:
        if not any(b'"' in block for block in iter(partial(file.read, _CSV_BLOCK), b"")):
            return
    start = 1
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for _ in reader:
                start = reader.line_num + 1
        except csv.Error as error:
            raise SeedError(path.name, f"no CSV: {error}", f"line {start}") from error


def _csv_line(path: Path, row: int) -> int:
    """The line on which a row starts, from 1. The header is no row."""
    return next(islice(_csv_lines(path), row + 1, None))[0]


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with the lines on which they start. It is slow and used only for errors."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        start = 1
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1


def _json_lines(path: Path) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """The objects of a file with their lines, in pieces. Empty lines are skipped."""
    with _in_utf8(path), _told(path.name), path.open(encoding="utf-8-sig") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while piece := list(islice(lines, PIECE_ROWS)):
            yield [number for number, _ in piece], [_object(path, number, line) for number, line in piece]


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SeedError(path.name, f"no JSON: {error}", f"line {number}") from error
    if not isinstance(found, dict):
        raise SeedError(path.name, "not an object", f"line {number}")
    return found


def _pieces(found: Any) -> Iterator[pa.Table | list[Mapping[str, Any]]]:
    """Tables, and lists of objects."""
    table = _as_table(found)
    if table is not None:
        yield table
        return
    if isinstance(found, Mapping) or not isinstance(found, Iterable):
        raise pa.ArrowInvalid(f"neither a table nor an iterable of tables or records, but {type(found).__name__}")
    objects: list[Mapping[str, Any]] = []
    for each in found:
        table = _as_table(each)
        if table is None and isinstance(each, Mapping):
            objects.append(each)
        elif table is None:
            raise pa.ArrowInvalid(f"neither a table nor a record, but {type(each).__name__}")
        if objects and (table is not None or len(objects) == PIECE_ROWS):
            yield objects
            objects = []
        if table is not None:
            yield table
    if objects:
        yield objects


def _as_table(found: Any) -> pa.Table | None:
    if isinstance(found, pa.Table):
        return found
    if isinstance(found, pa.RecordBatch):
        return pa.Table.from_batches([found])
    # pandas, polars and others; pandas gives its NaN as null.
    try:
        return pa.table(found) if hasattr(found, "__arrow_c_stream__") else None
    except (TypeError, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _in_record_form(topic: Topic, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether objects are in record form, and not rows of a topic, which may have a column `value`.

    If the first object can only be in record form, all are taken to be, and others are errors.
    """
    columns = _columns_of(topic)

    def can_be_one(row: Mapping[str, Any]) -> bool:
        return isinstance(row.get("value", 0), Mapping | None)

    if can_be_one(rows[0]) and columns.isdisjoint(rows[0]):
        return True
    return all(row.keys() <= FIELDS and can_be_one(row) for row in rows)


def _columns_of(topic: Topic) -> set[str]:
    """The names by which rows may give the topic's columns."""
    names = {"key": key_columns(topic), "value": value_columns(topic)}
    return {each for role, columns in names.items() for name in columns for each in (name, f"{role}.{name}")}


def _from_objects(
    topic: Topic,
    rows: Sequence[Mapping[str, Any]],
    clock: int,
    values: Callable[[Sequence[Any], pa.DataType], pa.Array],
    seen: set[str],
) -> Incoming:
    """Objects with a field for each column. Adds their fields to `seen`."""
    known = _columns_of(topic)
    for number, row in enumerate(rows):
        if known.isdisjoint(row):
            wanted = ", ".join([*key_columns(topic), *value_columns(topic)])
            raise BadValueError(number, f"no column {wanted}; there is {', '.join(map(str, row)) or 'none'}")
        seen.update(map(str, row))
    absent_too = seen | key_columns(topic).keys() | value_columns(topic).keys()
    columns = {
        name: convert(source, [row.get(source) for row in rows], data_type, values)
        for name, (source, data_type) in columns_of(topic, absent_too).items()
    }
    try:
        return build(topic, columns, len(rows), clock)
    except BadValueError as error:
        raise missing_time(topic, error, rows[error.row]) from error
