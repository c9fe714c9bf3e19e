"""Values of expressions with their failed rows, and Arrow kernels with the semantics of Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, repeat, to_numpy

# The values of an expression for a batch, and the rows for which it fails.
#
# An error belongs to one row, as in Spark SQL: `a <> 0 and b / a > 1` does not fail where `a` is 0, because `and` does
# not evaluate its right side there. Arrow computes whole columns. So a node returns values and a mask of failed rows.
# A parent node keeps only the failures of rows for which Spark would have evaluated the child.


class NamedColumns(Protocol):
    """Columns by name. A scalar stands for the same value in all rows."""

    def __getitem__(self, name: str, /) -> pa.Array | pa.Scalar:
        """A column, by its physical name."""


@dataclass(frozen=True)
class Batch:
    """The columns that expressions read, and the number of rows."""

    columns: NamedColumns
    rows: int


@dataclass(frozen=True)
class Value:
    """The values of an expression.

    `data`: an array with one value per row, or a scalar for all rows. `failed`: a mask of the rows that fail, where
    `data` is null; None if no row fails.
    """

    data: pa.Array | pa.Scalar
    failed: Bools | None = None

    def array(self, rows: int) -> pa.Array:
        """The values as an array of `rows` values."""
        return repeat(self.data, rows) if isinstance(self.data, pa.Scalar) else self.data

    def is_null(self, rows: int) -> Bools:
        """The mask of nulls."""
        if isinstance(self.data, pa.Scalar):
            return np.full(rows, not self.data.is_valid)
        return to_numpy(self.data.is_null())

    def is_true(self, rows: int) -> Bools:
        """The mask of true values. Null counts as false."""
        data = self.array(rows)
        return to_numpy(pc.fill_null(data, False) if data.null_count else data)


def either(first: Bools | None, second: Bools | None) -> Bools | None:
    """The union of two failure masks."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def within(failed: Bools | None, computed: Bools) -> Bools | None:
    """The failures among the rows that Spark evaluates (`computed`); None if none are left."""
    if failed is None:
        return None
    left = failed & computed
    return left if left.any() else None


def of_arguments(values: Sequence[Value], rows: int) -> Bools | None:
    """The rows for which a function fails because an argument fails.

    Spark evaluates arguments from left to right and stops at the first null:

        first   [1, null, 3]   does not fail
        second  fails for the rows [no, yes, yes]
        result  [no, no, yes]  in row 1 the second argument is never evaluated
    """
    failed: Bools | None = None
    computed: Bools | None = None
    for value in values:
        failed = either(failed, value.failed if computed is None else within(value.failed, computed))
        if any(each.failed is not None for each in values):
            known = ~value.is_null(rows)
            computed = known if computed is None else computed & known
    return failed


def without(data: pa.Array, failed: Bools | None) -> pa.Array:
    """The values, with null in the failed rows."""
    return data if failed is None else pc.if_else(pa.array(~failed), data, pa.scalar(None, data.type))


# Arrow's kernels with Spark's semantics: an overflow fails only its row, and NaN is equal to itself.

Columns = Sequence[pa.Array | pa.Scalar]
Kernel = Callable[..., Any]


def by_row(kernel: Kernel, columns: Columns, rows: int, result: pa.DataType) -> Value:
    """The result of a kernel that raises ArrowInvalid for the whole batch if one row is invalid.

    The invalid rows are found by halving. `add_checked` of the int8s [1, 127, 3, 4] and the scalar 1:

        rows 0-3     ArrowInvalid: halve
        rows 0-1     ArrowInvalid: halve
        row 0        2
        row 1        ArrowInvalid, a single row: null, failed
        rows 2-3     4, 5
        data         [2, null, 4, 5]
        failed       [False, True, False, False]

    `columns`: arrays of `rows` values, or scalars. `result`: the type of the values.
    """
    if rows == 0:
        return Value(pa.array([], result))
    try:
        return Value(kernel(*columns))
    except pa.ArrowInvalid:
        failed = np.zeros(rows, np.bool_)
    data = pa.concat_arrays(_halves(kernel, columns, 0, rows, result, failed))
    return Value(data, failed if failed.any() else None)


def _halves(
    kernel: Kernel, columns: Columns, start: int, rows: int, result: pa.DataType, failed: Bools
) -> list[pa.Array]:
    """The results for a range of rows that the kernel cannot compute at once. Marks invalid rows in `failed`."""
    if rows == 1:
        failed[start] = True
        return [pa.nulls(1, result)]
    found: list[pa.Array] = []
    for first, count in ((start, rows // 2), (start + rows // 2, rows - rows // 2)):
        cut = [each if isinstance(each, pa.Scalar) else each.slice(first, count) for each in columns]
        try:
            part = kernel(*cut)
            found.append(repeat(part, count) if isinstance(part, pa.Scalar) else part)
        except pa.ArrowInvalid:
            found += _halves(kernel, columns, first, count, result, failed)
    return found


def divided(kernel: Kernel, left: pa.Array, right: pa.Array, rows: int) -> Value:
    """A division that fails where the divisor is 0 and the dividend is not null.

    `kernel` gets null in place of a divisor of 0. `%` of int32:

        left    [7, 7,    null, -7]
        right   [2, 0,    0,    2]
        data    [1, null, null, -1]
        failed  [False, True, False, False]
    """
    zero = to_numpy(pc.fill_null(pc.equal(right, pa.scalar(0, right.type)), False))
    failed = within(zero, to_numpy(left.is_valid())) if zero.any() else None
    divisor = without(right, zero) if zero.any() else right
    found = by_row(kernel, [left, divisor], rows, left.type)
    if found.failed is None or failed is None:
        return Value(found.data, failed if found.failed is None else found.failed)
    return Value(found.data, found.failed | failed)


def remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """The remainder with the sign of the dividend, as in Java. No divisor may be 0."""
    valid = pc.and_(left.is_valid(), right.is_valid())
    top = to_numpy(pc.fill_null(left, pa.scalar(0, left.type)))
    bottom = to_numpy(pc.fill_null(right, pa.scalar(1, right.type)))
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN, as in Java
        rest = np.fmod(top, bottom)
    return pc.if_else(valid, pa.array(rest, left.type), pa.scalar(None, left.type))


def greatest(*data: pa.Array | pa.Scalar) -> Any:
    """The greatest non-null value of each row. NaN is the greatest of all. Among equal values the first one wins."""
    return _first_by(pc.greater, data)


def least(*data: pa.Array | pa.Scalar) -> Any:
    """The least non-null value of each row. NaN is the greatest of all. Among equal values the first one wins."""
    return _first_by(pc.less, data)


def _first_by(kernel: Kernel, data: Columns) -> Any:
    found, *others = data
    for each in others:
        better = pc.fill_null(compared(kernel, each, found), False)
        found = pc.if_else(pc.or_(better, pc.is_null(found)), each, found)
    return found


def compared(kernel: Kernel, left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> Any:
    """A comparison of two values of one type, as in Spark: NaN equals itself and is greater than all others.

    `kernel`: a comparison of Arrow, such as `pc.greater`. Both sides may be arrays or scalars.

        left            [1.0,   NaN,   NaN,   2.0,   null]
        right           [2.0,   NaN,   1.0,   NaN,   NaN]
        pc.greater      [False, False, False, False, null]   Arrow alone
        greater here    [False, False, True,  False, null]
        equal here      [False, True,  False, False, null]
    """
    plain = kernel(left, right)
    if not pa.types.is_floating(left.type):
        return plain
    if not _has_nan(left) and not _has_nan(right):
        return plain
    # 1 for NaN, 0 for a number, null for null. If either side is NaN, these flags are compared in place of the values.
    first, second = (pc.cast(pc.is_nan(each), pa.int8()) for each in (left, right))
    return pc.if_else(pc.equal(pc.add(first, second), pa.scalar(0, pa.int8())), plain, kernel(first, second))


def _has_nan(data: pa.Array | pa.Scalar) -> bool:
    found = pc.is_nan(data)
    if isinstance(found, pa.Scalar):
        return bool(found.as_py())
    return bool(pc.any(found).as_py())


# Functions of numbers with Java's semantics: rounding, signs, roots, `pmod`.

_ABOVE_LONG = 2.0**63


def by_number(function: Callable[[Any], Any], data: pa.Array | pa.Scalar, result: pa.DataType) -> Any:
    """A NumPy function applied to numbers. It gets 0 in place of null, and its result is null there."""
    if isinstance(data, pa.Scalar):
        return by_number(function, pa.array([data.as_py()], data.type), result)[0]
    found = pa.array(function(to_numpy(pc.fill_null(data, pa.scalar(0, data.type)))), result)
    return found if not data.null_count else pc.if_else(data.is_valid(), found, pa.scalar(None, result))


def floored(data: pa.Array | pa.Scalar) -> Any:
    """`floor` of doubles, as int64. NaN becomes 0. Raises ArrowInvalid if a result does not fit."""
    return _to_long(pc.floor(data))


def ceiled(data: pa.Array | pa.Scalar) -> Any:
    """`ceil` of doubles, as int64. NaN becomes 0. Raises ArrowInvalid if a result does not fit."""
    return _to_long(pc.ceil(data))


def _to_long(whole: pa.Array | pa.Scalar) -> Any:
    numbers = pc.if_else(pc.is_nan(whole), pa.scalar(0.0), whole)
    # Some processors convert 2**63 to the largest int64, and Arrow's check of the cast then accepts it. Infinity is
    # rejected on all processors.
    large = pc.greater_equal(numbers, pa.scalar(_ABOVE_LONG))
    return pc.cast(pc.if_else(large, pa.scalar(float("inf")), numbers), pa.int64())


def rounded(data: pa.Array | pa.Scalar) -> Any:
    """`round` of doubles to whole numbers, half away from 0: 2.5 -> 3.0, -2.5 -> -3.0. Never gives -0.0."""
    return by_number(_away_from_zero, data, pa.float64())


def _away_from_zero(numbers: Any) -> Any:
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, which is not >= 0.5
        whole = np.trunc(numbers)
        half = np.abs(numbers - whole) >= 0.5
    return np.where(half, whole + np.copysign(1.0, numbers), whole) + 0.0


def rounded_to_even(data: pa.Array | pa.Scalar) -> Any:
    """`bround` of doubles to whole numbers, half to even: 2.5 -> 2.0, 3.5 -> 4.0. Never gives -0.0."""
    return by_number(lambda numbers: np.rint(numbers) + 0.0, data, pa.float64())


def signs(data: pa.Array | pa.Scalar) -> Any:
    """`sign` of doubles: 1.0 or -1.0. Zeros and NaN stay as they are."""
    return by_number(
        lambda numbers: np.where((numbers == 0) | np.isnan(numbers), numbers, np.copysign(1.0, numbers)),
        data,
        pa.float64(),
    )


def roots(data: pa.Array | pa.Scalar) -> Any:
    """Square roots of doubles. NaN for a negative number."""
    return by_number(_roots, data, pa.float64())


def _roots(numbers: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(numbers)


def positive_remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """`pmod`: a negative remainder `r` becomes `(r + divisor) % divisor`. No divisor may be 0.

    Example:

        left    [7, -7, -7]
        right   [3,  3, -3]
        %       [1, -1, -1]
        result  [1,  2, -1]
    """
    valid = pc.and_(left.is_valid(), right.is_valid())
    top, bottom = (to_numpy(pc.fill_null(each, pa.scalar(1, each.type))) for each in (left, right))
    wide = np.int32 if left.type in (pa.int8(), pa.int16()) else top.dtype  # Java widens bytes and shorts to int
    with np.errstate(invalid="ignore", over="ignore"):
        rest = np.fmod(top.astype(wide), bottom.astype(wide))
        again = np.fmod(rest + bottom.astype(wide), bottom.astype(wide))
    found = np.where(rest < 0, again, rest).astype(top.dtype)
    return pc.if_else(valid, pa.array(found, left.type), pa.scalar(None, left.type))


# Decimals.

_MAX_DIGITS = 38
_UP = "half_towards_infinity"


def quotient(left: pa.Array, right: pa.Array, result: pa.DataType) -> Value:
    """`/` of decimals, rounded half away from 0. A divisor of 0 fails the row, unless the dividend is null.

    Arrow truncates, so it divides with one more digit, and the result is rounded. A decimal(3, 1) by a decimal(2, 1)
    gives a decimal(9, 6):

        left    [1.0,       -2.0,       1.0]
        right   [3.0,       3.0,        0.0]
        exact   [0.3333333, -0.6666666, null]
        data    [0.333333,  -0.666667,  null]
        failed  [False,     False,      True]
    """
    zero = to_numpy(pc.fill_null(pc.equal(right, pa.scalar(Decimal(0), right.type)), False))
    failed = within(zero, to_numpy(left.is_valid()))
    divisor = pc.cast(without(right, zero), pa.decimal256(right.type.precision, right.type.scale))
    # Arrow's quotient has the scale `left.scale - right.scale + right.precision + 1`, truncated. The dividend gets the
    # scale with which that is one digit more than wanted.
    scale = result.scale - right.type.precision + right.type.scale
    digits = left.type.precision - left.type.scale + scale
    exact = pc.divide(pc.cast(left, pa.decimal256(digits, scale)), divisor)
    return Value(without(pc.cast(pc.round(exact, result.scale, round_mode=_UP), result), failed), failed)


def as_decimal(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Integers or decimals as another decimal type, rounded half away from 0: 1.25 as (3, 1) is 1.3.

    Raises ArrowInvalid if a value has too many digits.
    """
    if not pa.types.is_decimal(data.type):
        data = pc.cast(data, pa.decimal256(20 + data_type.scale, data_type.scale))
    wide = pc.cast(data, pa.decimal256(76 - _MAX_DIGITS + data.type.scale, data.type.scale))
    if data_type.scale < data.type.scale:
        wide = pc.round(wide, data_type.scale, round_mode=_UP)
    return pc.cast(wide, data_type)


def as_whole(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Decimals as integers, truncated: 1.95 is 1. Raises ArrowInvalid if a value does not fit."""
    # Arrow cannot cast a decimal type without digits before the point, such as decimal(2, 2), to an integer.
    wide = pc.cast(data, pa.decimal256(2 * _MAX_DIGITS, data.type.scale))
    return pc.cast(pc.trunc(wide), data_type)


def as_double(data: pa.Array | pa.Scalar) -> Any:
    """Decimals as the nearest doubles."""
    return pc.cast(pc.cast(data, pa.string()), pa.float64())
