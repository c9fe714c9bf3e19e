"""Kernels on Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, repeat, to_numpy

# What an expression gives for the rows of a batch, and for which of them it fails.
#
# An error is a fact about one row, as in Spark SQL: `a <> 0 and b / a > 1` does not fail where `a` is 0, because `and`
# does not look at its right side there. Arrow computes whole columns. So a node also says for which rows it fails, and
# a node above it keeps only the failures of rows for which Spark would have computed it.


class NamedColumns(Protocol):
    """What expressions read. A scalar: one value of all rows."""

    def __getitem__(self, name: str, /) -> pa.Array | pa.Scalar:
        """A column, by its physical name."""


@dataclass(frozen=True)
class Batch:
    """The columns that expressions read, and how many rows they have."""

    columns: NamedColumns
    rows: int


@dataclass(frozen=True)
class Value:
    """`data`: an array, or a scalar that all rows have. `failed`: where it fails, and `data` is null; None: nowhere."""

    data: pa.Array | pa.Scalar
    failed: Bools | None = None

    def array(self, rows: int) -> pa.Array:
        """One value for each row."""
        return repeat(self.data, rows) if isinstance(self.data, pa.Scalar) else self.data

    def is_null(self, rows: int) -> Bools:
        """Where it is null."""
        if isinstance(self.data, pa.Scalar):
            return np.full(rows, not self.data.is_valid)
        return to_numpy(self.data.is_null())

    def is_true(self, rows: int) -> Bools:
        """Where a boolean is true. Null is not."""
        data = self.array(rows)
        return to_numpy(pc.fill_null(data, False) if data.null_count else data)


def either(first: Bools | None, second: Bools | None) -> Bools | None:
    """Where one of two fails."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def within(failed: Bools | None, computed: Bools) -> Bools | None:
    """The failures of those rows for which a value is computed at all."""
    if failed is None:
        return None
    left = failed & computed
    return left if left.any() else None


def of_arguments(values: Sequence[Value], rows: int) -> Bools | None:
    """Where a function fails because an argument does. Spark looks at no argument behind one that is null."""
    failed: Bools | None = None
    computed: Bools | None = None
    for value in values:
        failed = either(failed, value.failed if computed is None else within(value.failed, computed))
        if any(each.failed is not None for each in values):
            known = ~value.is_null(rows)
            computed = known if computed is None else computed & known
    return failed


def without(data: pa.Array, failed: Bools | None) -> pa.Array:
    """The values, null where they fail."""
    return data if failed is None else pc.if_else(pa.array(~failed), data, pa.scalar(None, data.type))


# Arrow's kernels as Spark SQL needs them: an overflow is an error of its row, and NaN is equal to itself.

Columns = Sequence[pa.Array | pa.Scalar]
Kernel = Callable[..., Any]


def by_row(kernel: Kernel, columns: Columns, rows: int, result: pa.DataType) -> Value:
    """What a kernel gives that raises ArrowInvalid for the rows that it cannot compute: those are found by halving."""
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
    """What the kernel gives for rows that it cannot compute together. Notes in `failed` for which it gives nothing."""
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
    """A division, which fails where the divisor is 0 and nothing is null. `kernel` gets null for such a divisor."""
    zero = to_numpy(pc.fill_null(pc.equal(right, pa.scalar(0, right.type)), False))
    failed = within(zero, to_numpy(left.is_valid())) if zero.any() else None
    divisor = without(right, zero) if zero.any() else right
    found = by_row(kernel, [left, divisor], rows, left.type)
    if found.failed is None or failed is None:
        return Value(found.data, failed if found.failed is None else found.failed)
    return Value(found.data, found.failed | failed)


def remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """The rest of a division, with the sign of the dividend, as in Java. No divisor is 0."""
    valid = pc.and_(left.is_valid(), right.is_valid())
    top = to_numpy(pc.fill_null(left, pa.scalar(0, left.type)))
    bottom = to_numpy(pc.fill_null(right, pa.scalar(1, right.type)))
    with np.errstate(invalid="ignore"):  # the rest of an infinity is NaN, as in Java
        rest = np.fmod(top, bottom)
    return pc.if_else(valid, pa.array(rest, left.type), pa.scalar(None, left.type))


def greatest(*data: pa.Array | pa.Scalar) -> Any:
    """The greatest value of each row that is not null. NaN is above all others; of equal ones it is the first."""
    return _first_by(pc.greater, data)


def least(*data: pa.Array | pa.Scalar) -> Any:
    """The least value of each row that is not null. NaN is above all others; of equal ones it is the first."""
    return _first_by(pc.less, data)


def _first_by(kernel: Kernel, data: Columns) -> Any:
    found, *others = data
    for each in others:
        better = pc.fill_null(compared(kernel, each, found), False)
        found = pc.if_else(pc.or_(better, pc.is_null(found)), each, found)
    return found


def compared(kernel: Kernel, left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> Any:
    """Two values of a type compared as Spark does: NaN is equal to itself, and greater than all others."""
    plain = kernel(left, right)
    if not pa.types.is_floating(left.type):
        return plain
    if not _has_nan(left) and not _has_nan(right):
        return plain
    # 1 where it is NaN, 0 elsewhere, null where null: these compare among themselves as NaN does with numbers.
    first, second = (pc.cast(pc.is_nan(each), pa.int8()) for each in (left, right))
    return pc.if_else(pc.equal(pc.add(first, second), pa.scalar(0, pa.int8())), plain, kernel(first, second))


def _has_nan(data: pa.Array | pa.Scalar) -> bool:
    found = pc.is_nan(data)
    if isinstance(found, pa.Scalar):
        return bool(found.as_py())
    return bool(pc.any(found).as_py())


# Functions of numbers as Java has them: rounding, signs, roots, remainders that are not negative.

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
