"""The aggregate collect_list: all values that are not null, in order of processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Int64s, to_numpy
from ...records.types import arrow_type
from ...topology import Agg
from ..keyed.groups import Groups
from .counts import counted

State = Mapping[str, pa.Array]


@dataclass(frozen=True)
class CollectList:
    """collect_list(x): array<type of x>, empty if there is no value."""

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
        offsets = _offsets(pa.array(lengths))
        begins = to_numpy(offsets)[:-1].astype(np.int64)
        index = np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum()))
        return pa.ListArray.from_arrays(offsets, elements.take(pa.array(index)), self.type)


def _offsets(lengths: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    return pa.array(offsets)
