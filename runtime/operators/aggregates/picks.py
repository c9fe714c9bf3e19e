"""The aggregates min, max, first and last, which pick one of the values that they saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Int64s, to_numpy
from ...records.keys.encoding import encode_keys
from ...records.types import arrow_type
from ...topology import Agg
from ..keyed.groups import Groups
from .counts import counted

State = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Extreme:
    """min and max of any type that has an order: NaN is above all numbers, strings sort by UTF-8 bytes, structs by
    field.

    Of equal values (0.0 and -0.0) the one seen first stays.
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
    """first and last, by order of processing. Nulls count unless they are ignored (`first(x, true)`)."""

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
    index = np.where(picks >= 0, picks + groups.count, groups.point_code)
    at_points = pa.concat_arrays([stored, values]).take(pa.array(index, mask=picks == -2))
    return at_points, {"value": groups.end_columns(at_points)}


def sort_keys(column: pa.Array) -> Int64s:
    """Numbers in the order of the values, equal for equal values. Those of nulls are arbitrary."""
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
        # The bits of positive doubles already sort like integers; those of negative ones sort backwards.
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    ordered = column if pa.types.is_string(data_type) or pa.types.is_binary(data_type) else encode_keys([column])
    return to_numpy(pc.rank(ordered, tiebreaker="dense")).astype(np.int64)
