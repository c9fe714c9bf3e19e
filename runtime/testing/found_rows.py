"""The rows that a test compares with those that it expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ..query.rows import Row
from ..records.texts.record_json import Record
from .rows import Cells, Columns, cells_of


def last_of_each_key(records: Sequence[Record]) -> list[Record]:
    """The last record of each key, in their order. Those with a null key stay.

    Of a table whose changes are collapsed, only these do not depend on where epochs end.
    """
    last = {str(record.key): number for number, record in enumerate(records) if record.key is not None}
    return [record for number, record in enumerate(records) if record.key is None or last[str(record.key)] == number]


def cells_of_record(columns: Columns, record: Record) -> Cells:
    """A record as cells."""
    return cells_of(columns, asdict(record))


def cells_of_row(columns: Columns, row: Row) -> Cells:
    """A row of a store as cells."""
    return cells_of(columns, asdict(row))
