"""Columns that a processor of batches gives: found by name, and made of the types that are declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from ...python_functions.values import UnfitValueError

Columns: TypeAlias = Any
"""A `pa.RecordBatch` or a `pa.Table`."""


def column_of(rows: Columns, name: str, kind: pa.DataType, what: str) -> pa.Array:
    """A column by name, as an array of its type. `what`: it is of, for people. Raises UnfitValueError."""
    if not isinstance(rows, pa.RecordBatch | pa.Table):
        raise UnfitValueError(f"{what!r} takes many rows as an Arrow RecordBatch or Table, not {type(rows).__name__}")
    if name not in rows.schema.names:
        raise UnfitValueError(f"a batch for {what!r} lacks the column {name!r}; it has {', '.join(rows.schema.names)}")
    column = rows.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    try:
        return column if column.type == kind else column.cast(kind)
    except pa.ArrowException as error:
        raise UnfitValueError(f"the column {name!r} of a batch for {what!r} is no {kind}: {error}") from None


def refuse_others(rows: Columns, known: Iterable[str], what: str) -> None:
    """Raise UnfitValueError for a column that nobody has asked for."""
    wanted = list(known)
    for name in rows.schema.names:
        if name not in wanted:
            raise UnfitValueError(f"a batch for {what!r} has a column {name!r}; known are {', '.join(wanted)}")
