"""Where in a seed an error is: the file and the line, or the row of what a function gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, AnyStr

import pyarrow as pa

from ..log.errors import SeedError
from ..records.bad_values import BadValueError
from .incoming import (
    SourceColumnsError,
)

LONGEST_ROW = 1 << 29
"""The most bytes of a row of CSV, and characters of a line of JSON (then at most 2 GB): Arrow's texts have 2 GB."""

_NOT_UTF8 = "invalid UTF8"
"""The words in Arrow's error."""


@contextmanager
def placed(source: str, place: Callable[[int], str] = str) -> Iterator[None]:
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
def in_utf8(path: Path) -> Iterator[None]:
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


def row_too_long(source: str, line: int) -> SeedError:
    """The error for a row that is longer than LONGEST_ROW, at the line on which it begins."""
    return SeedError(
        source,
        f"the row is longer than {LONGEST_ROW >> 20} MiB, the most that one may have",
        f"line {line}",
        hint="put what is so large into a file of its own, and its name into the row",
    )


def numbered_lines(file: IO[AnyStr], source: str) -> Iterator[tuple[int, AnyStr]]:
    """The lines of a file with their numbers from 1. Raises SeedError for one that is too long to be read."""
    for number in count(1):
        line = file.readline(LONGEST_ROW + 1)
        if not line:
            return
        if len(line) > LONGEST_ROW:
            raise row_too_long(source, number)
        yield number, line


def _not_utf8(path: Path) -> tuple[int, int] | None:
    """The first line that is not UTF-8, counted from 1, and the faulty byte."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return None
