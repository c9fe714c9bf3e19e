"""The rows of a CSV file, which Arrow reads; Python's reader finds the lines of errors."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from ..log.errors import SeedError
from ..topology import Topic
from .incoming import (
    Incoming,
    from_text,
)
from .incoming import source_columns as columns_of
from .places import LONGEST_ROW, in_utf8, placed, row_too_long
from .sieve import Sieve

# A setting of the whole process. Python's csv only checks quotes and finds lines here; Arrow, which reads the rows, has
# no such limit, so a smaller one would refuse valid files.
csv.field_size_limit(2**31 - 1)

_CSV_BLOCK = 16 << 20
"""Bytes of a CSV file that are parsed at once, or those of its longest row."""


def csv_rows(path: Path, topic: Topic, clock: int, sieve: Sieve) -> Iterator[Incoming]:
    """The rows of a CSV file in UTF-8 with a header. Raises SeedError."""
    first = 0
    with in_utf8(path), placed(path.name):
        longest = _longest_row(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
        wanted = dict.fromkeys(source for source, _ in columns_of(topic, header).values())
        for batch in _csv_batches(path, list(wanted), max(longest, _CSV_BLOCK)):
            yield from sieve.taken(
                path.name,
                pa.Table.from_batches([batch]),
                lambda some: from_text(topic, some, clock),
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
    """The bytes of the longest row, or a little more; rows below `_CSV_BLOCK` count as none.

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
    """The same for a file without quotes, where each line is a row."""
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
    """The rows that are not empty, with the lines on which they start. It is slow and used only for errors."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        start = 1
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
