"""The aggregate approx_count_distinct: a trimmed theta sketch of the datasketches package.

A theta sketch hashes each value and keeps the smallest hashes. A trimmed sketch keeps at most its nominal number of
hashes, and theta, the smallest rejected hash. Both depend only on the set of values. So the estimate and the stored
bytes do not depend on order, repetition or the ends of epochs. (The estimate of the package's HyperLogLog depends on
the order in which its registers were raised.) The count is exact until a hash is rejected.

Values are equal if their encoded keys are equal: NaN is one value, and so are 0.0 and -0.0. The hash is not Spark's, so
estimates differ from Spark's within the same bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from typing import ClassVar

import numpy as np
import pyarrow as pa
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch

from ....ir.topology import Agg
from ....records.keys import encode_keys
from ..keyed.groups import Groups, group_by
from .picks import Aggregate, State, counted


@dataclass(frozen=True)
class ApproxCountDistinct(Aggregate):
    """approx_count_distinct(x[, rsd]): bigint.

    It keeps at most 2**bits hashes. The relative deviation is 1 / 2**(bits / 2).
    """

    bits: int
    state: ClassVar[Mapping[str, pa.DataType]] = {"sketch": pa.binary()}
    type = pa.int64()

    @staticmethod
    def of(agg: Agg) -> ApproxCountDistinct:
        """The aggregate with enough hashes for its deviation (0.05 by default): 32 to 65,536 of them."""
        deviation = float(agg.options[0]) if agg.options else 0.05
        return ApproxCountDistinct(min(16, max(5, ceil(-2 * log2(deviation)))))

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Each distinct value of a group is added once, at the first row with it.

        Example: new groups, points are rows.

            groups.code   [1, 0, 1, 1]
            values        ["x", "y", "x", "z"]
            result        [1, 1, 1, 2]            at the rows
            at the end    [1, 2]                  by group
        """
        here = np.flatnonzero(counted(groups, values))
        keys = encode_keys([values.take(pa.array(here))])
        _, first = group_by([pa.array(groups.code[here]), keys])
        rows = here[first]
        # The package accepts text but no bytes. One character for each byte keeps different keys different.
        texts = [key.decode("latin-1") for key in keys.take(pa.array(first)).to_pylist()]
        order = np.argsort(groups.code[rows], kind="stable")
        present, starts = np.unique(groups.code[rows[order]], return_index=True)
        sketches = state["sketch"].to_pylist()
        moves = np.zeros(len(groups.code), np.int64)
        ends = np.append(starts, len(order))[1:]
        for group, start, end in zip(present.tolist(), starts, ends, strict=True):
            of_group = order[start:end]
            added = [texts[index] for index in of_group.tolist()]
            if groups.each:
                moves[rows[of_group]], sketches[group] = self._add_each(sketches[group], added)
            else:
                sketches[group] = self._add(sketches[group], added)
        after = {"sketch": pa.array(sketches, pa.binary())}
        if groups.each:
            return pa.array(groups.totals(self.result(state).to_numpy(), moves)), after
        return self.result(after), after

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        merged: list[bytes | None] = [None] * groups.count
        for group, sketch in zip(groups.code.tolist(), parts["sketch"].to_pylist(), strict=True):
            if sketch is not None:
                union = self._union(merged[group])
                union.update(compact_theta_sketch.deserialize(sketch))
                merged[group] = union.get_result().serialize()
        return {"sketch": pa.array(merged, pa.binary())}

    def result(self, state: State) -> pa.Array:
        return pa.array([_stored_estimate(data) for data in state["sketch"].to_pylist()], pa.int64())

    def _add(self, stored: bytes | None, texts: Sequence[str]) -> bytes:
        """The sketch with these values added."""
        fresh = update_theta_sketch(self.bits)
        for text in texts:
            fresh.update(text)
        union = self._union(stored)
        union.update(fresh)
        data: bytes = union.get_result().serialize()
        return data

    def _add_each(self, stored: bytes | None, texts: Sequence[str]) -> tuple[list[int], bytes]:
        """(The change of the estimate by each of these values, the sketch with all of them)."""
        union = self._union(stored)
        sketch = union.get_result(ordered=False)
        single = update_theta_sketch(self.bits)
        estimates = [_estimate(sketch)]
        for text in texts:
            single.reset()
            single.update(text)
            # A full sketch rejects most values. Comparing the hash is faster than a union.
            if next(iter(single)) < sketch.theta64:
                union.update(single)
                sketch = union.get_result(ordered=False)
            estimates.append(_estimate(sketch))
        return [after - before for before, after in pairwise(estimates)], union.get_result().serialize()

    def _union(self, stored: bytes | None) -> theta_union:
        union = theta_union(self.bits)
        if stored is not None:
            union.update(compact_theta_sketch.deserialize(stored))
        return union


def _estimate(sketch: compact_theta_sketch) -> int:
    estimate: int = round(sketch.get_estimate())
    return estimate


def _stored_estimate(data: bytes | None) -> int:
    return 0 if data is None else _estimate(compact_theta_sketch.deserialize(data))
