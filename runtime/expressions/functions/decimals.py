"""Decimals: Spark's rules for the precision and scale of what is computed, and the kernels that differ from Arrow's.

Only where the result has a place in 38 digits whatever the values are: there Spark changes no scale, and adding and
multiplying cannot overflow.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import to_numpy
from ..values import Value, within, without

_MOST_DIGITS = 38
_UP = "half_towards_infinity"
_OF_WHOLE = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}


def decimal_type(digits: int, scale: int) -> pa.DataType | None:
    """The type with so many digits, `scale` of them behind the point; None if there is none."""
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None


def type_of_literal(value: Decimal | int) -> pa.DataType | None:
    """The narrowest type that a literal has a place in."""
    _, digits, exponent = Decimal(value).as_tuple()
    scale = -int(exponent)
    return decimal_type(max(len(digits), scale), scale)


def type_of_whole(data_type: pa.DataType) -> pa.DataType:
    """The type with a place for all whole numbers of a type."""
    return pa.decimal128(_OF_WHOLE[data_type], 0)


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type with a place for all values of two."""
    scale = max(left.scale, right.scale)
    return decimal_type(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def type_of_sum(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `+` and `-`, which is also Arrow's."""
    both = wider(left, right)
    return None if both is None else decimal_type(both.precision + 1, both.scale)


def type_of_product(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `*`, which is also Arrow's."""
    return decimal_type(left.precision + right.precision + 1, left.scale + right.scale)


def type_of_quotient(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `/`. Spark rounds to 39 digits first: so only with digits enough that this changes nothing."""
    scale = max(6, left.scale + right.precision + 1)
    digits = left.precision - left.scale + right.scale + scale
    return decimal_type(digits, scale) if digits + right.precision < _MOST_DIGITS else None


def quotient(left: pa.Array, right: pa.Array, result: pa.DataType) -> Value:
    """`/`, which fails where the divisor is 0 and nothing is null; halves are rounded away from 0."""
    zero = to_numpy(pc.fill_null(pc.equal(right, pa.scalar(Decimal(0), right.type)), False))
    failed = within(zero, to_numpy(left.is_valid()))
    divisor = pc.cast(without(right, zero), pa.decimal256(right.type.precision, right.type.scale))
    # Arrow gives the scale of the dividend and the digits of the divisor: one more than is wanted, cut off.
    scale = result.scale - right.type.precision + right.type.scale
    digits = left.type.precision - left.type.scale + scale
    exact = pc.divide(pc.cast(left, pa.decimal256(digits, scale)), divisor)
    return Value(without(pc.cast(pc.round(exact, result.scale, round_mode=_UP), result), failed), failed)


def as_decimal(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Whole numbers or decimals as another type, halves rounded away from 0. ArrowInvalid: too many digits."""
    if not pa.types.is_decimal(data.type):
        data = pc.cast(data, pa.decimal256(20 + data_type.scale, data_type.scale))
    wide = pc.cast(data, pa.decimal256(76 - _MOST_DIGITS + data.type.scale, data.type.scale))
    if data_type.scale < data.type.scale:
        wide = pc.round(wide, data_type.scale, round_mode=_UP)
    return pc.cast(wide, data_type)


def as_whole(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Decimals as whole numbers, cut off. Raises ArrowInvalid for those that are too large."""
    # Arrow takes no decimal for a whole number that has no digit in front of the point.
    wide = pc.cast(data, pa.decimal256(2 * _MOST_DIGITS, data.type.scale))
    return pc.cast(pc.trunc(wide), data_type)


def as_double(data: pa.Array | pa.Scalar) -> Any:
    """Decimals as the doubles nearest to them."""
    return pc.cast(pc.cast(data, pa.string()), pa.float64())
