"""Sums of integers, decimals and doubles without rounding errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....records.arrays import Bools, Int64s
from ..keyed.groups import Groups

# Wide integers as arrays: int64 of shape (numbers, limbs). Each number is a row of 32-bit limbs, the least significant
# first. The last limb is signed.
#
# Sums of limbs need no carries. So they are computed limb by limb (`Groups.totals`) and normalised once. 2**31 numbers
# can be added before an int64 limb could overflow.

MASK = np.int64(0xFFFFFFFF)


def carried(limbs: Int64s) -> Int64s:
    """The same numbers after carrying: all limbs but the last are in 0 to 2**32 - 1.

    Example: 2**32 + 5 and -1.

        limbs    [[4294967301, 0, 0], [-1, 0, 0]]
        result   [[5, 1, 0], [4294967295, 4294967295, -1]]
    """
    limbs = limbs.copy()
    for index in range(limbs.shape[1] - 1):
        limbs[:, index + 1] += limbs[:, index] >> 32
        limbs[:, index] &= MASK
    return limbs


def from_words(low: Int64s, high: Int64s, width: int) -> Int64s:
    """128-bit integers as limbs. `low`, `high`: two's complement words. `width`: the number of limbs, 4 or more.

    Example: 2**32 + 5 is the words (4294967301, 0), -1 is (-1, -1); the width is 4.

        result   [[5, 1, 0, 0], [4294967295, 4294967295, 4294967295, -1]]
    """
    limbs = np.zeros((len(low), width), np.int64)
    limbs[:, 0], limbs[:, 1] = low & MASK, (low >> 32) & MASK
    limbs[:, 2], limbs[:, 3] = high & MASK, high >> 32
    return limbs


def to_words(limbs: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """(Low words, high words, whether each number fits 128 bits). `limbs`: carried, at least 5."""
    low, high = limbs[:, 0] | (limbs[:, 1] << 32), limbs[:, 2] | (limbs[:, 3] << 32)
    sign = np.where(limbs[:, -1] < 0, -1, 0)
    fits = (sign == high >> 63) & (limbs[:, -1] == sign)
    for index in range(4, limbs.shape[1] - 1):
        fits &= limbs[:, index] == sign & MASK
    return low, high, fits


def decimal_words(column: pa.Array) -> tuple[Int64s, Int64s]:
    """(Low words, high words) of a decimal128 column. Words of nulls are arbitrary.

    Example: 1.50 as decimal(5, 2) has the words (150, 0).
    """
    words: npt.NDArray[np.int64] = (
        np.frombuffer(column.buffers()[1], np.int64) if len(column) else np.zeros(0, np.int64)
    )
    words = words[2 * column.offset : 2 * (column.offset + len(column))]
    return words[0::2], words[1::2]


def decimals(low: Int64s, high: Int64s, data_type: pa.DataType, null: Bools) -> pa.Array:
    """A decimal128 column from its words. `null`: a mask.

    Example: low [150, -1] and high [0, -1] as decimal(5, 2) are 1.50 and -0.01.
    """
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    valid = np.packbits(~null, bitorder="little")
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(data_type, len(low), buffers)


def beyond(limbs: Int64s, digits: int) -> Bools:
    """Whether each number has more than `digits` decimal digits. `limbs`: carried, at least 5.

    Example: with 2 digits, 99, 100 and -100 give [False, True, True].
    """
    bound = 10**digits
    words = [(bound >> (32 * index)) & int(MASK) for index in range(limbs.shape[1])]
    sign = np.where(limbs[:, -1] < 0, -1, 1)
    magnitude = carried(limbs * sign[:, None])
    above, equal = np.zeros(len(limbs), np.bool_), np.ones(len(limbs), np.bool_)
    for index in range(limbs.shape[1] - 1, -1, -1):
        above |= equal & (magnitude[:, index] > words[index])
        equal &= magnitude[:, index] == words[index]
    return above | equal


# Exact sums of doubles.
#
# The stored bytes are the same for every order of addition and every cut into epochs. Rows can be removed. A finite
# double is an integer times a power of two, and so is a sum of doubles. While rows are folded, sums are limbs on one
# grid of powers of two: limb i of the grid counts 2**(32 * i - _BIAS). A stored sum is an odd mantissa (two words) and
# an exponent, which is canonical and small. `rest` has larger mantissas, and the counts of NaN and infinities. It is
# nearly always null.

Doubles = npt.NDArray[np.float64]

STATE: Mapping[str, pa.DataType] = {
    "low": pa.int64(),
    "high": pa.int64(),
    "exponent": pa.int16(),
    "rest": pa.binary(),
}
"""The columns of stored sums: mantissa * 2**exponent. `low`, `high`: the mantissa as a 128-bit integer, odd or 0.
`rest`: see `_pack_rest`."""

_BIAS = 1152
"""The bit position of 2**0 on the grid. A multiple of 32 above 1126, the lowest bit of a normalised subnormal."""


@dataclass(frozen=True)
class ExactSums:
    """Sums on the grid. `limbs`: int64 of shape (n, L), with pending carries. Limb 0 has bit position 32 * `lowest`.

    `special`: int64 of shape (n, 3), the counts of NaN, +Inf and -Inf.
    """

    limbs: Int64s
    lowest: int
    special: Int64s

    def take(self, index: Int64s) -> ExactSums:
        """The sums at `index`."""
        return ExactSums(self.limbs[index], self.lowest, self.special[index])

    def rounded(self) -> Doubles:
        """Each sum as the nearest double, ties to even. NaN and infinities are added as in IEEE 754."""
        finite = _rounded(self.limbs, self.lowest)
        if not self.special.any():
            return finite
        nan, positive, negative = self.special.T > 0
        infinite = np.where(positive, np.inf, np.where(negative, -np.inf, finite))
        return np.where(nan | (positive & negative), np.nan, infinite)

    def pack(self) -> dict[str, pa.Array]:
        """The sums as STATE columns."""
        return _pack(carried(self.limbs), self.lowest, self.special)


def fold_sums(groups: Groups, state: Mapping[str, pa.Array], values: Doubles, counted: Bools) -> ExactSums:
    """The sums at the points: stored sums (null: 0) plus the values where `counted` is true.

    Example: two new groups, one value each: 1.5 and -3.0. Limb 36 of the grid counts 2**(32 * 36 - 1152) = 1.

        limbs      [[0, 2147483648, 1, 0, 0], [0, 0, -3, 0, 0]]
        lowest     34       so the limbs are 34 to 38: 1.5 is 1 * 1 + 2147483648 * 2**-32
        rounded()  [1.5, -3.0]
        pack()     low [3, -3], high [0, -1], exponent [-1, 0], rest [None, None]: 3 * 2**-1 and -3 * 2**0
    """
    finite = np.isfinite(values) & counted
    mantissa, limb, shift = _split(np.where(finite, values, 0.0))
    used = mantissa != 0
    stored = _stored(state)
    lowest = int(limb[used].min(initial=stored.lowest))
    top = int(limb[used].max(initial=stored.lowest + stored.limbs.shape[1] - 3)) + 2
    # Two more limbs take the carries of any number of rows, and the sign.
    start = np.zeros((groups.count, top - lowest + 3), np.int64)
    offset = stored.lowest - lowest
    start[:, offset : offset + stored.limbs.shape[1]] = stored.limbs
    signed = mantissa if groups.sign is None else mantissa * groups.sign
    limbs = _total_limbs(groups, start, signed, np.where(used, limb - lowest, 0), shift)
    return ExactSums(limbs, lowest, _special(groups, stored.special, values, counted))


def merged_sums(groups: Groups, parts: Mapping[str, pa.Array]) -> ExactSums:
    """The stored sums of parts, added up by group."""
    stored = _stored(parts)
    room = np.zeros((len(stored.limbs), 2), np.int64)  # for carries and the sign, as in `fold_sums`
    limbs = np.concatenate([stored.limbs, room], axis=1)
    total = groups.totals(np.zeros((groups.count, limbs.shape[1]), np.int64), limbs)
    return ExactSums(total, stored.lowest, groups.totals(np.zeros((groups.count, 3), np.int64), stored.special))


def stored_sums(state: Mapping[str, pa.Array]) -> Doubles:
    """Stored sums (null: 0) as doubles."""
    return _stored(state).rounded()


def _split(values: Doubles) -> tuple[Int64s, Int64s, Int64s]:
    """(mantissa, limb, shift): each value is mantissa * 2 ** (32 * limb + shift - _BIAS).

    Example: 1.5, -3.0 and 0.0.

        mantissa   [6755399441055744, -6755399441055744, 0]
        limb       [34, 34, 34]
        shift      [12, 13, 11]
    """
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    position = exponent.astype(np.int64) - 53 + _BIAS
    return mantissa, position >> 5, position & 31


def _total_limbs(groups: Groups, start: Int64s, mantissa: Int64s, limb: Int64s, shift: Int64s) -> Int64s:
    """`start` plus the values up to each point, as limbs with pending carries. Values: see `_split`.

    Example: rows of groups 0, 1, 0; points are rows; `start` is 0 in 4 limbs. -1 << 4 is -16 in group 0.

        mantissa   [3, 5, -1]
        limb       [0, 1, 0]
        shift      [0, 0, 4]
        result     [[3, 0, 0, 0], [0, 5, 0, 0], [4294967283, 4294967295, -1, 0]]     the last row is 3 - 16
    """
    low, high = (mantissa & MASK) << shift, (mantissa >> 32) << shift
    # `low` has up to 63 bits and is never negative; `high` has the sign.
    parts = (low & MASK, (low >> 32) + (high & MASK), high >> 32)
    width = start.shape[1]
    if groups.each:
        amounts = np.zeros((len(mantissa), width), np.int64)
        rows = np.arange(len(mantissa))
        for index, part in enumerate(parts):
            amounts[rows, limb + index] = part
        return groups.totals(start, amounts)
    flat = start.ravel()
    cell = groups.code * width + limb
    for index, part in enumerate(parts):
        np.add.at(flat, cell + index, part)
    return flat.reshape(start.shape)


def _special(groups: Groups, stored: Int64s, values: Doubles, counted: Bools) -> Int64s:
    """The counts of NaN, +Inf and -Inf at the points: int64 of shape (points, 3). `stored`: the counts before."""
    odd = counted & ~np.isfinite(values)
    if not odd.any():
        return stored[groups.point_code]
    kinds = (np.isnan(values), values == np.inf, values == -np.inf)
    return np.stack([groups.counts(stored[:, index], odd & kind) for index, kind in enumerate(kinds)], axis=1)


def _rounded(limbs: Int64s, lowest: int) -> Doubles:
    """Finite sums as the nearest doubles, ties to even. It takes the top three limbs, at least 65 bits.

    Example: `lowest` is 36, so limb 0 counts 1.

        [[2**53, 2**21, 0, 0], [1, 0, 0, 0], [-3, 0, 0, 0]]   ->   [1.80143985e+16, 1.0, -3.0], the first is 2**54
    """
    limbs = carried(limbs)
    negative = limbs[:, -1] < 0
    magnitude = carried(np.where(negative[:, None], -limbs, limbs))
    rows = np.arange(len(limbs))
    padded = np.concatenate([np.zeros((len(limbs), 2), np.int64), magnitude], axis=1)
    nonzero = padded != 0
    top = padded.shape[1] - 1 - np.argmax(nonzero[:, ::-1], axis=1)
    top = np.maximum(top, 2)
    bottom = np.argmax(nonzero, axis=1)
    first, second, third = (padded[rows, top - index].astype(np.uint64) for index in range(3))
    _, bits = np.frexp(first.astype(np.float64))
    shift = (32 - bits).astype(np.uint64)
    leading = (((first << np.uint64(32)) | second) << shift) | (third >> (np.uint64(32) - shift))
    # Rounding to odd at 64 bits and then to nearest even at 53 bits is the same as rounding once.
    inexact = (((third << shift) & np.uint64(MASK)) != 0) | (bottom < top - 2)
    leading |= inexact.astype(np.uint64)
    scale = 32 * (top - 2 - 1 + lowest) - _BIAS - (32 - bits)
    with np.errstate(over="ignore"):
        rounded = np.ldexp(leading.astype(np.float64), scale.astype(np.int32))
    return np.where(nonzero.any(axis=1), np.where(negative, -rounded, rounded), 0.0)


def _pack(limbs: Int64s, lowest: int, special: Int64s) -> dict[str, pa.Array]:
    """STATE columns of carried limbs: drops the trailing zero bits of each number. The inverse of `_stored`.

    Example: `lowest` is 36, so limb 0 counts 1. The numbers are 12 * 2**32 and -6; a NaN was added to the second.

        limbs      [[0, 12, 0], [2**32 - 6, 2**32 - 1, -1]]
        special    [[0, 0, 0], [1, 0, 0]]
        low        [3, -3]
        high       [0, -1]
        exponent   [34, 1]                           3 * 2**34 and -3 * 2**1
        rest       [None, b"\\x94\\x01\\x00\\x00\\xc0"]   msgpack of [1, 0, 0, nil]
    """
    rows, width = limbs.shape
    sign = np.where(limbs[:, -1] < 0, MASK, np.int64(0))
    words = np.concatenate([limbs & MASK, np.repeat(sign[:, None], 6, axis=1)], axis=1)
    index = np.arange(rows)
    nonzero = words[:, :width] != 0
    bottom = np.where(nonzero.any(axis=1), np.argmax(nonzero, axis=1), 0)
    lowest_word = words[index, bottom]
    zeros = np.bitwise_count((lowest_word & -lowest_word) - 1).astype(np.int64)
    zeros[lowest_word == 0] = 0
    at = [words[index, bottom + offset] for offset in range(6)]
    moved = [((at[i] >> zeros) | (at[i + 1] << (32 - zeros))) & MASK for i in range(5)]
    low, high = moved[0] | (moved[1] << 32), moved[2] | (moved[3] << 32)
    above = words[:, :width] != sign[:, None]
    top = np.where(above.any(axis=1), width - 1 - np.argmax(above[:, ::-1], axis=1), 0)
    fits = (top <= bottom + 4) & (moved[4] == sign) & ((high < 0) == (sign != 0))
    zero = lowest_word == 0
    exponent = np.where(zero, 0, 32 * (bottom + lowest) + zeros - _BIAS)
    rest = _pack_rest(words[:, :width], bottom, zeros, sign, fits | zero, special)
    return {
        "low": pa.array(np.where(fits, low, 0)),
        "high": pa.array(np.where(fits, high, 0)),
        "exponent": pa.array(exponent.astype(np.int16)),
        "rest": rest,
    }


def _pack_rest(words: Int64s, bottom: Int64s, zeros: Int64s, sign: Int64s, fits: Bools, special: Int64s) -> pa.Array:
    """msgpack of [NaN, +Inf, -Inf, mantissa], null where the counts are 0 and the mantissa fits 128 bits.

    The mantissa is in minimal little-endian two's complement, or nil if it fits 128 bits.
    """
    unusual = np.flatnonzero(~fits | special.any(axis=1))
    rest: list[bytes | None] = [None] * len(fits)
    for row in unusual.tolist():
        mantissa = None
        if not fits[row]:
            number = int.from_bytes(words[row].astype("<u4").tobytes(), "little")
            number -= (1 << (32 * words.shape[1])) if sign[row] else 0
            number >>= 32 * int(bottom[row]) + int(zeros[row])
            mantissa = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        rest[row] = msgpack.packb([*special[row].tolist(), mantissa])
    return pa.array(rest, pa.binary())


def _stored(state: Mapping[str, pa.Array]) -> ExactSums:
    """The sums of STATE columns (null: 0). The inverse of `_pack`, on the smallest grid for these numbers.

    Example: the columns of the example of `_pack`.

        limbs     [[0, 12, 0, 0, 0, 0], [4294967290, 4294967295, 4294967295, 4294967295, -1, 0]]
        lowest    36
        special   [[0, 0, 0], [1, 0, 0]]
    """
    low, high, exponent = (
        state[name].fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("low", "high", "exponent")
    )
    rest = state["rest"]
    special = np.zeros((len(low), 3), np.int64)
    large: dict[int, int] = {}
    if rest.null_count < len(rest):
        for row in np.flatnonzero(rest.is_valid().to_numpy(zero_copy_only=False)).tolist():
            *special[row], mantissa = msgpack.unpackb(rest[row].as_py())
            if mantissa is not None:
                large[row] = int.from_bytes(mantissa, "little", signed=True)
    used = (low != 0) | (high != 0)
    used[list(large)] = True
    position = exponent + _BIAS
    limb, shift = position >> 5, position & 31
    if not used.any():
        return ExactSums(np.zeros((len(low), 1), np.int64), _BIAS >> 5, special)
    lowest = int(limb[used].min())
    widest = max([5, *(number.bit_length() // 32 + 3 for number in large.values())])
    width = int(limb[used].max()) - lowest + widest
    limbs = np.zeros((len(low), width), np.int64)
    rows, place = np.arange(len(low)), np.where(used, limb - lowest, 0)
    for index, word in enumerate((low & MASK, (low >> 32) & MASK, high & MASK, high >> 32)):
        moved = word << shift
        limbs[rows, place + index] += moved & MASK
        limbs[rows, place + index + 1] += moved >> 32
    for row, number in large.items():
        number <<= int(shift[row])
        for index in range(width - int(place[row])):
            last = index == width - int(place[row]) - 1
            limbs[row, place[row] + index] = number if last else number & int(MASK)
            number >>= 32
    return ExactSums(limbs, lowest, special)
