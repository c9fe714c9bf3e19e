"""Aggregates sessions: folds records into them, and joins the states of sessions that a record brings together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s
from ...topology import Agg
from ..aggregates.ordered import with_order
from ..aggregates.registry import kept_aggregates, mergeable, own_state
from ..aggregates.sums import SumOverflowError
from ..keyed.groups import Groups
from ..node import RowFailedError
from ..rows import Rows
from .merging import Merged

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Folded:
    """`values`: results, by aggregate. `point`: where that of a row's session is in them; -1 for a late row.

    `states`: hidden columns, first those of the stored sessions, then those at the ends of the chains. `chain_end`:
    where that of a chain is in them.
    """

    values: dict[str, pa.Array]
    point: Int64s
    states: dict[str, pa.Array]
    chain_end: Int64s


def fold_sessions(
    aggs: Sequence[Agg], rows: Rows, merged: Merged, stored: Columns, order: Int64s, each: bool
) -> Folded:
    """Fold the rows into their sessions, level by level: a chain begins when those that it is made of have ended.

    `stored`: hidden columns of the stored sessions. `order`: a number of each row that grows from epoch to epoch.
    `each`: with a value for each row, otherwise for the last row of each chain only. Raises RowFailedError.
    """
    kept = kept_aggregates(aggs)
    fold = _Fold(rows, merged, order, each)
    count = len(next(iter(stored.values()))) if stored else 0
    chain_end = fold.chain_ends(count)
    values, states = {}, dict[str, pa.Array]()
    for agg in kept:
        own = own_state(agg, stored, merges=True)
        values[agg.name], ends = fold.aggregate(agg, own, chain_end)
        states |= {f"{agg.name}.{suffix}": column for suffix, column in ends.items()}
    return Folded({agg.name: values[agg.name] for agg in aggs}, fold.points(), states, chain_end)


@dataclass(frozen=True)
class _Level:
    """The chains of one level, their rows in order, and the place of each row's chain among them.

    `one`, `several`: (place, version) of what chains are made of, of one session or of several.
    """

    chains: Int64s
    rows: Int64s
    place: Int64s
    one: tuple[Int64s, Int64s]
    several: tuple[Int64s, Int64s]


@dataclass
class _Fold:
    rows: Rows
    merged: Merged
    order: Int64s
    each: bool
    levels: list[_Level] = field(init=False)

    def __post_init__(self) -> None:
        merged = self.merged
        accepted = np.flatnonzero(~merged.late)
        level_of_row = merged.level[merged.chain[accepted]]
        chain, version = merged.made_of
        alone = np.bincount(chain, minlength=len(merged.level))[chain] == 1
        self.levels = []
        for level in range(int(merged.level.max(initial=-1)) + 1):
            chains = np.flatnonzero(merged.level == level)
            place = np.full(len(merged.level), -1)
            place[chains] = np.arange(len(chains))
            rows = accepted[level_of_row == level]
            here = place[chain] >= 0
            pairs = [(place[chain[which]], version[which]) for which in (here & alone, here & ~alone)]
            self.levels.append(_Level(chains, rows, place[merged.chain[rows]], pairs[0], pairs[1]))

    def chain_ends(self, stored: int) -> Int64s:
        """Where the state of each chain's end is, behind the stored ones."""
        chain_end = np.full(len(self.merged.level), -1)
        begun = stored + np.cumsum([0, *(len(level.chains) for level in self.levels)])
        for level, start in zip(self.levels, begun, strict=False):
            chain_end[level.chains] = start + np.arange(len(level.chains))
        return chain_end

    def points(self) -> Int64s:
        """Where the value of each row's session is among the values; -1 for a late row."""
        point = np.full(len(self.rows), -1)
        done = 0
        for level in self.levels:
            point[level.rows] = done + (np.arange(len(level.rows)) if self.each else level.place)
            done += len(level.rows) if self.each else len(level.chains)
        return point

    def aggregate(self, agg: Agg, stored: Columns, chain_end: Int64s) -> tuple[pa.Array, dict[str, pa.Array]]:
        """(The values of one aggregate, its states.)"""
        function = mergeable(agg)
        argument = None if agg.column is None else self.rows.columns[agg.column]
        if argument is not None and function.by_order:
            argument = with_order(argument, self.order)
        states = {suffix: [stored[suffix].cast(kind)] for suffix, kind in function.state.items()}
        values = [pa.nulls(0, function.type)]
        for level in self.levels:
            known = {suffix: pa.concat_arrays(parts) for suffix, parts in states.items()}
            start, exists = self._start(agg, level, known, chain_end)
            groups = Groups(level.place, len(level.chains), self.each, exists)
            rows = pa.array(level.rows)
            try:
                of_level, ends = function.fold(groups, start, None if argument is None else argument.take(rows))
            except SumOverflowError as error:
                raise self._failed(error, level.rows) from error
            values.append(of_level)
            for suffix, column in ends.items():
                states[suffix].append(column)
        return pa.concat_arrays(values), {suffix: pa.concat_arrays(parts) for suffix, parts in states.items()}

    def _start(self, agg: Agg, level: _Level, known: Columns, chain_end: Int64s) -> tuple[Columns, Bools]:
        """(The states of chains when they begin, and which are not empty then.)"""
        function = mergeable(agg)
        index = np.full(len(level.chains), -1)
        place, version = level.one
        index[place] = self._state_of(version, chain_end)
        place, version = level.several
        # Those that are joined have a number each, in the order of their chains.
        joined, code = np.unique(place, return_inverse=True)
        parts = {suffix: column.take(pa.array(self._state_of(version, chain_end))) for suffix, column in known.items()}
        try:
            made = function.merge(Groups(code, len(joined), False, np.zeros(len(joined), np.bool_)), parts)
        except SumOverflowError as error:
            first = np.full(len(level.chains), -1)
            first[level.place[::-1]] = level.rows[::-1]
            raise self._failed(error, first[place]) from error
        count = len(next(iter(known.values())))
        index[joined] = count + np.arange(len(joined))
        taken = pa.array(np.maximum(index, 0), mask=index < 0)
        start = {
            suffix: pa.concat_arrays([column, made[suffix].cast(column.type)]).take(taken)
            for suffix, column in known.items()
        }
        return start, index >= 0

    def _state_of(self, version: Int64s, chain_end: Int64s) -> Int64s:
        """Where the states of versions are. The version that goes into another chain is the last one of its own."""
        stored = version < 0
        return np.where(stored, -1 - version, chain_end[self.merged.chain[np.where(stored, 0, version)]])

    def _failed(self, error: SumOverflowError, rows: Int64s) -> Exception:
        return error if error.row is None else RowFailedError(int(self.rows.order[rows[error.row]]), error)
