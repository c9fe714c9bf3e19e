"""The built-in restore strategy `changelog`: applies all records, oldest first."""

from __future__ import annotations

from collections.abc import Iterator

from ..state.catch_up import RECORDS_PER_SLICE, Slice, slices
from ..state.restore_strategy import RestoreRequest


class ChangelogRestore:
    """A RestoreStrategy that reads the changelog from the store's position.

    `slice_records`: most records in one step.
    """

    def __init__(self, slice_records: int = RECORDS_PER_SLICE) -> None:
        self._slice_records = slice_records

    def slices(self, request: RestoreRequest) -> Iterator[Slice]:
        """The records between position and target."""
        return slices(request.store, request.ranges, request.position, request.target, self._slice_records)
