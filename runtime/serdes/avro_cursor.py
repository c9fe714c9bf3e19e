"""Reads many Avro values at once: a position in each, and one NumPy operation for all.

A value of Avro has no marks, so its fields can only be read one after the other. But in all values with one schema the
same field comes next:

    payloads                    06 55 41 41 02     04 41 41 04     positions 0, 0
    string, its length          3                  2               positions 1, 1
    string, its bytes           "UAA"              "AA"            positions 4, 3
    int                         1                  2               positions 5, 4, which are the ends
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..records.arrays import Bools, Int64s
from .framing import slices

_LONGEST = 10
"""The bytes of the longest number."""

PADDING = bytes(_LONGEST)

Words = npt.NDArray[np.uint64]


class Cursor:
    """Positions in payloads. `errors`: row -> the first thing in its payload that is no value.

    `data`: ends with `PADDING`, so that a number may be looked for behind the last payload. A row with an error stands
    at its end, and gives zeros and empty values from then on.
    """

    def __init__(self, data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> None:
        self._data = data
        self._at = starts.copy()
        self._ends = starts + lengths
        self.failed: Bools = np.zeros(len(starts), np.bool_)
        self.errors: dict[int, str] = {}

    def left(self, rows: Int64s) -> Int64s:
        """The bytes that are left."""
        left: Int64s = self._ends[rows] - self._at[rows]
        return left

    def fail(self, rows: Int64s, cause: str | Callable[[int], str]) -> None:
        """Note an error of rows. `cause`: of all, or by the number among `rows`."""
        for number, row in enumerate(rows.tolist()):
            self.errors.setdefault(row, cause if isinstance(cause, str) else cause(number))
        self.failed[rows] = True
        self._at[rows] = self._ends[rows]

    def longs(self, rows: Int64s, place: str) -> Int64s:
        """The numbers, of variable length, at the positions."""
        at = self._at[rows]
        byte = self._data[at]
        words = (byte & 0x7F).astype(np.uint64)
        sizes: Int64s = np.ones(len(rows), np.int64)
        more = np.flatnonzero(byte >= 0x80)
        for size in range(1, _LONGEST):
            if not len(more):
                break
            byte = self._data[at[more] + size]
            words[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * size)
            sizes[more] += 1
            more = more[byte >= 0x80]
        if len(more):
            self.fail(rows[more], f"{place} is a number with more than {_LONGEST} bytes")
            words[more], sizes[more] = 0, 0
        words[self._passed(rows, sizes, place)] = 0
        # Zigzag: 0, -1, 1, -2 are 0, 1, 2, 3.
        return ((words >> np.uint64(1)) ^ (np.uint64(0) - (words & np.uint64(1)))).view(np.int64)

    def words(self, rows: Int64s, dtype: str, place: str) -> npt.NDArray[np.generic]:
        """Values of a fixed size: their bytes are those of a NumPy type."""
        size = np.dtype(dtype).itemsize
        at = self._at[rows]
        over = self._passed(rows, np.full(len(rows), size, np.int64), place)
        at[over] = 0
        values: npt.NDArray[np.generic] = self._data[at[:, None] + np.arange(size)].reshape(-1).view(dtype)
        values[over] = 0
        return values

    def slices(self, rows: Int64s, lengths: Int64s, place: str, wanted: bool = True) -> pa.BinaryArray | None:
        """Bytes, copied; None unless they are `wanted`."""
        negative = np.flatnonzero(lengths < 0)
        if len(negative):
            self.fail(rows[negative], lambda number: f"{place} has {lengths[negative[number]]} bytes")
            lengths = np.maximum(lengths, 0)
        at = self._at[rows]
        over = self._passed(rows, lengths, place)
        if not wanted:
            return None
        if over.any():
            lengths = np.where(over, 0, lengths)
        return slices(self._data, at, lengths)

    def end(self, rows: Int64s) -> None:
        """Note an error of rows that have more bytes."""
        left = self.left(rows)
        longer = np.flatnonzero(left)
        if len(longer):
            self.fail(rows[longer], lambda number: f"{left[longer[number]]} bytes are left behind the value")

    def _passed(self, rows: Int64s, sizes: Int64s, place: str) -> Bools:
        """Go on by so many bytes. Which of the rows have not so many, which is an error of theirs."""
        over: Bools = sizes > self._ends[rows] - self._at[rows]
        if over.any():
            self.fail(rows[over], f"the bytes end in {place}")
            sizes = np.where(over, 0, sizes)
        self._at[rows] += sizes
        return over
