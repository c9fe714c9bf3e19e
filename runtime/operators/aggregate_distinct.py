"""approx_count_distinct: HyperLogLog registers, and Ertl's estimate of them.

The estimate (O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6) depends on
the registers alone, and those on the set of values alone: not on order, nor on cuts. It needs no tables of corrections.
Values are equal when their keys are: NaN is one value, 0.0 and -0.0 are one. Not Spark's hash, so estimates differ
from Spark's within the same bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log, log2
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..log.keys import binary_parts, encode_keys
from ..log.murmur2 import murmur2
from ..topology import Agg
from .aggregate_counts import counted
from .groups import Groups
from .rows import Int64s

State = Mapping[str, pa.Array]
_HASH_BITS = 64


@dataclass(frozen=True)
class ApproxCountDistinct:
    """approx_count_distinct(x[, rsd]): bigint. `bits`: 2**bits registers, relative deviation 1.04 / 2**(bits / 2)."""

    bits: int
    state: ClassVar[Mapping[str, pa.DataType]] = {"registers": pa.binary()}
    type: ClassVar[pa.DataType] = pa.int64()
    subtracts: ClassVar[bool] = False

    @staticmethod
    def of(agg: Agg) -> ApproxCountDistinct:
        """As many registers as Spark takes for the same deviation (0.05 by default), 16 to 65,536."""
        deviation = float(agg.options[0]) if agg.options else 0.05
        return ApproxCountDistinct(min(16, max(4, ceil(2 * log2(1.106 / deviation)))))

    def fold(self, groups: Groups, state: State, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """See `Aggregate`."""
        assert values is not None
        here = np.flatnonzero(counted(groups, values))
        stored = self._registers(state)
        registers = stored.copy()
        cell, rank = self._cells(values.take(pa.array(here)))
        cell += groups.code[here] << self.bits
        flat = registers.reshape(-1)
        np.maximum.at(flat, cell, rank)
        ends = {"registers": _pack(registers)}
        if not groups.each:
            return self._estimates(_histograms(registers)), ends
        return self._estimates(self._running(groups, stored, here, cell, rank)), ends

    def result(self, state: State) -> pa.Array:
        """See `Aggregate`."""
        return self._estimates(_histograms(self._registers(state)))

    def _registers(self, state: State) -> npt.NDArray[np.uint8]:
        empty = bytes(1 << self.bits)
        rows = [empty if row is None else row for row in state["registers"].to_pylist()]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), 1 << self.bits)

    def _cells(self, values: pa.Array) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """(register, rank) of each value: the first bits of its hash, and where the first 1 is in the others."""
        keys = encode_keys([values])
        salted = pa.array([b"\x02"] * len(keys), pa.binary())
        halves = [murmur2(*binary_parts(part)) for part in (keys, pc.binary_join_element_wise(salted, keys, b""))]
        high, low = (half.astype(np.uint32).astype(np.uint64) for half in halves)
        hashes = (high << np.uint64(32)) | low
        others = hashes << np.uint64(self.bits)
        _, length = np.frexp((others >> np.uint64(11)).astype(np.float64))
        rank = np.where(others >> np.uint64(11) == 0, _HASH_BITS - self.bits + 1, 53 - length + 1)
        rank = np.minimum(rank, _HASH_BITS - self.bits + 1)
        return (hashes >> np.uint64(_HASH_BITS - self.bits)).astype(np.int64), rank.astype(np.uint8)

    def _running(
        self, groups: Groups, stored: npt.NDArray[np.uint8], here: Int64s, cell: Int64s, rank: npt.NDArray[np.uint8]
    ) -> Int64s:
        """Histograms of the registers after each row: every row moves one register, if any."""
        bins = int(max(rank.max(initial=0), stored.max(initial=0))) + 1
        start = _histograms(stored)[:, :bins]
        moves = np.zeros((len(groups.code), bins), np.int64)
        cells, code = np.unique(cell, return_inverse=True)
        if len(cells):
            by_cell = Groups(code, len(cells), True, np.ones(len(cells), np.bool_))
            before = stored.reshape(-1)[cells].astype(np.int64)
            after = by_cell.maxima(before, rank.astype(np.int64))
            previous = np.where(by_cell.previous < 0, before[code], after[by_cell.previous])
            moves[here, previous] -= 1
            moves[here, after] += 1
        return groups.totals(start, moves)

    def _estimates(self, histograms: Int64s) -> pa.Array:
        registers, last = 1 << self.bits, _HASH_BITS - self.bits + 1
        counts = np.zeros((len(histograms), last + 1))
        counts[:, : histograms.shape[1]] = histograms[:, : last + 1]
        z = registers * _tau(1 - counts[:, last] / registers)
        for rank in range(last - 1, 0, -1):
            z = 0.5 * (z + counts[:, rank])
        with np.errstate(divide="ignore"):
            z += registers * _sigma(counts[:, 0] / registers)
            estimate = registers * registers / (2 * log(2) * z)
        return pa.array(np.rint(estimate).astype(np.int64))


def _pack(registers: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.array(registers.view(f"V{registers.shape[1]}").ravel().tolist(), pa.binary())


def _histograms(registers: npt.NDArray[np.uint8]) -> Int64s:
    """How many registers of each row have each rank."""
    rows, width = registers.shape
    cells = np.repeat(np.arange(rows) * _HASH_BITS, width) + registers.reshape(-1)
    return np.bincount(cells, minlength=rows * _HASH_BITS).reshape(rows, _HASH_BITS)


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x + sum of x**(2**k) * 2**(k - 1); infinite at 1, where no register is set."""
    power, factor, total = x.copy(), 1.0, x.copy()
    while True:
        power = power * power
        more = total + np.where(x < 1, power * factor, np.inf)
        factor += factor
        if (more == total).all():
            return total
        total = more


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - x - sum of (1 - x**(2**-k))**2 * 2**-k) / 3."""
    root, factor, total = x.copy(), 1.0, 1 - x
    while True:
        root = np.sqrt(root)
        factor *= 0.5
        more = total - (1 - root) ** 2 * factor
        if (more == total).all():
            return np.where((x == 0) | (x == 1), 0.0, total / 3)
        total = more
