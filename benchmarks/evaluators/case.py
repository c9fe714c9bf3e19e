"""What a case of the comparison is, and the types of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

Form = Callable[..., Any]
"""From the columns, in their order, to a column."""

Columns = Mapping[str, tuple[pa.DataType, Sequence[Any]]]
"""Name -> type and values, row by row."""

I8, I32, I64, F64, TEXT, BOOL = pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()
MONEY, DAY, TIME = pa.decimal128(10, 2), pa.date32(), pa.timestamp("us", "UTC")

REPEATED = 4
"""Rows of a batch, all alike: some functions take another way for a batch of one row."""


@dataclass(frozen=True)
class Case:
    """An expression in Spark's SQL, and the rows to try it on.

    `plain` is the function of Arrow that one would take first, and `composed` what it takes to answer as Spark does,
    where that is another form; None if there is none. `texts` has the expression for candidates that write it
    otherwise, by name.
    """

    expression: str
    columns: Columns
    plain: Form | None = None
    composed: Form | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> list[pa.RecordBatch]:
        """For each row a batch that repeats it."""
        whole = pa.record_batch({name: pa.array(values, each) for name, (each, values) in self.columns.items()})
        return [whole.take(pa.array([number] * REPEATED)) for number in range(whole.num_rows)]


def one(each: pa.DataType, value: Any = 1) -> pa.Scalar:
    return pa.scalar(value, each)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
