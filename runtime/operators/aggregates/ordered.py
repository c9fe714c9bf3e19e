"""first, last and collect_list where groups are joined, as sessions are: with each value goes the order of its record.

Results are by order of processing. Two sessions may have taken their records in turn, so their values alone do not say
what the first one of both is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Int64s, to_numpy
from ..keyed.groups import Groups
from .counts import counted
from .lists import CollectList
from .picks import Position

State = Mapping[str, pa.Array]


def with_order(values: pa.Array, order: Int64s) -> pa.Array:
    """The argument of these aggregates: a struct of each row's value and its order, a number that grows."""
    return pa.StructArray.from_arrays([values, pa.array(order)], ["value", "order"])


@dataclass(frozen=True)
class OrderedPosition:
    """first and last, see `Position`."""

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
        # Rows come after all that is stored.
        start = np.full(groups.count, -1 if self.plain.last else 1)
        priority = number if self.plain.last else -number
        picks = groups.picks(priority, valid, start, to_numpy(state["order"].is_valid()))
        index = np.where(picks >= 0, picks + groups.count, groups.point_code)
        places = pa.array(index, mask=picks == -2)
        at_points = {name: pa.concat_arrays([state[name], rows[name]]).take(places) for name in rows}
        return at_points["value"], {name: groups.end_columns(column) for name, column in at_points.items()}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """See `Aggregate`."""
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
    """collect_list, see `CollectList`."""

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
        """See `Aggregate`."""
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
