"""What an expression gives for the rows of a batch, and for which of them it fails.

An error is a fact about one row, as in Spark SQL: `a <> 0 and b / a > 1` does not fail where `a` is 0, because `and`
does not look at its right side there. Arrow computes whole columns. So a node also says for which rows it fails, and a
node above it keeps only the failures of rows for which Spark would have computed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, repeated, to_numpy


class Columns(Protocol):
    """What expressions read. A scalar: one value of all rows."""

    def __getitem__(self, name: str, /) -> pa.Array | pa.Scalar:
        """A column, by its physical name."""


@dataclass(frozen=True)
class Batch:
    """The columns that expressions read, and how many rows they have."""

    columns: Columns
    rows: int


@dataclass(frozen=True)
class Value:
    """`data`: an array, or a scalar that all rows have. `failed`: where it fails, and `data` is null; None: nowhere."""

    data: pa.Array | pa.Scalar
    failed: Bools | None = None

    def array(self, rows: int) -> pa.Array:
        """One value for each row."""
        return repeated(self.data, rows) if isinstance(self.data, pa.Scalar) else self.data

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
