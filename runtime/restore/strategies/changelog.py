"""The built-in restore strategy `changelog`: applies all records, oldest first."""

from __future__ import annotations

from collections.abc import Iterator

from ...state.catch_up import RECORDS_PER_SLICE
from ...state.restore_strategy import Apply, RestoreRequest, Step


class ChangelogRestore:
    """A RestoreStrategy that reads the changelog from the store's position.

    `slice_records`: most records that are read before the work may stop.
    """

    def __init__(self, slice_records: int = RECORDS_PER_SLICE) -> None:
        self._slice_records = slice_records

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """The records between position and target."""
        yield Apply(request.target, self._slice_records)
