"""The aggregates count, min, max, first, last and collect_list, and the base of all aggregates.

Null arguments are ignored unless noted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Agg
from ....records.arrays import Bools, Int64s, to_numpy
from ....records.keys import encode_keys
from ....records.types import arrow_type
from ..keyed.groups import Groups

State = Mapping[str, pa.Array]


class Aggregate(ABC):
    """One aggregate function over one column.

    `type`: of the result. `subtracts`: whether rows can be removed again (`Groups.sign`). `by_order`: whether its
    argument is from `with_order`.
    """

    type: pa.DataType
    subtracts: ClassVar[bool] = False
    by_order: bool = False

    @property
    @abstractmethod
    def state(self) -> Mapping[str, pa.DataType]:
        """Its hidden columns by suffix. In a store they are called `<result column>.<suffix>`."""

    @abstractmethod
    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Fold rows. Returns (the result at each point, the state of each group at the end).

        `state`: one value for each group, null for a new group. `values`: the argument, one value for each row; None
        for `count(*)`.
        """

    @abstractmethod
    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """The states of groups that are merged, as sessions are. `fold` continues from them.

        `parts`: the states to merge, in the order of merging. `groups.code`: the merged group of each part.
        """

    @abstractmethod
    def result(self, state: State) -> pa.Array:
        """The results, one for each state."""


# The aggregates count(*) and count(x).


@dataclass(frozen=True)
class Count(Aggregate):
    """Counts rows, or rows with an argument that is not null."""

    state: ClassVar[Mapping[str, pa.DataType]] = {"count": pa.int64()}
    type = pa.int64()
    subtracts: ClassVar[bool] = True

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        counts = groups.counts(stored_counts(state), counted(groups, values))
        return pa.array(counts), {"count": pa.array(groups.ends(counts))}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        return {"count": pa.array(merged_counts(groups, parts))}

    def result(self, state: State) -> pa.Array:
        return state["count"].fill_null(0)


def counted(groups: Groups, values: pa.Array) -> Bools:
    """Whether each row has a value. True for all rows of `count(*)`, where `values` is None."""
    if values is None or values.null_count == 0:
        return np.ones(len(groups.code), np.bool_)
    return to_numpy(values.is_valid()).astype(np.bool_, copy=False)


def stored_counts(state: State) -> Int64s:
    """The `count` column of a state. 0 for a new group."""
    return to_numpy(state["count"].fill_null(0)).astype(np.int64, copy=False)


def merged_counts(groups: Groups, parts: State) -> Int64s:
    """The `count` columns of states, added up by group."""
    return groups.totals(np.zeros(groups.count, np.int64), stored_counts(parts))


# The aggregates min, max, first and last: each picks one of the values.


@dataclass(frozen=True)
class Extreme(Aggregate):
    """min and max of any type with an order. NaN is above all numbers, strings sort by UTF-8 bytes, structs by field.

    Of equal values (0.0 and -0.0) the first one stays.
    """

    type: pa.DataType
    greatest: bool

    @staticmethod
    def of(agg: Agg, greatest: bool) -> Extreme:
        """The result has the argument's type."""
        return Extreme(arrow_type(agg.of or agg.type), greatest)

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        return {"value": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        stored = state["value"]
        order = sort_keys(pa.concat_arrays([stored, values]))
        priority = order if self.greatest else ~order
        valid = counted(groups, values)
        picks = groups.picks(priority[groups.count :], valid, priority[: groups.count], to_numpy(stored.is_valid()))
        return _picked(groups, picks, state, {"value": values})

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        return self.fold(groups, {"value": pa.nulls(groups.count, self.type)}, parts["value"])[1]

    def result(self, state: State) -> pa.Array:
        return state["value"]


@dataclass(frozen=True)
class Position(Aggregate):
    """first and last, in the order of processing. Nulls count unless they are ignored (`first(x, true)`).

    `by_order`: for groups that are merged, see `with_order`.
    """

    type: pa.DataType
    last: bool
    ignore_nulls: bool
    by_order: bool = False

    @staticmethod
    def of(agg: Agg, last: bool) -> Position:
        """The result has the argument's type. `agg.options`: (ignore nulls,)."""
        return Position(arrow_type(agg.of or agg.type), last, bool(agg.options and agg.options[0]))

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        return {"value": self.type, "order": pa.int64()} if self.by_order else {"value": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        rows = {name: pc.struct_field(values, name) for name in state} if self.by_order else {"value": values}
        valid = counted(groups, rows["value"]) if self.ignore_nulls else np.ones(len(values), np.bool_)
        if self.by_order or self.ignore_nulls:
            has_start = to_numpy(state["order" if self.by_order else "value"].is_valid())
        else:
            has_start = groups.exists
        number = np.arange(len(values))
        # Rows are later than all stored values.
        start = np.full(groups.count, -1 if self.last else 1)
        picks = groups.picks(number if self.last else -number, valid, start, has_start)
        return _picked(groups, picks, state, rows)

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        # The value with the least order (first) or the greatest order (last) of each group. For first, values
        # ["a", "b", "d"] with orders [5, 3, 4] in groups [0, 0, 1] give ["b", "d"] with orders [3, 4].
        order = to_numpy(parts["order"].fill_null(0)).astype(np.int64)
        valid = to_numpy(parts["order"].is_valid())
        nothing = np.zeros(groups.count, np.int64)
        picks = groups.picks(order if self.last else -order, valid, nothing, nothing.astype(np.bool_))
        places = pa.array(picks, mask=picks < 0)
        return {name: parts[name].take(places) for name in self.state}

    def result(self, state: State) -> pa.Array:
        return state["value"]


def _picked(groups: Groups, picks: Int64s, state: State, rows: State) -> tuple[pa.Array, dict[str, pa.Array]]:
    """(The picked values at the points, the state at the end). `picks`: see `Groups.picks`. `rows`: as in `state`.

    Example: rows "a", "b", "t" of groups 0, 1, 0; group 0 has the stored value "s"; points are rows.

        picks    [-1, 1, 2]         -1: the stored value
        values   ["s", "b", "t"]    at the rows
        state    ["t", "b"]         by group
    """
    index = np.where(picks >= 0, picks + groups.count, groups.point_code)
    places = pa.array(index, mask=picks == -2)
    at_points = {name: pa.concat_arrays([state[name], column]).take(places) for name, column in rows.items()}
    return at_points["value"], {name: groups.end_columns(column) for name, column in at_points.items()}


def sort_keys(column: pa.Array) -> Int64s:
    """Numbers that sort as the values do, equal for equal values: int64. Numbers of nulls are arbitrary.

    Example: 0.0 and -0.0 are equal, NaN is the greatest number.

        [1.5, -2.0, NaN, -0.0, 0.0]   [4609434218613702656, -4611686018427387905, 9221120237041090560, 0, 0]
        ["b", "a", "b"]               [2, 1, 2]
    """
    data_type = column.type
    if pa.types.is_integer(data_type) or pa.types.is_boolean(data_type):
        return to_numpy(column.fill_null(0 if pa.types.is_integer(data_type) else False)).astype(np.int64, copy=False)
    if pa.types.is_date32(data_type):
        return to_numpy(column.cast(pa.int32()).fill_null(0)).astype(np.int64)
    if pa.types.is_timestamp(data_type):
        return to_numpy(column.cast(pa.int64()).fill_null(0))
    if pa.types.is_floating(data_type):
        values = to_numpy(column.fill_null(0)).astype(np.float64)
        bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
        # The bits of positive doubles sort like integers. Those of negative doubles sort in reverse.
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    ordered = column if pa.types.is_string(data_type) or pa.types.is_binary(data_type) else encode_keys([column])
    return to_numpy(pc.rank(ordered, tiebreaker="dense")).astype(np.int64)


# The aggregate collect_list: all values that are not null, in the order of processing.


@dataclass(frozen=True)
class CollectList(Aggregate):
    """collect_list(x): array<type of x>, empty without values. `by_order`: as in `Position`."""

    type: pa.DataType
    by_order: bool = False

    @staticmethod
    def of(agg: Agg) -> CollectList:
        """The elements of the result have the argument's type."""
        return CollectList(arrow_type(f"array<{agg.of}>") if agg.of else arrow_type(agg.type))

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        return {"values": self.type, "orders": pa.list_(pa.int64())} if self.by_order else {"values": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        rows = {"values": values}
        if self.by_order:
            value, order = pc.struct_field(values, "value"), pc.struct_field(values, "order")
            rows = {"values": value, "orders": pc.if_else(value.is_valid(), order, pa.scalar(None, pa.int64()))}
        at_points = {name: _extended(groups, state[name], column, self.state[name]) for name, column in rows.items()}
        return at_points["values"], {name: groups.end_columns(column) for name, column in at_points.items()}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """Sorts the elements of each group by order.

        Example: parts 0 and 1 are merged into group 0, part 2 is group 1.

            values   [["a", "c"], ["b"], ["d"]]   ->   [["a", "b", "c"], ["d"]]
            orders   [[1, 5], [3], [4]]           ->   [[1, 3, 5], [4]]
        """
        lengths = to_numpy(pc.list_value_length(parts["values"]).fill_null(0)).astype(np.int64)
        owner = np.repeat(groups.code, lengths)
        place = pa.array(np.lexsort((to_numpy(parts["orders"].flatten()), owner)))
        offsets = _offsets(pa.array(np.bincount(owner, minlength=groups.count)))
        return {
            name: pa.ListArray.from_arrays(offsets, parts[name].flatten().take(place), data_type)
            for name, data_type in self.state.items()
        }

    def result(self, state: State) -> pa.Array:
        lists = state["values"]
        return pa.ListArray.from_arrays(_offsets(pc.list_value_length(lists).fill_null(0)), lists.flatten(), self.type)


def _extended(groups: Groups, stored: pa.Array, values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The lists at the points: the stored list of the group, with the values of its rows up to the point.

    Example: group 0 has the stored list [7], then row 0 adds 1 and row 2 adds 3. Row 1 adds 2 to group 1.

        elements   [7, 1, 3, 2]              of all groups, one group after another
        result     [[7, 1], [2], [7, 1, 3]]  points are rows: they begin at 0, 3 and 0 in `elements`
    """
    here = counted(groups, values)
    lengths = to_numpy(pc.list_value_length(stored).fill_null(0)).astype(np.int64)
    owners = np.concatenate([np.repeat(np.arange(groups.count), lengths), groups.code[here]])
    elements = pa.concat_arrays([stored.flatten(), values.filter(pa.array(here))])
    by_group = elements.take(pa.array(np.argsort(owners, kind="stable")))
    starts = np.zeros(groups.count, np.int64)
    np.cumsum(np.bincount(owners, minlength=groups.count)[:-1], out=starts[1:])
    counts = groups.totals(lengths, here.astype(np.int64))
    offsets = _offsets(pa.array(counts))
    begins = to_numpy(offsets)[:-1].astype(np.int64)
    index = np.repeat(starts[groups.point_code] - begins, counts) + np.arange(int(counts.sum()))
    return pa.ListArray.from_arrays(offsets, by_group.take(pa.array(index)), data_type)


def _offsets(lengths: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    return pa.array(offsets)


def with_order(values: pa.Array, order: Int64s) -> pa.Array:
    """The argument of first, last and collect_list for groups that are merged: each row's value and ascending order.

    Results are in the order of processing. Two sessions may have taken records in turn. So without that order, the
    first value of the merged session is unknown.
    """
    return pa.StructArray.from_arrays([values, pa.array(order)], ["value", "order"])
