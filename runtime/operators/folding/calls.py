"""Calls of a project's reducers and aggregators: what they are given, return and raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ....plugins.errors import is_of_the_machine
from ...python_functions.code import PythonFunction
from ...python_functions.errors import FunctionRaisedError, FunctionResultError, shown
from ...python_functions.loading import load
from ...python_functions.objects import Row, RowType, copied
from ...python_functions.values import UnfitValueError


class Fold(Protocol):
    """How the records of a group become one row. `state`: the row so far, None if there is none.

    `key`, `value`: of a record. All raise FunctionError.
    """

    @property
    def function(self) -> PythonFunction:
        """Whose code is called."""

    @property
    def states(self) -> RowType:
        """The rows that are stored."""

    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:
        """The row with one more record; None deletes it."""

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """The row without a record that it has; None deletes it."""

    def merge(self, first: Row, second: Row) -> Row | None:
        """One row of two, of sessions that are joined."""


@dataclass(frozen=True)
class Called:
    """A function's results as rows. `states`: the rows; `what`: which method of a class is meant, for errors."""

    function: PythonFunction
    states: RowType

    def row(self, call: Callable[..., Any], *arguments: Any, what: str = "") -> Row | None:
        """What a call returns, as a row; None for None. Raises FunctionRaisedError, FunctionResultError."""
        try:
            found = call(*arguments)
        except BaseException as error:
            if is_of_the_machine(error):
                raise
            raise FunctionRaisedError(self.function, error, what) from error
        if found is None:
            return None
        try:
            return self.states.of(found)
        except UnfitValueError as error:
            name = f"{self.function.name}{f' ({what})' if what else ''}"
            message = f"{name} returned {shown(found)}: {error.cause}"
            hint = f"its columns are {', '.join(self.states.columns)}"
            raise FunctionResultError(self.function.name, message, hint) from error


def kept(fold: Fold, state: Row | None, what: str) -> Row:
    """The state, which must be there: a row of `what` stays until it expires. Raises FunctionResultError."""
    if state is None:
        name = fold.function.name
        message = f"{name} returned None, which deletes a row; that of a {what} stays until it expires"
        noun = what.removeprefix("sliding ")
        raise FunctionResultError(name, message, f"let a column say that the {noun} does not count")
    return state


class ReduceFold:
    """`reduce`: the first value is the row, and the function makes one of the row and of each later value."""

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        self.function = function
        self.states = RowType(columns)
        self._called = Called(function, self.states)
        self._reduce = load(function)

    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:  # noqa: ARG002 - a reducer gets no key
        """See `Fold`."""
        if state is None:
            return value
        return self._called.row(self._reduce, self.states.copy(state), self.states.copy(value))

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """None: `reduce` is for streams."""
        raise NotImplementedError

    def merge(self, first: Row, second: Row) -> Row | None:
        """The function makes one row of two."""
        return self._called.row(self._reduce, self.states.copy(first), self.states.copy(second))


class AggregatorFold:
    """`aggregate` with a class: `initial()`, `add(state, key, value)`; of tables `subtract`, in sessions `merge`.

    Each epoch has an object of its own. Raises FunctionRaisedError if it cannot be made.
    """

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        self.function = function
        self.states = RowType(columns)
        self._called = Called(function, self.states)
        made = load(function)
        try:
            self._aggregator = made()
        except BaseException as error:
            if is_of_the_machine(error):
                raise
            raise FunctionRaisedError(function, error) from error

    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:
        """See `Fold`."""
        if state is None:
            state = self._called.row(self._aggregator.initial, what="initial")
        given = self.states.copy(state)
        return self._called.row(self._aggregator.add, given, key, copied(value), what="add")

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """See `Fold`."""
        given = self.states.copy(state)
        return self._called.row(self._aggregator.subtract, given, key, copied(value), what="subtract")

    def merge(self, first: Row, second: Row) -> Row | None:
        """See `Fold`."""
        given = self.states.copy(first), self.states.copy(second)
        return self._called.row(self._aggregator.merge, *given, what="merge")
