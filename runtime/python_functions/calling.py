"""Calls of functions in expressions: columns in, one column out.

A function is called with values, row by row, or with Arrow arrays. Either way it is known which rows fail: a failing
call with arrays is repeated with their halves, because the result of a row must not depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...plugins.errors import is_interrupt_or_out_of_memory
from ..ir.functions import PythonFunction, Udf
from ..records.types import arrow_type
from .errors import (
    FunctionError,
    FunctionInputError,
    FunctionRaisedError,
    FunctionResultError,
    short_repr,
)
from .loading import load
from .results import UnfitValueError, checked_column, convert_value, converter, to_column, to_python

ColumnCall = Callable[[Sequence[pa.Array], int], pa.Array]
"""Calls a function with its arguments and the number of rows. Raises CallFailedError."""


class CallFailedError(Exception):
    """A function has failed for some rows. `failed`: row -> error, in the order of the rows."""

    def __init__(self, failed: dict[int, FunctionError]) -> None:
        super().__init__(str(next(iter(failed.values()))))
        self.failed = failed


def column_call(udf: Udf) -> ColumnCall:
    """How a function is called with columns. Raises FunctionLoadError."""
    function = load(udf.function)
    return _Arrays(udf, function) if udf.arrow else _Values(udf, function)


class _Values:
    """Calls a function once for each row. Null is None."""

    def __init__(self, udf: Udf, function: Callable[..., Any]) -> None:
        self._function = udf.function
        self._call = function
        self._type = arrow_type(udf.returns)
        self._convert = converter(self._type)

    def __call__(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        failed: dict[int, FunctionError] = {}
        results: list[Any] = [None] * rows
        for row, given in enumerate(_given(self._function, arguments, rows, failed)):
            if row in failed:
                continue
            try:
                results[row] = self._result(given)
            except FunctionError as error:
                failed[row] = error
        if failed:
            raise CallFailedError(dict(sorted(failed.items())))
        return to_column(results, self._type)

    def _result(self, given: Sequence[Any]) -> Any:
        result = _call_function(self._function, self._call, given)
        if result is None:
            return None
        try:
            return convert_value(self._convert, result)
        except UnfitValueError as error:
            message = f"{self._function.name} returned {short_repr(result)}: {error.cause}"
            raise FunctionResultError(self._function.name, message) from error


class _Arrays:
    """Calls a function with the arrays of many rows.

    It must return an array of the declared type and the same length.
    """

    def __init__(self, udf: Udf, function: Callable[..., Any]) -> None:
        self._function = udf.function
        self._call = function
        self._returns = udf.returns
        self._type = arrow_type(udf.returns)

    def __call__(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        failed: dict[int, FunctionError] = {}
        parts = list(self._parts(arguments, 0, rows, failed)) if rows else []
        if failed:
            raise CallFailedError(failed)
        return pa.concat_arrays(parts) if parts else pa.array([], self._type)

    def _parts(
        self, arguments: Sequence[pa.Array], start: int, rows: int, failed: dict[int, FunctionError]
    ) -> Iterator[pa.Array]:
        """The results of the rows from `start` on, in parts. Adds failing rows to `failed`."""
        try:
            yield self._result([argument.slice(start, rows) for argument in arguments], rows)
        except FunctionError as error:
            if rows == 1:
                failed[start] = error
                return
            half = rows // 2
            yield from self._parts(arguments, start, half, failed)
            yield from self._parts(arguments, start + half, rows - half, failed)

    def _result(self, given: Sequence[pa.Array], rows: int) -> pa.Array:
        result = _call_function(self._function, self._call, given)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise self._unfit(f"returned {short_repr(result)}, which is no Arrow array")
        if len(result) != rows:
            raise self._unfit(f"returned {len(result)} values for {rows} rows")
        if result.type != self._type:
            declared = f"it is declared to return {self._returns}, which is {self._type} in Arrow"
            raise self._unfit(f"returned an array of {result.type}; {declared}")
        try:
            return checked_column(result)
        except UnfitValueError as error:
            raise self._unfit(f"returned {error.cause}") from error

    def _unfit(self, what: str) -> FunctionResultError:
        return FunctionResultError(self._function.name, f"{self._function.name} {what}")


def _given(
    function: PythonFunction, arguments: Sequence[pa.Array], rows: int, failed: dict[int, FunctionError]
) -> Iterator[tuple[Any, ...]]:
    """The arguments of each row. Adds rows with values that Python does not have to `failed`."""
    columns = [_python(function, column, failed) for column in arguments]
    return zip(*columns, strict=True) if columns else iter([()] * rows)


def _python(function: PythonFunction, column: pa.Array, failed: dict[int, FunctionError]) -> list[Any]:
    try:
        return to_python(column)
    except UnfitValueError:
        return [_python_value(function, column.slice(row, 1), row, failed) for row in range(len(column))]


def _python_value(function: PythonFunction, value: pa.Array, row: int, failed: dict[int, FunctionError]) -> Any:
    try:
        return to_python(value)[0]
    except UnfitValueError as error:
        failed[row] = FunctionInputError(function.name, f"an argument is {error.cause}")
        return None


def _call_function(function: PythonFunction, call: Callable[..., Any], given: Sequence[Any]) -> Any:
    """The result of a call. Raises FunctionRaisedError."""
    try:
        return call(*given)
    except BaseException as error:
        if is_interrupt_or_out_of_memory(error):
            raise
        raise FunctionRaisedError(function, error) from error
