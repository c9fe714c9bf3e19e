"""Wide integers in columns: each number is a row of 32-bit limbs, the least significant first, the last one signed.

Sums of limbs need no carries. So they are computed limb by limb over any rows (`Groups.totals`) and normalised once.
2**31 numbers can be added before an int64 limb could overflow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.arrays import Bools, Int64s

MASK = np.int64(0xFFFFFFFF)


def carried(limbs: Int64s) -> Int64s:
    """The same numbers after carrying: all limbs but the last are in 0 to 2**32 - 1."""
    limbs = limbs.copy()
    for index in range(limbs.shape[1] - 1):
        limbs[:, index + 1] += limbs[:, index] >> 32
        limbs[:, index] &= MASK
    return limbs


def from_words(low: Int64s, high: Int64s, width: int) -> Int64s:
    """128-bit integers, given as two's complement words, in `width` (4 or more) limbs."""
    limbs = np.zeros((len(low), width), np.int64)
    limbs[:, 0], limbs[:, 1] = low & MASK, (low >> 32) & MASK
    limbs[:, 2], limbs[:, 3] = high & MASK, high >> 32
    return limbs


def to_words(limbs: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """(low word, high word, whether it fits 128 bits) of carried limbs, at least 5 of them."""
    low, high = limbs[:, 0] | (limbs[:, 1] << 32), limbs[:, 2] | (limbs[:, 3] << 32)
    sign = np.where(limbs[:, -1] < 0, -1, 0)
    fits = (sign == high >> 63) & (limbs[:, -1] == sign)
    for index in range(4, limbs.shape[1] - 1):
        fits &= limbs[:, index] == sign & MASK
    return low, high, fits


def decimal_words(column: pa.Array) -> tuple[Int64s, Int64s]:
    """(low word, high word) of a decimal128 column; those of nulls are arbitrary."""
    words: npt.NDArray[np.int64] = (
        np.frombuffer(column.buffers()[1], np.int64) if len(column) else np.zeros(0, np.int64)
    )
    words = words[2 * column.offset : 2 * (column.offset + len(column))]
    return words[0::2], words[1::2]


def decimals(low: Int64s, high: Int64s, data_type: pa.DataType, null: Bools) -> pa.Array:
    """A decimal128 column from its words."""
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    valid = np.packbits(~null, bitorder="little")
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(data_type, len(low), buffers)


def beyond(limbs: Int64s, digits: int) -> Bools:
    """Which numbers (carried limbs, at least 5) have more than `digits` decimal digits."""
    bound = 10**digits
    words = [(bound >> (32 * index)) & int(MASK) for index in range(limbs.shape[1])]
    sign = np.where(limbs[:, -1] < 0, -1, 1)
    magnitude = carried(limbs * sign[:, None])
    above, equal = np.zeros(len(limbs), np.bool_), np.ones(len(limbs), np.bool_)
    for index in range(limbs.shape[1] - 1, -1, -1):
        above |= equal & (magnitude[:, index] > words[index])
        equal &= magnitude[:, index] == words[index]
    return above | equal
