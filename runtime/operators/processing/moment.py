"""What a processor works on at the moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import get_ident
from typing import Generic, TypeVar

from ...python_functions.values import UnfitValueError
from ..node import RowFailedError

Item = TypeVar("Item")


@dataclass(slots=True)
class Moment:
    """Mutable: moved from record to record.

    `stream_time`: the task's, with the record at work, ms; -1 before the first one. `timestamp`: of the record, or the
    time of the punctuation, ms. `record`: the number of the record; None in a punctuation, before the first record, and
    for what other steps or processors give up while no record comes. `row`: the row at work; None in a punctuation and
    before the first record. `at`: where in the epoch, see `punctuation.Position`. `in_batch`: whether many records are
    at work. `order`: the `_order` of the record that all comes from, or that the punctuation follows. `failed`: what a
    processor has raised for a record. `thread`: in which processors are called. `ended`: whether the epoch has.
    `misused`: what another thread was told meanwhile.
    """

    stream_time: int
    timestamp: int
    record: int | None = None
    row: int | None = None
    at: tuple[int, ...] = (-1,)
    in_batch: bool = False
    order: int = -1
    failed: RowFailedError | None = None
    thread: int = field(default_factory=get_ident)
    ended: bool = False
    misused: str = ""

    def refuse_outside(self) -> None:
        """Raise UnfitValueError where a context, a store or a schedule is used after its epoch, or in another thread:
        whatever it is given there would be lost, or come at a place that chance decides.
        """
        if self.ended:
            raise UnfitValueError(
                "contexts, stores and schedules are of one epoch, and that of this one has ended: take those that "
                "`init` is given in each epoch, and keep them in the processor alone"
            )
        if get_ident() != self.thread:
            self.misused = (
                "contexts, stores and schedules are used in the thread in which the processor is called, and not in "
                "another one: have that return what it has found, and forward or store it before `process` returns"
            )
            raise UnfitValueError(self.misused)

    @classmethod
    def at_start(cls, before: int) -> Moment:
        """Before the first record of an epoch. `before`: the stream time then."""
        return cls(before, max(before, 0))


class OfEpoch(Iterator[Item], Generic[Item]):
    """What a store gives one after another, in its epoch alone. A generator that has raised would be empty after that,
    so a processor that has kept it would find no rows where there are some.
    """

    def __init__(self, found: Iterator[Item], moment: Moment) -> None:
        self._found = found
        self._moment = moment

    def __next__(self) -> Item:
        self._moment.refuse_outside()
        return next(self._found)
