"""Reads the rows of seeds: from files, or from functions of the project."""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from traceback import extract_tb
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.csv as arrow_csv

from ...errors import HeadwaterError
from ...plugins.errors import error_text, is_interrupt_or_out_of_memory
from ...plugins.local_modules import import_from
from ..ir.topology import Topic
from ..log.errors import SeedError
from ..python_functions.loading import is_versioned
from ..records.arrays import BadValueError, piece_starts
from ..records.record_json import is_record
from ..records.schema import key_columns, value_columns
from ..records.values import Convert, from_json, parse_json
from .incoming import (
    LONGEST_ROW,
    Incoming,
    build,
    convert,
    from_python,
    from_table,
    in_utf8,
    locating_errors,
    missing_time,
    numbered_lines,
    row_too_long,
    valid_times,
)
from .incoming import source_columns as columns_of
from .record_form import Sieve, parse_records

# Rows of a seed are read piece by piece, from a file or from a function of the project.

Item = TypeVar("Item")

PIECE_ROWS = 65_536
"""The most rows that are converted at once: enough for Arrow to be fast, with little memory."""

PIECE_BYTES = 64 << 20
"""The most bytes of texts that are converted at once; a larger row is converted alone."""


def jsonl_rows(path: Path, topic: Topic, clock: int, sieve: Sieve) -> Iterator[Incoming]:
    """The rows of a file with a JSON object on each line and a field for each column. A missing field is null."""
    seen: set[str] = set()
    for numbers, objects in _json_lines(path, sieve):
        with locating_errors(path.name):
            yield from sieve.accepted(
                path.name,
                objects,
                lambda some: _from_objects(topic, some, clock, from_json, seen),
                _line_among(numbers),
            )
    if seen or not sieve.refused.count:
        with locating_errors(path.name):
            columns_of(topic, sorted(seen))


def record_rows(path: Path, topic: Topic, clock: int, sieve: Sieve) -> Iterator[Incoming]:
    """The records of a file with a JSON object in record form on each line."""
    for numbers, objects in _json_lines(path, sieve):
        with locating_errors(path.name):
            yield from sieve.accepted(
                path.name, objects, lambda some: parse_records(topic, some, clock), _line_among(numbers)
            )


def parquet_rows(path: Path, topic: Topic, clock: int, sieve: Sieve) -> Iterator[Incoming]:
    """The rows of a Parquet file."""
    # Imported here: it loads Arrow's file systems, and most commands read no Parquet.
    import pyarrow.parquet as parquet

    first = 1
    with locating_errors(path.name), parquet.ParquetFile(path) as file:
        wanted = dict.fromkeys(source for source, _ in columns_of(topic, file.schema_arrow.names).values())
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        widest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
        rows = max(1, min(PIECE_ROWS, PIECE_BYTES // max(1, widest)))
        for batch in file.iter_batches(rows, columns=list(wanted)):
            table = pa.Table.from_batches([batch])
            yield from sieve.accepted(path.name, table, lambda some: from_table(topic, some, clock), _row, first)
            first += batch.num_rows


def yielded_rows(
    source: str, found: Any, topic: Topic, clock: int, sieve: Sieve, values: Convert = from_python
) -> Iterator[Incoming]:
    """The rows of a function or a caller. Raises SeedError.

    `found`: a table (Arrow's, pandas' or another that Arrow understands), or an iterable of tables, of objects with a
    field for each column, or of objects in record form. `values`: the converter of the objects' values.
    """
    seen: set[str] = set()
    first = 1
    with locating_errors(source):
        for piece in _pieces(found):
            yield from sieve.accepted(source, piece, _converter(topic, piece, clock, seen, values), _row, first)
            first += len(piece)
        if seen:
            columns_of(topic, sorted(seen))


def _converter(
    topic: Topic, piece: pa.Table | Sequence[Mapping[str, Any]], clock: int, seen: set[str], values: Convert
) -> Callable[[Any], Incoming]:
    """The function that converts a piece, or a part of it."""
    if isinstance(piece, pa.Table):
        return lambda some: from_table(topic, some, clock)
    if _in_record_form(topic, piece):
        return lambda some: parse_records(topic, some, clock, values)
    return lambda some: _from_objects(topic, some, clock, values, seen)


def _row(number: int) -> str:
    return f"row {number}"


def times_of(source: str, timestamps: Sequence[int]) -> pa.Array:
    """Timestamps of a caller, in ms. Raises SeedError."""
    with locating_errors(source, lambda row: f"row {row + 1}"):
        return valid_times(from_python(timestamps, pa.int64()), "timestamps")


def _line_among(numbers: Sequence[int]) -> Callable[[int], str]:
    return lambda row: f"line {numbers[row]}"


def _json_lines(path: Path, sieve: Sieve) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """The objects of a file with their line numbers, in pieces. Empty lines are skipped."""
    with in_utf8(path), locating_errors(path.name), path.open(encoding="utf-8-sig") as file:
        lines = ((number, line) for number, line in numbered_lines(file, path.name) if line.strip())
        for piece in _cut(lines, lambda numbered: len(numbered[1])):
            objects = ((number, _object(path, number, line, sieve)) for number, line in piece)
            objects_ = {number: object_ for number, object_ in objects if object_ is not None}
            if objects_:
                yield list(objects_), list(objects_.values())


def _object(path: Path, number: int, line: str, sieve: Sieve) -> dict[str, Any] | None:
    """The object of a line; None if the line was rejected."""
    try:
        value = parse_json(line)
    except (ValueError, RecursionError) as error:
        sieve.reject(path.name, lambda: f"line {number}", f"no JSON: {error}")
        return None
    if not isinstance(value, dict):
        sieve.reject(path.name, lambda: f"line {number}", "not an object")
        return None
    return value


def _pieces(found: Any) -> Iterator[pa.Table | list[Mapping[str, Any]]]:
    """Tables, and lists of objects."""
    table = _as_table(found)
    if table is not None:
        yield from _parts(table)
        return
    if isinstance(found, Mapping) or not isinstance(found, Iterable):
        raise pa.ArrowInvalid(f"neither a table nor an iterable of tables or records, but {type(found).__name__}")
    objects: list[Mapping[str, Any]] = []
    size = 0
    for item in found:
        table = _as_table(item)
        if table is None and isinstance(item, Mapping):
            objects.append(item)
            size += _text_size(item)
        elif table is None:
            raise pa.ArrowInvalid(f"neither a table nor a record, but {type(item).__name__}")
        if objects and (table is not None or len(objects) == PIECE_ROWS or size >= PIECE_BYTES):
            yield objects
            objects, size = [], 0
        if table is not None:
            yield from _parts(table)
    if objects:
        yield objects


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """A table in pieces of few bytes. A table without rows is one piece, because its columns are checked too."""
    starts = piece_starts(table, max(1, len(table)), PIECE_BYTES) or [0]
    yield from (table.slice(first, end - first) for first, end in pairwise([*starts, len(table)]))


def _text_size(row: Mapping[str, Any]) -> int:
    """The approximate bytes of the texts and binary values of a row, or of a record in record form."""
    size, values, seen = 0, list[Any](row.values()), set[int]()
    while values:
        value = values.pop()
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, list | tuple | Mapping) and id(value) not in seen:  # a list may contain itself
            seen.add(id(value))
            values.extend(value.values() if isinstance(value, Mapping) else value)
    return size


def _cut(rows: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Rows in pieces of at most PIECE_ROWS, each of which ends once it has PIECE_BYTES."""
    piece, size = list[Item](), 0
    for row in rows:
        piece.append(row)
        size += size_of(row)
        if len(piece) == PIECE_ROWS or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _as_table(found: Any) -> pa.Table | None:
    if isinstance(found, pa.Table):
        return found
    if isinstance(found, pa.RecordBatch):
        return pa.Table.from_batches([found])
    # pandas, polars and others; pandas converts its NaN to null.
    try:
        return pa.table(found) if hasattr(found, "__arrow_c_stream__") else None
    except (TypeError, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _in_record_form(topic: Topic, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether objects are in record form. Otherwise they are rows of the topic, which may have a column `value`.

    If the first object can only be in record form, all must be.
    """
    if isinstance(rows[0].get("value", 0), Mapping | None) and _columns_of(topic).isdisjoint(rows[0]):
        return True
    key, value = key_columns(topic), value_columns(topic)
    return all("value" in row and is_record(row, key, value) for row in rows)


def _columns_of(topic: Topic) -> set[str]:
    """The names that rows may use for the topic's columns."""
    names = {"key": key_columns(topic), "value": value_columns(topic)}
    return {alias for role, columns in names.items() for name in columns for alias in (name, f"{role}.{name}")}


def _from_objects(
    topic: Topic,
    rows: Sequence[Mapping[str, Any]],
    clock: int,
    values: Convert,
    seen: set[str],
) -> Incoming:
    """Objects with a field for each column. Adds their fields to `seen`."""
    names = _columns_of(topic)
    for number, row in enumerate(rows):
        if names.isdisjoint(row):
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


# CSV files. Arrow reads their rows; Python's reader finds the lines of errors.

# A setting of the whole process. Python's csv only checks quotes and finds lines here. Arrow, which reads the rows, has
# no such limit, so a smaller one would reject valid files.
csv.field_size_limit(2**31 - 1)

_CSV_BLOCK = 16 << 20
"""The bytes of a CSV file that are parsed at once, or those of its longest row."""


def csv_rows(path: Path, topic: Topic, clock: int, sieve: Sieve) -> Iterator[Incoming]:
    """The rows of a CSV file in UTF-8 with a header. Raises SeedError."""
    first = 0
    with in_utf8(path), locating_errors(path.name):
        longest = _longest_row(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
        wanted = dict.fromkeys(source for source, _ in columns_of(topic, header).values())
        for batch in _csv_batches(path, list(wanted), max(longest, _CSV_BLOCK)):
            yield from sieve.accepted(
                path.name,
                pa.Table.from_batches([batch]),
                lambda some: from_table(topic, some, clock),
                lambda row: f"line {_csv_line(path, row)}",
                first,
            )
            first += batch.num_rows


def _csv_batches(path: Path, columns: Sequence[str], block: int) -> Iterator[pa.RecordBatch]:
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
    read_options = arrow_csv.ReadOptions(block_size=block)
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


def _longest_row(path: Path) -> int:
    """The bytes of the longest row, or a little more; rows below `_CSV_BLOCK` do not count.

    Raises SeedError for a row that is too long, and for an unclosed quote: Arrow would read all lines up to the next
    quote as one cell.
    """
    with path.open("rb") as file:
        if not any(b'"' in block for block in iter(partial(file.read, _CSV_BLOCK), b"")):
            return _longest_line(path)
    start, longest, size = 1, 0, 0

    def lines(file: IO[str]) -> Iterator[str]:
        nonlocal size
        for line in file:
            size += len(line) if line.isascii() else len(line.encode())
            if size > LONGEST_ROW:
                raise row_too_long(path.name, start)
            yield line

    with path.open(encoding="utf-8-sig", newline="") as texts:
        reader = csv.reader(lines(texts), strict=True)
        try:
            for _ in reader:
                start, longest, size = reader.line_num + 1, max(longest, size), 0
        except csv.Error as error:
            raise SeedError(path.name, f"no CSV: {error}", f"line {start}") from error
    return longest


def _longest_line(path: Path) -> int:
    """The same for a file without quotes, where a line is a row."""
    longest, size, feeds, returns = 0, 0, 0, 0
    with path.open("rb") as file:
        for block in iter(partial(file.read, _CSV_BLOCK), b""):
            ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
            size += min(ends, default=len(block))
            if size > LONGEST_ROW:
                raise row_too_long(path.name, 1 + (feeds or returns))
            if ends:
                longest = max(longest, size + 1)
                size = len(block) - max(block.rfind(b"\n"), block.rfind(b"\r"))
                feeds, returns = feeds + block.count(b"\n"), returns + block.count(b"\r")
    return max(longest, size)


def _csv_line(path: Path, row: int) -> int:
    """The line on which a row starts, from 1. The header is no row."""
    return next(islice(_csv_lines(path), row + 1, None))[0]


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the lines on which they start. It is slow, and used only for errors."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        start = 1
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1


# Functions of a project for seeds, by names such as `functions.module:name`.


@contextmanager
def project_function(project_dir: Path, reference: str) -> Iterator[tuple[Callable[..., Any], str]]:
    """The function, and a hash of the project's source files that were loaded for it.

    Inside the context the project's modules can be imported, also by the function. Afterwards they are removed from
    `sys.modules`, so that the same process can load another project's `functions`. Raises SeedError.
    """
    module, _, name = reference.partition(":")
    root = module.partition(".")[0]
    others = _take_modules(root)
    path = list(sys.path)
    try:
        try:
            with raising_seed_errors(reference, project_dir):
                loaded = import_from(project_dir, module)
            function = getattr(loaded, name)
        except (ImportError, AttributeError) as error:
            raise SeedError(reference, f"cannot be loaded: {error}") from error
        yield function, _source_hash(project_dir)
    finally:
        sys.path[:] = path
        _take_modules(root)
        sys.modules.update(others)


@contextmanager
def raising_seed_errors(reference: str, project_dir: Path) -> Iterator[None]:
    """Raise errors of the project's code as SeedError, with the line that raised them."""
    try:
        yield
    except (ImportError, HeadwaterError):
        raise
    except BaseException as error:  # SystemExit too: a function may call `sys.exit`
        if isinstance(error, GeneratorExit) or is_interrupt_or_out_of_memory(error):
            raise
        frames = [
            frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(project_dir)
        ]
        location = f"{Path(frames[-1].filename).relative_to(project_dir)}:{frames[-1].lineno}" if frames else None
        raise SeedError(reference, error_text(error), location) from error


def _take_modules(root: str) -> dict[str, Any]:
    names = [name for name in sys.modules if name.partition(".")[0] == root]
    return {name: sys.modules.pop(name) for name in names}


def _source_hash(project_dir: Path) -> str:
    # Modules for functions in flows are loaded by some commands only, and do not affect a seed.
    folder = project_dir.resolve()
    files = {
        _resolved(file)
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None and not is_versioned(name)
    }
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_relative_to(folder) and file.suffix == ".py"):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _resolved(file: str) -> Path:
    """The real path of a module's file, cached: a process has thousands, and they do not move."""
    return Path(file).resolve()
