"""What a processor works on at the moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Moment:
    """Mutable: moved from record to record.

    `stream_time`: the task's, with the record at work, ms; -1 before the first one. `timestamp`: of the record, or the
    time of the punctuation, ms. `record`: the number of the record; None in a punctuation, before the first record, and
    for what other steps or processors give up while no record comes. `row`: the row at work; None in a punctuation and
    before the first record. `at`: where in the epoch, see `punctuation.Position`. `in_batch`: whether many records are
    at work.
    """

    stream_time: int
    timestamp: int
    record: int | None = None
    row: int | None = None
    at: tuple[int, ...] = (-1,)
    in_batch: bool = False
