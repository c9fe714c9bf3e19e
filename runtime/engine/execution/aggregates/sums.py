"""The aggregates sum and avg of integers, decimals and floating point numbers, with Spark's types and ANSI errors.

Sums of integers and decimals overflow exactly where adding the values one by one, in the order of processing, would. So
an error does not depend on where epochs end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .....errors import HeadwaterError
from ....ir.topology import Agg
from ....records.arrays import Bools, Int64s, to_numpy
from ....records.types import arrow_type, ddl
from ..keyed.groups import Groups
from .exact_sum import (
    STATE,
    Doubles,
    beyond,
    carried,
    decimal_words,
    decimals,
    fold_sums,
    from_words,
    merged_sums,
    stored_sums,
    to_words,
)
from .picks import Aggregate, State, counted, merged_counts, stored_counts

_WIDTH = 6
"""The number of limbs of a sum of decimals or integers: 128 bits, carries, and the sign."""


class SumOverflowError(HeadwaterError):
    """A sum or average does not fit its result type. `data_type`: the result type in Spark SQL.

    `row`: the first row with which it does not fit. None if unknown.
    """

    def __init__(self, function: str, data_type: str, row: int | None = None) -> None:
        super().__init__(f"{function} overflows {data_type}", "cast the argument to a wider type")
        self.function = function
        self.data_type = data_type
        self.row = row


class AggregateTypeError(HeadwaterError):
    """An aggregate of a type without sums. The compiler rejects these. `data_type`: in Spark SQL."""

    def __init__(self, function: str, data_type: str) -> None:
        super().__init__(f"{function} takes numbers, not {data_type}", "compile the project again")
        self.function = function
        self.data_type = data_type


def total(agg: Agg) -> SumOfIntegers | SumOfDecimals | SumOfDoubles:
    """sum(x). Raises AggregateTypeError."""
    of = arrow_type(agg.of or "bigint")
    if pa.types.is_integer(of):
        return SumOfIntegers()
    if pa.types.is_decimal(of):
        return SumOfDecimals(_sum_type(of))
    if not pa.types.is_floating(of):
        raise AggregateTypeError("sum", ddl(of))
    return SumOfDoubles()


def avg(agg: Agg) -> AverageOfDecimals | SumOfDoubles:
    """avg(x). Raises AggregateTypeError."""
    of = arrow_type(agg.of or "double")
    if pa.types.is_decimal(of):
        return AverageOfDecimals(_sum_type(of), _average_type(of))
    if not (pa.types.is_floating(of) or pa.types.is_integer(of)):
        raise AggregateTypeError("avg", ddl(of))
    return SumOfDoubles(mean=True)


def _sum_type(of: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(38, of.precision + 10), of.scale)


def _average_type(of: pa.DataType) -> pa.DataType:
    """decimal(p + 4, s + 4), limited to 38 digits.

    The integral digits are kept, as in Spark's `DecimalType.adjustPrecisionScale`.
    """
    return pa.decimal128(min(38, of.precision + 4), min(of.scale + 4, 38))


def _column(array: Int64s | Doubles, null: Bools) -> pa.Array:
    return pa.array(array, mask=null) if null.any() else pa.array(array)


@dataclass(frozen=True)
class SumOfIntegers(Aggregate):
    """sum of tinyint to bigint: bigint. Null for a group without values.

    Example of `fold`: new groups, points are rows.

        groups.code   [0, 1, 0]
        values        [5, None, 7]
        result        [5, None, 12]
        state         sum [12, 0], count [2, 0]
    """

    state: ClassVar[Mapping[str, pa.DataType]] = {"sum": pa.int64(), "count": pa.int64()}
    type = pa.int64()
    subtracts: ClassVar[bool] = True

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Raises SumOverflowError."""
        here = counted(groups, values)
        amounts = to_numpy(values.fill_null(0)).astype(np.int64, copy=False)
        start = to_numpy(state["sum"].fill_null(0)).astype(np.int64, copy=False)
        if not _surely_fits(amounts, start):
            self._check(groups, start, amounts)
        sums = groups.totals(start, amounts if groups.sign is None else amounts * groups.sign)
        counts = groups.counts(stored_counts(state), here)
        ends = {"sum": pa.array(groups.ends(sums)), "count": pa.array(groups.ends(counts))}
        return _column(sums, counts == 0), ends

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """Raises SumOverflowError."""
        nothing = {name: pa.nulls(groups.count, data_type) for name, data_type in self.state.items()}
        return {**self.fold(groups, nothing, parts["sum"])[1], "count": pa.array(merged_counts(groups, parts))}

    def result(self, state: State) -> pa.Array:
        return _column(to_numpy(state["sum"].fill_null(0)), stored_counts(state) == 0)

    def _check(self, groups: Groups, start: Int64s, amounts: Int64s) -> None:
        """Raise SumOverflowError if a sum overflows at any row, even if the points are groups."""
        rows = Groups(groups.code, groups.count, True, groups.exists)
        limbs = from_words(amounts, amounts >> 63, _WIDTH)
        signed = limbs if groups.sign is None else limbs * groups.sign[:, None]
        low, high, _ = to_words(carried(rows.totals(from_words(start, start >> 63, _WIDTH), signed)))
        beyond_words = high != low >> 63
        if beyond_words.any():
            raise SumOverflowError("sum", "bigint", int(beyond_words.argmax()))


def _surely_fits(amounts: Int64s, start: Int64s) -> bool:
    """Whether the sum surely fits 64 bits, in any order of addition. A quick bound by the greatest absolute values."""
    largest = [max(abs(int(part.max(initial=0))), abs(int(part.min(initial=0)))) for part in (amounts, start)]
    return largest[0] * len(amounts) + largest[1] < 1 << 63


@dataclass(frozen=True)
class SumOfDecimals(Aggregate):
    """sum of decimal(p, s): decimal(min(38, p + 10), s)."""

    type: pa.DataType
    subtracts: ClassVar[bool] = True

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        return {"sum": self.type, "count": pa.int64()}

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Raises SumOverflowError."""
        sums, counts = self.fold_limbs(groups, state, values)
        return self.column(sums, counts == 0), self.ends(groups, sums, counts)

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """Raises SumOverflowError."""
        nothing = {name: pa.nulls(groups.count, data_type) for name, data_type in self.state.items()}
        sums, _ = self.fold_limbs(groups, nothing, parts["sum"])
        return self.ends(groups, sums, merged_counts(groups, parts))

    def result(self, state: State) -> pa.Array:
        return self.column(_decimal_limbs(state["sum"]), stored_counts(state) == 0)

    def fold_limbs(self, groups: Groups, state: State, values: pa.Array) -> tuple[Int64s, Int64s]:
        """(Sums as carried limbs, counts) at the points. Raises SumOverflowError."""
        here = counted(groups, values)
        limbs = _decimal_limbs(values)
        signed = limbs if groups.sign is None else limbs * groups.sign[:, None]
        start = _decimal_limbs(state["sum"])
        # Adding row by row finds an overflow even if a later row would undo it.
        rows = Groups(groups.code, groups.count, True, groups.exists)
        if self.type.precision == 38 and (over := beyond(carried(rows.totals(start, signed)), 38)).any():
            raise SumOverflowError("sum", ddl(self.type), int(over.argmax()))
        return carried(groups.totals(start, signed)), groups.counts(stored_counts(state), here)

    def ends(self, groups: Groups, sums: Int64s, counts: Int64s) -> dict[str, pa.Array]:
        """The state of each group at the end."""
        ends = np.stack([groups.ends(limb) for limb in sums.T], axis=1)
        return {"sum": self.column(ends, np.zeros(groups.count, np.bool_)), "count": pa.array(groups.ends(counts))}

    def column(self, sums: Int64s, null: Bools) -> pa.Array:
        """Carried limbs as decimals. `null`: a mask. Raises SumOverflowError."""
        if beyond(sums, self.type.precision).any():
            raise SumOverflowError("sum", ddl(self.type))
        low, high, _ = to_words(sums)
        return decimals(low, high, self.type, null)


def _decimal_limbs(column: pa.Array) -> Int64s:
    """The limbs of a decimal column, 0 where null: int64 of shape (rows, `_WIDTH`)."""
    low, high = decimal_words(column)
    if column.null_count:
        valid = to_numpy(column.is_valid())
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    return from_words(low, high, _WIDTH)


@dataclass(frozen=True)
class AverageOfDecimals(Aggregate):
    """avg of decimal(p, s): decimal(p + 4, s + 4) within 38 digits. Rounds half away from zero.

    Example of `fold`: new groups, points are rows, values are decimal(4, 2).

        groups.code   [0, 1, 0]
        values        [1.00, None, 0.01]
        result        [1.000000, None, 0.505000]
        state         sum [1.01, 0.00], count [2, 0]
    """

    sum_type: pa.DataType
    type: pa.DataType
    subtracts: ClassVar[bool] = True

    @property
    def state(self) -> Mapping[str, pa.DataType]:
        return self._sum.state

    @property
    def _sum(self) -> SumOfDecimals:
        return SumOfDecimals(self.sum_type)

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Raises SumOverflowError."""
        if not groups.each and self._may_overflow(groups, values):
            # An average that overflows at any row must fail, even if the points are groups. So check each row.
            rows = Groups(groups.code, groups.count, True, groups.exists, groups.sign)
            means, ends = self.fold(rows, state, values)
            return means.take(pa.array(groups.last)), ends
        sums, counts = self._sum.fold_limbs(groups, state, values)
        return self._divide(self._sum.column(sums, counts == 0), counts), self._sum.ends(groups, sums, counts)

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        """Raises SumOverflowError."""
        return self._sum.merge(groups, parts)

    def result(self, state: State) -> pa.Array:
        return self._divide(self._sum.result(state), stored_counts(state))

    def _may_overflow(self, groups: Groups, values: pa.Array) -> bool:
        """Whether an average may have too many digits: the longer scale leaves fewer digits before the point."""
        digits = self.type.precision - self.type.scale
        if values.type.precision - values.type.scale <= digits:
            return False
        limit = Decimal(10) ** digits - 1
        bounds = pc.min_max(values).as_py()
        found = [abs(value) for value in bounds.values() if value is not None]
        # After a row is removed, the average may exceed all averages before.
        return groups.sign is not None or any(value > limit for value in found)

    def _divide(self, sums: pa.Array, counts: Int64s) -> pa.Array:
        # Enough digits that only `quantize` rounds: 38 of the sum, the scale, and a divisor of 19 digits.
        exact = Context(prec=120, rounding=ROUND_HALF_UP)
        unit = Decimal(1).scaleb(-self.type.scale)
        means: list[Decimal | None] = []
        for amount, count in zip(sums.to_pylist(), counts.tolist(), strict=True):
            mean = None if amount is None else exact.divide(amount, Decimal(count)).quantize(unit, context=exact)
            if mean is not None and len(mean.as_tuple().digits) > self.type.precision and mean != 0:
                raise SumOverflowError("avg", ddl(self.type))
            means.append(mean)
        return pa.array(means, self.type)


@dataclass(frozen=True)
class SumOfDoubles(Aggregate):
    """sum of float or double, and avg of all numbers except decimals: double. The sum is exact and rounded once."""

    mean: bool = False
    state: ClassVar[Mapping[str, pa.DataType]] = {**STATE, "count": pa.int64()}
    type = pa.float64()
    subtracts: ClassVar[bool] = True

    def fold(self, groups: Groups, state: State, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
        here = counted(groups, values)
        amounts = to_numpy(values.fill_null(0)).astype(np.float64, copy=False)
        sums = fold_sums(groups, state, amounts, here)
        counts = groups.counts(stored_counts(state), here)
        ends = sums.take(groups.last) if groups.each else sums
        return self._divide(sums.rounded(), counts), {**ends.pack(), "count": pa.array(groups.ends(counts))}

    def merge(self, groups: Groups, parts: State) -> dict[str, pa.Array]:
        return {**merged_sums(groups, parts).pack(), "count": pa.array(merged_counts(groups, parts))}

    def result(self, state: State) -> pa.Array:
        return self._divide(stored_sums(state), stored_counts(state))

    def _divide(self, sums: Doubles, counts: Int64s) -> pa.Array:
        null = counts == 0
        quotient = sums / np.where(null, 1, counts) if self.mean else sums
        return _column(quotient, null)
