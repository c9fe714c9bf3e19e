"""The aggregates count(*) and count(x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s, to_numpy
from ...topology import Agg
from ..keyed.groups import Groups


@dataclass(frozen=True)
class Count:
    """Counts rows, or rows whose argument is not null."""

    state: ClassVar[Mapping[str, pa.DataType]] = {"count": pa.int64()}
    type: ClassVar[pa.DataType] = pa.int64()
    subtracts: ClassVar[bool] = True
    by_order: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg) -> Count:  # noqa: ARG004
        """The same for every argument."""
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
    """Which rows have a value; all of them for `count(*)`."""
    if values is None or values.null_count == 0:
        return np.ones(len(groups.code), np.bool_)
    return to_numpy(values.is_valid()).astype(np.bool_, copy=False)


def stored_counts(state: Mapping[str, pa.Array]) -> Int64s:
    """The `count` column of a state; 0 for a new group."""
    return to_numpy(state["count"].fill_null(0)).astype(np.int64, copy=False)


def merged_counts(groups: Groups, parts: Mapping[str, pa.Array]) -> Int64s:
    """The `count` columns of states, added up by group."""
    return groups.totals(np.zeros(groups.count, np.int64), stored_counts(parts))
