"""Values that a column cannot hold: which row has the first of them, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .types import ddl

_SHOWN = 200
"""The most characters of a value that an error shows."""


class BadValueError(Exception):
    """A value that a column cannot have.

    `row`: its index in the column. Callers that know the file raise a SeedError.
    """

    def __init__(self, row: int, cause: str, column: str | None = None) -> None:
        super().__init__(f"row {row}: {cause}")
        self.row = row
        self.cause = cause
        self.column = column


def valid_text(column: pa.Array) -> pa.Array:
    """A column whose texts are UTF-8, also those in nested values. Raises BadValueError."""

    def check(some: pa.Array, _: pa.DataType) -> pa.Array:
        try:
            some.validate(full=True)
        except pa.ArrowInvalid:
            # `validate` also checks children outside of a slice. A copy has only the slice.
            some.take(pa.array(range(len(some)), pa.int64())).validate(full=True)
        return some

    return located(column, column.type, check)


def located(column: pa.Array, data_type: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """`cast(column, data_type)`. If Arrow refuses it, raises BadValueError with the first faulty row."""
    try:
        return cast(column, data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not len(column):
            return pa.array([], data_type)
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast(column[good:middle], data_type)
            good = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            bad = middle
    raise BadValueError(good, f"{_shown(column, good)} is no {ddl(data_type)}")


def _shown(column: pa.Array, row: int) -> str:
    """A value of the column, as an error shows it. For a text that is not UTF-8: its bytes."""
    try:
        return shown(column[row].as_py())
    except UnicodeDecodeError:
        text = pa.types.is_string(column.type)
        return shown(column[row : row + 1].cast(pa.binary())[0].as_py()) if text else "a text that is not UTF-8"
    except (OverflowError, ValueError):  # as Python says of times that it does not have
        return "a time outside of the years 1 to 9999"


def no(value: Any, data_type: pa.DataType) -> str:
    """The message for a value that the type does not have."""
    return f"{shown(value)} is no {ddl(data_type)}"


def shown(value: Any) -> str:
    """A value as an error shows it."""
    text = str(value) if isinstance(value, float | Decimal) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
