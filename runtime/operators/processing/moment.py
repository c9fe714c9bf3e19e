"""What a processor works on at the moment."""

from __future__ import annotations

from dataclasses import dataclass

from ..node import RowFailedError


@dataclass(slots=True)
class Moment:
    """Mutable: moved from record to record.

    `stream_time`: the task's, with the record at work, ms; -1 before the first one. `timestamp`: of the record, or the
    time of the punctuation, ms. `record`: the number of the record; None in a punctuation, before the first record, and
    for what other steps or processors give up while no record comes. `row`: the row at work; None in a punctuation and
    before the first record. `at`: where in the epoch, see `punctuation.Position`. `in_batch`: whether many records are
    at work. `order`: the `_order` of the record that all comes from, or that the punctuation follows. `failed`: what a
    processor has raised for a record.
    """

    stream_time: int
    timestamp: int
    record: int | None = None
    row: int | None = None
    at: tuple[int, ...] = (-1,)
    in_batch: bool = False
    order: int = -1
    failed: RowFailedError | None = None

    @classmethod
    def at_start(cls, before: int) -> Moment:
        """Before the first record of an epoch. `before`: the stream time then."""
        return cls(before, max(before, 0))
