"""Columns that a processor of batches gives: found by name, and made of the types that are declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...python_functions.results import fitted
from ...python_functions.values import UnfitValueError
from ...records.arrays import Int64s, to_numpy
from ...records.schema import no_timestamp, no_timestamps

Columns: TypeAlias = Any
"""A `pa.RecordBatch` or a `pa.Table`."""


def column_of(rows: Columns, name: str, kind: pa.DataType, what: str) -> pa.Array:
    """A column by name, as an array of its type. `what`: it is of, for people. Raises UnfitValueError."""
    if not isinstance(rows, pa.RecordBatch | pa.Table):
        raise UnfitValueError(f"{what!r} takes many rows as an Arrow RecordBatch or Table, not {type(rows).__name__}")
    if name not in rows.schema.names:
        raise UnfitValueError(f"a batch for {what!r} lacks the column {name!r}; it has {', '.join(rows.schema.names)}")
    if rows.schema.names.count(name) > 1:
        raise UnfitValueError(f"a batch for {what!r} has more than one column {name!r}")
    try:
        return fitted(rows.column(name), kind)
    except UnfitValueError as error:
        raise UnfitValueError(f"the column {name!r} of a batch for {what!r}: {error.cause}") from None


def times_of(rows: Columns, name: str, what: str) -> Int64s:
    """A column of timestamps of records, ms. Raises UnfitValueError."""
    column = column_of(rows, name, pa.int64(), what)
    if column.null_count:
        raise UnfitValueError(f"the column {name!r} of a batch for {what!r} cannot be null")
    times: Int64s = to_numpy(column)
    wrong = np.flatnonzero(no_timestamps(times))
    if len(wrong):
        found = int(times[wrong[0]])
        where = f"row {wrong[0]} of the column {name!r} of a batch for {what!r}"
        raise UnfitValueError(f"{where}: the timestamp {no_timestamp(found)}: {found}")
    return times


def refuse_others(rows: Columns, known: Iterable[str], what: str) -> None:
    """Raise UnfitValueError for a column that nobody has asked for."""
    wanted = list(known)
    for name in rows.schema.names:
        if name not in wanted:
            raise UnfitValueError(f"a batch for {what!r} has a column {name!r}; known are {', '.join(wanted)}")
