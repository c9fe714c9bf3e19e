"""Where in a seed an error is: the file and the line, or the row of what a function gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from ..log.errors import SeedError
from ..records.bad_values import BadValueError
from .incoming import (
    SourceColumnsError,
)

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


def _not_utf8(path: Path) -> tuple[int, int] | None:
    """The first line that is not UTF-8, counted from 1, and the faulty byte."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return None
