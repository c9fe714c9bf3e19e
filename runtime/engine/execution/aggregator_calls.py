"""Calls of Python reducers and aggregators of the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ....plugins.errors import is_interrupt_or_out_of_memory
from ...ir.functions import PythonFunction
from ...ir.topology import Store
from ...python_functions.errors import (
    FunctionError,
    FunctionInputError,
    FunctionRaisedError,
    FunctionResultError,
    short_repr,
)
from ...python_functions.loading import load
from ...python_functions.objects import Row, RowType, UnfitRowError, copied
from ...python_functions.results import UnfitValueError
from ...records.arrays import Bools, Int64s
from ...records.types import Kind, parse_columns
from ...timed_parts import timed
from ..operators.operator import Emit, Side
from .keyed.groups import Grouped, Groups, bytes_of, grouped, usable
from .keyed.stored_rows import RowStore, StoredRows, Versions, at_points, changes, stored_columns, without_halves
from .node import RowFailedError, TaskEpoch
from .rows import Rows, is_old

# Calls of a project's reducers and aggregators: arguments, results and errors.


class Fold(Protocol):
    """Folds the records of a group into one row. `state`: the row so far, None without one.

    `key`, `value`: of a record. All methods raise FunctionError.
    """

    @property
    def function(self) -> PythonFunction:
        """The function or class of the project."""

    @property
    def states(self) -> RowType:
        """The type of the stored rows."""

    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:
        """The row with one more record; None deletes it."""

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """The row without one of its records; None deletes it."""

    def merge(self, first: Row, second: Row) -> Row | None:
        """One row from the rows of two merged sessions."""


@dataclass(frozen=True)
class Called:
    """Converts results of a function to rows. `states`: their type."""

    function: PythonFunction
    states: RowType

    def row(self, call: Callable[..., Any], *arguments: Any, what: str = "") -> Row | None:
        """The result of a call as a row; None for None. `what`: the method of a class, for errors.

        Raises FunctionRaisedError, FunctionResultError.
        """
        try:
            found = call(*arguments)
        except BaseException as error:
            if is_interrupt_or_out_of_memory(error):
                raise
            raise FunctionRaisedError(self.function, error, what) from error
        if found is None:
            return None
        try:
            return self.states.of(found)
        except UnfitValueError as error:
            name = f"{self.function.name}{f' ({what})' if what else ''}"
            message = f"{name} returned {short_repr(found)}: {error.cause}"
            hint = f"its columns are {', '.join(self.states.columns)}"
            raise FunctionResultError(self.function.name, message, hint) from error


def kept(fold: Fold, state: Row | None, what: str) -> Row:
    """The state, which must not be None: a row of `what` stays until it expires. Raises FunctionResultError."""
    if state is None:
        name = fold.function.name
        message = f"{name} returned None, which deletes a row; that of a {what} stays until it expires"
        noun = what.removeprefix("sliding ")
        raise FunctionResultError(name, message, f"let a column say that the {noun} does not count")
    return state


class ReduceFold:
    """`reduce`: the first value becomes the row. The function combines the row with each later value."""

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
        """Not implemented: `reduce` is for streams."""
        raise NotImplementedError

    def merge(self, first: Row, second: Row) -> Row | None:
        """The function combines two rows."""
        return self._called.row(self._reduce, self.states.copy(first), self.states.copy(second))


class AggregatorFold:
    """`aggregate` with a class: `initial()`, `add(state, key, value)`; for tables `subtract`, for sessions `merge`.

    Each epoch has a new object of the class. Raises FunctionRaisedError if the constructor raises.
    """

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        self.function = function
        self.states = RowType(columns)
        self._called = Called(function, self.states)
        made = load(function)
        try:
            self._aggregator = made()
        except BaseException as error:
            if is_interrupt_or_out_of_memory(error):
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


# Folds records into the rows of their keys, or keys and windows, record by record.


@dataclass(frozen=True)
class Folding:
    """An operator that folds by key, or by key and window. `store`, `emit`, `old`, `of`: as in `Aggregate`.

    `step`: the name in counters of dropped records.
    """

    fold: Fold
    store: Store
    emit: Emit
    old: bool
    of: Side
    step: str

    def run(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        """The changes of the table. `rows`: the records. Raises RowFailedError."""
        value = rows.value
        by_group = grouped(usable(rows, self.store, self.step, epoch), self.store, value, self.step, epoch)
        keys = bytes_of(by_group.keys)
        store = RowStore(epoch.store(self.store), stored_columns(self.store))
        stored = store.get(keys)
        groups = Groups(by_group.code, len(keys), self.emit == "each_update", stored.exists)
        with timed("fold"):
            after = self._folded(groups, by_group, value, stored)
        exists = groups.ends(after.exists)
        ends = {name: groups.end_columns(column) for name, column in after.values.items()}
        store.put(keys, ends, groups.ends(after.timestamp), exists, stored.exists)
        before = Versions(stored.columns if self.old else {}, stored.timestamp, stored.exists)
        context = at_points(groups, by_group.rows, by_group.columns)
        groups, context, after = without_halves(groups, context, by_group.rows.kind, after)
        return changes(groups, context, before, after, self.old)

    def _folded(self, groups: Groups, by_group: Grouped, value: Sequence[str], stored: StoredRows) -> Versions:
        """The rows of the groups at the points. `value`: names of the value columns."""
        rows = by_group.rows
        values = values_of(rows, value, self.fold)
        keys = RowType(parse_columns(self.store.key)).rows(by_group.columns, np.ones(groups.count, np.bool_))
        states = self.fold.states.rows(stored.columns, stored.exists)
        times = stored.timestamp.tolist()
        removes = is_old(rows.kind).tolist() if self.of == "table" else [False] * len(rows)
        half = (rows.kind == Kind.OLD_SAME_GROUP).tolist()
        at_rows: list[tuple[Row | None, int]] = []
        was_half = False
        each = zip(groups.code.tolist(), values, rows.timestamp.tolist(), removes, half, strict=True)
        for number, (group, new, time, gone, is_half) in enumerate(each):
            state = states[group]
            try:
                if not gone:
                    states[group] = self.fold.add(state, keys[group], new)
                elif state is not None:
                    states[group] = self.fold.subtract(state, keys[group], new)
            except FunctionError as error:
                raise RowFailedError(int(rows.order[number]), error) from error
            # A new row does not depend on earlier times. A row between the halves of one change is not new.
            times[group] = time if state is None and not was_half else max(times[group], time)
            was_half = is_half and (state is not None or was_half)
            if groups.each:
                at_rows.append((states[group], times[group]))
        return _versions(self.fold.states, at_rows if groups.each else list(zip(states, times, strict=True)))


def values_of(rows: Rows, names: Sequence[str], fold: Fold) -> list[Row]:
    """The values of rows as objects; all fields are None for a null value. Raises RowFailedError."""
    columns = {name: rows.columns[name] for name in names}
    kind = RowType({name: column.type for name, column in columns.items()})
    try:
        return kind.rows(columns, np.ones(len(rows), np.bool_))
    except UnfitRowError as error:
        raise RowFailedError(int(rows.order[error.row]), FunctionInputError(fold.function.name, error.cause)) from error


def keys_of(rows: Rows) -> list[Row]:
    """The keys of rows as objects."""
    kind = RowType({name: column.type for name, column in rows.keys.items()})
    return kind.rows(rows.keys, np.ones(len(rows), np.bool_))


def _versions(kind: RowType, found: Sequence[tuple[Row | None, int]]) -> Versions:
    states = [state for state, _ in found]
    exists: Bools = np.fromiter((state is not None for state in states), np.bool_, len(states))
    times: Int64s = np.fromiter((time for _, time in found), np.int64, len(found))
    columns: dict[str, pa.Array] = kind.to_columns(states)
    return Versions(columns, times, exists)
