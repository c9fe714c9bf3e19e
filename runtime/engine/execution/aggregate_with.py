"""Aggregation with Python functions of the project: `reduce`, and `aggregate` with a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ....plugins.errors import is_interrupt_or_out_of_memory
from ...ir.functions import PythonFunction
from ...ir.topology import Store
from ...ir.windows import SlidingWindow
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
from ..operators.aggregations import AggregateWith, Reduce
from ..operators.operator import Emit, Side
from .aggregate_sessions import Columns, FoldedSessions, SessionTable
from .keyed.groups import Grouped, Groups, bytes_of, grouped, last_rows, usable
from .keyed.stored_rows import RowStore, StoredRows, Versions, at_points, changes, stored_columns, without_halves
from .node import Edges, RowFailedError, TaskEpoch, step_name
from .rows import Rows, is_old
from .session_merging import Merged
from .sliding.aggregate_sliding import FoldedWindows, SlidingTable, changed_windows
from .sliding.one_by_one import Updates

# Calls of a project's reducers and aggregators: arguments, results and errors.


class Fold(ABC):
    """Folds the records of a group into one row with a function or class of the project. `states`: the type of the row.

    `state`: the row so far, None without one. `key`, `value`: of a record. All methods raise FunctionError.
    """

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        self.function = function
        self.states = RowType(columns)

    @abstractmethod
    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:
        """The row with one more record; None deletes it."""

    @abstractmethod
    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """The row without one of its records; None deletes it."""

    @abstractmethod
    def merge(self, first: Row, second: Row) -> Row | None:
        """One row from the rows of two merged sessions."""

    def kept(self, state: Row | None, what: str) -> Row:
        """The state, which must not be None: a row of `what` stays until it expires. Raises FunctionResultError."""
        if state is None:
            name = self.function.name
            message = f"{name} returned None, which deletes a row; that of a {what} stays until it expires"
            noun = what.removeprefix("sliding ")
            raise FunctionResultError(name, message, f"let a column say that the {noun} does not count")
        return state

    def values(self, rows: Rows, names: Sequence[str]) -> list[Row]:
        """The values of rows as objects; all fields are None for a null value. Raises RowFailedError."""
        try:
            return _objects({name: rows.columns[name] for name in names}, len(rows))
        except UnfitRowError as error:
            cause = FunctionInputError(self.function.name, error.cause)
            raise RowFailedError(int(rows.order[error.row]), cause) from error

    def _row(self, call: Callable[..., Any], *arguments: Any, what: str = "") -> Row | None:
        """The result of a call as a row; None for None. `what`: the method of a class, for errors.

        Raises FunctionRaisedError, FunctionResultError.
        """
        try:
            returned = call(*arguments)
        except BaseException as error:
            if is_interrupt_or_out_of_memory(error):
                raise
            raise FunctionRaisedError(self.function, error, what) from error
        if returned is None:
            return None
        try:
            return self.states.of(returned)
        except UnfitValueError as error:
            name = f"{self.function.name}{f' ({what})' if what else ''}"
            message = f"{name} returned {short_repr(returned)}: {error.cause}"
            hint = f"its columns are {', '.join(self.states.columns)}"
            raise FunctionResultError(self.function.name, message, hint) from error


class ReduceFold(Fold):
    """`reduce`: the first value becomes the row. The function combines the row with each later value."""

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        super().__init__(function, columns)
        self._reduce = load(function)

    def add(self, state: Row | None, key: Row, value: Row) -> Row | None:  # noqa: ARG002 - a reducer gets no key
        """See `Fold`."""
        return value if state is None else self.merge(state, value)

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """Not implemented: `reduce` is for streams."""
        raise NotImplementedError

    def merge(self, first: Row, second: Row) -> Row | None:
        """The function combines two rows."""
        return self._row(self._reduce, self.states.copy(first), self.states.copy(second))


class AggregatorFold(Fold):
    """`aggregate` with a class: `initial()`, `add(state, key, value)`; for tables `subtract`, for sessions `merge`.

    Each epoch has a new object of the class. Raises FunctionRaisedError if the constructor raises.
    """

    def __init__(self, function: PythonFunction, columns: Mapping[str, pa.DataType]) -> None:
        super().__init__(function, columns)
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
            state = self._row(self._aggregator.initial, what="initial")
        return self._row(self._aggregator.add, self.states.copy(state), key, copied(value), what="add")

    def subtract(self, state: Row, key: Row, value: Row) -> Row | None:
        """See `Fold`."""
        return self._row(self._aggregator.subtract, self.states.copy(state), key, copied(value), what="subtract")

    def merge(self, first: Row, second: Row) -> Row | None:
        """See `Fold`."""
        return self._row(self._aggregator.merge, self.states.copy(first), self.states.copy(second), what="merge")


def _objects(columns: Columns, count: int) -> list[Row]:
    return RowType({name: column.type for name, column in columns.items()}).rows(columns, np.ones(count, np.bool_))


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
        values = self.fold.values(rows, value)
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


def _versions(kind: RowType, at_points: Sequence[tuple[Row | None, int]]) -> Versions:
    states = [state for state, _ in at_points]
    exists: Bools = np.fromiter((state is not None for state in states), np.bool_, len(states))
    times: Int64s = np.fromiter((time for _, time in at_points), np.int64, len(at_points))
    return Versions(kind.to_columns(states), times, exists)


# Folds records into the rows of sessions, record by record. The state of a session is its row.


def fold_sessions(
    fold: Fold,
    rows: Rows,
    merged: Merged,
    stored: Columns,
    order: Int64s,  # noqa: ARG001 - rows come in order
    each: bool,
) -> FoldedSessions:
    """See `SessionFold`."""
    count = len(next(iter(stored.values())))
    before = fold.states.rows(stored, np.ones(count, np.bool_))
    accepted = np.flatnonzero(~merged.late)
    at_row, ends = _session_rows(fold, rows, merged, before)
    states = fold.states.to_columns([*before, *ends])
    point = np.full(len(rows), -1)
    if each:
        point[accepted] = np.arange(len(accepted))
        values = fold.states.to_columns([at_row[row] for row in accepted.tolist()])
    else:
        point[accepted] = count + merged.chain[accepted]
        values = states
    return FoldedSessions(values, point, states, count + np.arange(len(merged.level)))


def _session_rows(fold: Fold, rows: Rows, merged: Merged, before: Sequence[Row]) -> tuple[dict[int, Row], list[Row]]:
    """(Row -> state after it, states at the ends of chains). `before`: the states of the stored sessions."""
    values, keys = fold.values(rows, rows.value), _objects(rows.keys, len(rows))
    parts: defaultdict[int, list[int]] = defaultdict(list)
    for chain, version in zip(*(side.tolist() for side in merged.made_of), strict=True):
        parts[chain].append(version)
    at_row: dict[int, Row] = {}
    current: dict[int, Row] = {}
    for row, chain in enumerate(merged.chain.tolist()):
        if chain < 0:
            continue
        try:
            state = current.get(chain)
            if state is None:
                # Sessions merge in the order of their ends.
                for version in parts[chain]:
                    session = before[-1 - version] if version < 0 else at_row[version]
                    state = session if state is None else fold.kept(fold.merge(state, session), "session")
            current[chain] = at_row[row] = fold.kept(fold.add(state, keys[row], values[row]), "session")
        except FunctionError as error:
            raise RowFailedError(int(rows.order[row]), error) from error
    return at_row, [current[chain] for chain in range(len(merged.level))]


# Folds records into the rows of sliding windows, record by record. The state of a window is its row.


def fold_windows(fold: Fold, rows: Rows, found: Updates, stored: Columns, each: bool) -> FoldedWindows:
    """See `SlidingFold`."""
    count = len(next(iter(stored.values())))
    run = _WindowRows(fold, rows, [*fold.states.rows(stored, np.ones(count, np.bool_))])
    after = list(run.after_updates(found))
    window, group = changed_windows(found)
    last = last_rows(group, len(window))
    ends = fold.states.to_columns([after[update] for update in last.tolist()])
    values = fold.states.to_columns(after) if each else ends
    return FoldedWindows(window, group, values, ends, found.timestamp[last])


@dataclass
class _WindowRows:
    """One fold. `states`: the states of the stored windows, then one for each call of the aggregator.

    Windows share states: a window made from another one continues with its state. `added`: (index of a state, row) ->
    index of the state with this row, so that no call is made twice.
    """

    fold: Fold
    rows: Rows
    states: list[Row]
    added: dict[tuple[int, int], int] = field(default_factory=dict)

    def after_updates(self, found: Updates) -> Iterator[Row]:
        """The row of the window after each update."""
        values, keys = self.fold.values(self.rows, self.rows.value), _objects(self.rows.keys, len(self.rows))
        contents, begin = found.contents.tolist(), (found.ends - np.diff(found.ends, prepend=0)).tolist()
        base = found.base.tolist()
        # Window -> (index of its state, the number of its contents in this state).
        held: dict[int, tuple[int, int]] = {}
        for window, size in zip(found.window.tolist(), found.size.tolist(), strict=True):
            state, have = held.get(window, (base[window], 0))
            for row in contents[begin[window] + have : begin[window] + size]:
                state = self._with(state, row, keys[row], values[row])
            held[window] = state, size
            yield self.states[state]

    def _with(self, state: int, row: int, key: Row, value: Row) -> int:
        """The index of a state with one more row. `state`: the index without it, or -1. Raises RowFailedError."""
        number = self.added.get((state, row))
        if number is None:
            try:
                made = self.fold.add(None if state < 0 else self.states[state], key, value)
                after = self.fold.kept(made, "sliding window")
            except FunctionError as error:
                raise RowFailedError(int(self.rows.order[row]), error) from error
            number = self.added[state, row] = len(self.states)
            self.states.append(after)
        return number


# The operators of the steps `aggregate` with a class, and `reduce`.


def aggregate_with(node: AggregateWith, edges: Edges, epoch: TaskEpoch) -> None:
    """See `AggregateWith`. Raises RowFailedError, FunctionError."""
    fold = AggregatorFold(node.function, stored_columns(node.store))
    edges[node.flow] = _changes(fold, node, node.of, edges[node.flow], epoch)


def reduce_rows(node: Reduce, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Reduce`. Raises RowFailedError, FunctionLoadError."""
    fold = ReduceFold(node.function, stored_columns(node.store))
    edges[node.flow] = _changes(fold, node, "stream", edges[node.flow], epoch)


def _changes(fold: Fold, node: Reduce | AggregateWith, of: Side, rows: Rows, epoch: TaskEpoch) -> Rows:
    """The changes of an operator's table: by key and window, by session, or by sliding window."""
    store, step = node.store, step_name(node)
    if store.type == "session":
        by_calls = partial(fold_sessions, fold)
        return SessionTable(store, by_calls, node.emit, node.old, step, node.headers).run(rows, epoch)
    if isinstance(store.window, SlidingWindow):
        return SlidingTable(store, partial(fold_windows, fold), node.emit, node.old, step).run(rows, epoch)
    return Folding(fold, store, node.emit, node.old, of, step).run(rows, epoch)
