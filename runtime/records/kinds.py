"""The kinds of records and rows: a value, a deletion, a replaced row, or a row that only the pipe knows."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """The kind of a row.

    In SQL: `_kind > 0` has value columns, `_kind >= 0` is a record, `_kind < 0` passes every step unchanged.
    """

    FAILED = -2
    """A row that a step could not process: the stage behind leaves its record out."""
    CONTROL = -1
    TOMBSTONE = 0
    VALUE = 1
    OLD = 2
    OLD_SAME_GROUP = 3
    """A replaced row whose new row follows in the same group: subtract it, and emit only with the new one."""
