"""Folds records into the rows of their keys, or keys and windows, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...python_functions.errors import FunctionError, FunctionInputError
from ...python_functions.objects import Row, RowType, UnfitRowError
from ...records.arrays import Bools, Int64s
from ...records.kinds import Kind
from ...records.types import parse_columns
from ...timed_parts import timed
from ...topology import Store
from ..declarations import Emit, Side
from ..keyed.changes import Versions, at_points, changes, without_halves
from ..keyed.codes import bytes_of
from ..keyed.grouping import Grouped, grouped, usable
from ..keyed.groups import Groups
from ..keyed.stored_rows import RowStore, StoredRows, stored_columns
from ..node import RowFailedError
from ..rows import Rows, is_old
from ..task_epoch import TaskEpoch
from .calls import Fold


@dataclass(frozen=True)
class Folding:
    """An operator that folds by key, or by key and window: `store`, `emit`, `old`, `of` as of `Aggregate`.

    `step`: the name under which it counts what it drops.
    """

    fold: Fold
    store: Store
    emit: Emit
    old: bool
    of: Side
    step: str

    def run(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        """The changes that records make. Raises RowFailedError."""
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
        """The rows of the groups at the points."""
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
            # A row that begins anew does not depend on earlier times; one that is only half done does.
            times[group] = time if state is None and not was_half else max(times[group], time)
            was_half = is_half and (state is not None or was_half)
            if groups.each:
                at_rows.append((states[group], times[group]))
        return _versions(self.fold.states, at_rows if groups.each else list(zip(states, times, strict=True)))


def values_of(rows: Rows, names: Sequence[str], fold: Fold) -> list[Row]:
    """The values of rows as objects. One of a null value has nulls. Raises RowFailedError."""
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
