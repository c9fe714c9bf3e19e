"""Arrow's kernels as Spark SQL needs them: an overflow is an error of its row, and NaN is equal to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, repeated, to_numpy
from .values import Value, within, without

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
            found.append(repeated(part, count) if isinstance(part, pa.Scalar) else part)
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
