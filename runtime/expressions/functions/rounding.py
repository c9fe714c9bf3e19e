"""Functions of numbers as Java has them: rounding, signs, roots, remainders that are not negative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import to_numpy

_ABOVE_LONG = 2.0**63


def by_number(function: Callable[[Any], Any], data: pa.Array | pa.Scalar, result: pa.DataType) -> Any:
    """What a function of a numpy array gives for numbers. It gets 0 where they are null, and is null there."""
    if isinstance(data, pa.Scalar):
        return by_number(function, pa.array([data.as_py()], data.type), result)[0]
    found = pa.array(function(to_numpy(pc.fill_null(data, pa.scalar(0, data.type)))), result)
    return found if not data.null_count else pc.if_else(data.is_valid(), found, pa.scalar(None, result))


def floored(data: pa.Array | pa.Scalar) -> Any:
    """`floor` of doubles, as bigints; NaN becomes 0. Raises ArrowInvalid for those that are too large."""
    return _to_long(pc.floor(data))


def ceiled(data: pa.Array | pa.Scalar) -> Any:
    """`ceil` of doubles, as bigints; NaN becomes 0. Raises ArrowInvalid for those that are too large."""
    return _to_long(pc.ceil(data))


def _to_long(whole: pa.Array | pa.Scalar) -> Any:
    numbers = pc.if_else(pc.is_nan(whole), pa.scalar(0.0), whole)
    # Some processors make the largest bigint of 2**63, and then Arrow finds it equal; they do not so for an infinity.
    large = pc.greater_equal(numbers, pa.scalar(_ABOVE_LONG))
    return pc.cast(pc.if_else(large, pa.scalar(float("inf")), numbers), pa.int64())


def rounded(data: pa.Array | pa.Scalar) -> Any:
    """`round` of doubles to whole ones; halves go away from 0. No zero is negative."""
    return by_number(_away_from_zero, data, pa.float64())


def _away_from_zero(numbers: Any) -> Any:
    with np.errstate(invalid="ignore"):  # the difference of infinities is NaN, and so no half
        whole = np.trunc(numbers)
        half = np.abs(numbers - whole) >= 0.5
    return np.where(half, whole + np.copysign(1.0, numbers), whole) + 0.0


def rounded_to_even(data: pa.Array | pa.Scalar) -> Any:
    """`bround` of doubles to whole ones; halves go to even ones. No zero is negative."""
    return by_number(lambda numbers: np.rint(numbers) + 0.0, data, pa.float64())


def signs(data: pa.Array | pa.Scalar) -> Any:
    """1, -1, or the number itself where it is a zero or NaN."""
    return by_number(
        lambda numbers: np.where((numbers == 0) | np.isnan(numbers), numbers, np.copysign(1.0, numbers)),
        data,
        pa.float64(),
    )


def roots(data: pa.Array | pa.Scalar) -> Any:
    """Square roots; NaN below 0."""
    return by_number(_roots, data, pa.float64())


def _roots(numbers: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(numbers)


def positive_remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """`pmod`: a remainder below 0 is taken once more, of itself and the divisor. No divisor is 0."""
    valid = pc.and_(left.is_valid(), right.is_valid())
    top, bottom = (to_numpy(pc.fill_null(each, pa.scalar(1, each.type))) for each in (left, right))
    wide = np.int32 if left.type in (pa.int8(), pa.int16()) else top.dtype  # Java computes with ints, at least
    with np.errstate(invalid="ignore", over="ignore"):
        rest = np.fmod(top.astype(wide), bottom.astype(wide))
        again = np.fmod(rest + bottom.astype(wide), bottom.astype(wide))
    found = np.where(rest < 0, again, rest).astype(top.dtype)
    return pc.if_else(valid, pa.array(found, left.type), pa.scalar(None, left.type))
