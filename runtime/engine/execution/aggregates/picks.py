"""The aggregates count, min, max, first, last and collect_list. Null arguments are ignored unless noted."""

from __future__ import annotations

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

# The aggregates count(*) and count(x).


@dataclass(frozen=True)
class Count:
    """Counts rows, or rows with an argument that is not null."""

    state: ClassVar[Mapping[str, pa.DataType]] = {"count": pa.int64()}
    type: ClassVar[pa.DataType] = pa.int64()
    subtracts: ClassVar[bool] = True
    by_order: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg) -> Count:  # noqa: ARG004
        """The same aggregate for every argument."""
        return Count()

    def fold(
        self, groups: Groups, state: Mapping[str, pa.Array], values: pa.Array | None
    ) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`."""
        counts = groups.counts(stored_counts(state), counted(groups, values))
        return pa.array(counts), {"count": pa.array(groups.ends(counts))}

    def merge(self, groups: Groups, parts: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """See `Aggregate`."""
        return {"count": pa.array(merged_counts(groups, parts))}

    def result(self, state: Mapping[str, pa.Array]) -> pa.Array:
        """See `Aggregate`."""
        return state["count"].fill_null(0)


def counted(groups: Groups, values: pa.Array | None) -> Bools:
    """Whether each row has a value. True for all rows of `count(*)`."""
    if values is None or values.null_count == 0:
        return np.ones(len(groups.code), np.bool_)
    return to_numpy(values.is_valid()).astype(np.bool_, copy=False)


def stored_counts(state: Mapping[str, pa.Array]) -> Int64s:
    """The `count` column of a state. 0 for a new group."""
    return to_numpy(state["count"].fill_null(0)).astype(np.int64, copy=False)


def merged_counts(groups: Groups, parts: Mapping[str, pa.Array]) -> Int64s:
    """The `count` columns of states, added up by group."""
    return groups.totals(np.zeros(groups.count, np.int64), stored_counts(parts))


# The aggregates min, max, first and last: each picks one of the values.

State = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Extreme:
    """min and max of any type with an order. NaN is above all numbers, strings sort by UTF-8 bytes, structs by field.

    Of equal values (0.0 and -0.0) the first one stays.
    """

    type: pa.DataType
    greatest: bool
    subtracts: ClassVar[bool] = False
    by_order: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg, greatest: bool) -> Extreme:
        """The result has the argument's type."""
        return Extreme(arrow_type(agg.of or agg.type), greatest)

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        """See `Aggregate`."""
        return {"value": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`."""
        assert values is not None
        stored = state["value"]
        order = sort_keys(pa.concat_arrays([stored, values]))
        priority = order if self.greatest else ~order
        valid = counted(groups, values)
        picks = groups.picks(priority[groups.count :], valid, priority[: groups.count], to_numpy(stored.is_valid()))
        return _picked(groups, picks, stored, values)

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """See `Aggregate`."""
        return self.fold(groups, {"value": pa.nulls(groups.count, self.type)}, parts["value"])[1]

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        return state["value"]


@dataclass(frozen=True)
class Position:
    """first and last, in the order of processing. Nulls count unless they are ignored (`first(x, true)`)."""

    type: pa.DataType
    last: bool
    ignore_nulls: bool
    subtracts: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg, last: bool) -> Position:
        """The result has the argument's type. `agg.options`: (ignore nulls,)."""
        return Position(arrow_type(agg.of or agg.type), last, bool(agg.options and agg.options[0]))

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        """See `Aggregate`."""
        return {"value": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`."""
        assert values is not None
        stored, rows = state["value"], np.arange(len(groups.code))
        if self.ignore_nulls:
            valid, has_start = counted(groups, values), to_numpy(stored.is_valid())
        else:
            valid, has_start = np.ones(len(rows), np.bool_), groups.exists
        priority = rows if self.last else -rows
        start = np.full(groups.count, -1 if self.last else 1)
        return _picked(groups, groups.picks(priority, valid, start, has_start), stored, values)

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        return state["value"]


def _picked(groups: Groups, picks: Int64s, stored: pa.Array, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
    """(The picked values at the points, the state at the end). `picks`: see `Groups.picks`.

    Example: rows "a", "b", "t" of groups 0, 1, 0; group 0 has the stored value "s"; points are rows.

        picks    [-1, 1, 2]         -1: the stored value
        values   ["s", "b", "t"]    at the rows
        state    ["t", "b"]         by group
    """
    index = np.where(picks >= 0, picks + groups.count, groups.point_code)
    at_points = pa.concat_arrays([stored, values]).take(pa.array(index, mask=picks == -2))
    return at_points, {"value": groups.end_columns(at_points)}


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
class CollectList:
    """collect_list(x): array<type of x>, empty without values."""

    type: pa.DataType
    subtracts: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg) -> CollectList:
        """The elements of the result have the argument's type."""
        return CollectList(arrow_type(f"array<{agg.of}>") if agg.of else arrow_type(agg.type))

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        """See `Aggregate`."""
        return {"values": self.type}

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`."""
        assert values is not None
        here = counted(groups, values)
        stored = state["values"]
        lengths = to_numpy(pc.list_value_length(stored).fill_null(0)).astype(np.int64)
        owners = np.concatenate([np.repeat(np.arange(groups.count), lengths), groups.code[here]])
        elements = pa.concat_arrays([stored.flatten(), values.filter(pa.array(here))])
        by_group = elements.take(pa.array(np.argsort(owners, kind="stable")))
        starts = np.zeros(groups.count, np.int64)
        np.cumsum(np.bincount(owners, minlength=groups.count)[:-1], out=starts[1:])
        at_points = self._lists(by_group, starts[groups.point_code], groups.totals(lengths, here.astype(np.int64)))
        return at_points, {"values": groups.end_columns(at_points)}

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        lists = state["values"]
        return pa.ListArray.from_arrays(_offsets(pc.list_value_length(lists).fill_null(0)), lists.flatten(), self.type)

    def _lists(self, elements: pa.Array, starts: Int64s, lengths: Int64s) -> pa.Array:
        """A list for each point. `elements`: of all groups, one group after another. `starts`, `lengths`: of the lists.

        Example: group 0 has the stored list [7], then row 0 adds 1 and row 2 adds 3. Row 1 adds 2 to group 1.

            elements   [7, 1, 3, 2]
            starts     [0, 3, 0]
            lengths    [2, 1, 3]
            result     [[7, 1], [2], [7, 1, 3]]
        """
        offsets = _offsets(pa.array(lengths))
        begins = to_numpy(offsets)[:-1].astype(np.int64)
        index = np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum()))
        return pa.ListArray.from_arrays(offsets, elements.take(pa.array(index)), self.type)


def _offsets(lengths: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    return pa.array(offsets)


# first, last and collect_list for groups that are merged, as sessions are. They keep the order of each value's record.
#
# Results are in the order of processing. Two sessions may have taken records in turn. So without that order, the first
# value of the merged session is unknown.


def with_order(values: pa.Array, order: Int64s) -> pa.Array:
    """The argument of these aggregates: a struct of each row's value and its order, an ascending number."""
    return pa.StructArray.from_arrays([values, pa.array(order)], ["value", "order"])


@dataclass(frozen=True)
class OrderedPosition:
    """first and last for groups that are merged, see `Position`."""

    plain: Position
    subtracts: ClassVar[bool] = False
    by_order: ClassVar[bool] = True

    @property
    def type(self) -> pa.DataType:
        """See `Aggregate`."""
        return self.plain.type

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        """See `Aggregate`."""
        return {"value": self.type, "order": pa.int64()}

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`. `values`: see `with_order`."""
        assert values is not None
        rows = {name: pc.struct_field(values, name) for name in ("value", "order")}
        valid = counted(groups, rows["value"]) if self.plain.ignore_nulls else np.ones(len(values), np.bool_)
        number = np.arange(len(values))
        # Rows are later than all stored values.
        start = np.full(groups.count, -1 if self.plain.last else 1)
        priority = number if self.plain.last else -number
        picks = groups.picks(priority, valid, start, to_numpy(state["order"].is_valid()))
        index = np.where(picks >= 0, picks + groups.count, groups.point_code)
        places = pa.array(index, mask=picks == -2)
        at_points = {name: pa.concat_arrays([state[name], rows[name]]).take(places) for name in rows}
        return at_points["value"], {name: groups.end_columns(column) for name, column in at_points.items()}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """See `Aggregate`."""
        # The value with the least order (first) or the greatest order (last) of each group. For first, values
        # ["a", "b", "d"] with orders [5, 3, 4] in groups [0, 0, 1] give ["b", "d"] with orders [3, 4].
        order = to_numpy(parts["order"].fill_null(0)).astype(np.int64)
        valid = to_numpy(parts["order"].is_valid())
        nothing = np.zeros(groups.count, np.int64)
        priority = order if self.plain.last else -order
        picks = groups.picks(priority, valid, nothing, np.zeros(groups.count, np.bool_))
        places = pa.array(np.maximum(picks, 0), mask=picks < 0)
        return {name: parts[name].take(places) for name in self.state}

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        return state["value"]


@dataclass(frozen=True)
class OrderedList:
    """collect_list for groups that are merged, see `CollectList`."""

    plain: CollectList
    subtracts: ClassVar[bool] = False
    by_order: ClassVar[bool] = True

    @property
    def type(self) -> pa.DataType:
        """See `Aggregate`."""
        return self.plain.type

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        """See `Aggregate`."""
        return {"values": self.type, "orders": pa.list_(pa.int64())}

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`. `values`: see `with_order`."""
        assert values is not None
        value, order = pc.struct_field(values, "value"), pc.struct_field(values, "order")
        orders = pc.if_else(value.is_valid(), order, pa.scalar(None, pa.int64()))
        at_points, ends = self.plain.fold(groups, {"values": state["values"]}, value)
        _, order_ends = CollectList(pa.list_(pa.int64())).fold(groups, {"values": state["orders"]}, orders)
        return at_points, {**ends, "orders": order_ends["values"]}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """See `MergeableAggregate`. Sorts the elements of each group by order.

        Example: parts 0 and 1 are merged into group 0, part 2 is group 1.

            values   [["a", "c"], ["b"], ["d"]]   ->   [["a", "b", "c"], ["d"]]
            orders   [[1, 5], [3], [4]]           ->   [[1, 3, 5], [4]]
        """
        lengths = to_numpy(pc.list_value_length(parts["values"]).fill_null(0)).astype(np.int64)
        owner = np.repeat(groups.code, lengths)
        orders = parts["orders"].flatten()
        place = pa.array(np.lexsort((to_numpy(orders), owner)))
        offsets = np.zeros(groups.count + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=groups.count), out=offsets[1:])
        joined = {"values": parts["values"].flatten().take(place), "orders": orders.take(place)}
        return {
            name: pa.ListArray.from_arrays(pa.array(offsets), joined[name], data_type)
            for name, data_type in self.state.items()
        }

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        return self.plain.result({"values": state["values"]})
