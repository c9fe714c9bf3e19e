"""Where the records of an epoch come from, and when they were taken: what steps know of them beside their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...records.arrays import Int64s
from ..rows import Rows
from .partition_group import TakenRecords

Places = tuple[str, Int64s, Int64s]
"""A topic, and the numbers and offsets of the records that are of it."""


@dataclass(frozen=True)
class Origins:
    """The records that a task takes in an epoch, numbered from 0 in the order of taking, whatever becomes of them.

    `before`: the task's stream time when the epoch began, ms. `times`: the stream time with each record. `places`: of
    each topic. `numbers`: of the rows of a later stage, by the first level of their path, from 1 on; None: that level
    is the number.
    `first`: in a trial, the number of the first record among those of all tasks, which rows have as their `_order`.
    """

    before: int
    times: Int64s
    places: Sequence[Places] = ()
    numbers: Int64s | None = None
    first: int | None = None

    @classmethod
    def of(cls, taken: TakenRecords, before: int) -> Origins:
        """Those of the records of an epoch that began at the stream time `before`, ms."""
        times: Int64s = np.full(len(taken), before)
        for rows in taken.rows:
            times[rows.path[0]] = rows.order
        places = zip(taken.topics, taken.rows, taken.offsets, strict=True)
        return cls(before, times, tuple((topic, rows.path[0], offsets) for topic, rows, offsets in places))

    def __len__(self) -> int:
        return len(self.times)

    def numbers_of(self, rows: Rows) -> Int64s:
        """Which record each row comes from, directly or not."""
        return rows.path[0] if self.numbers is None else self.numbers[rows.path[0]]

    def levels_of(self, numbers: Int64s) -> Int64s:
        """The first level of the paths of rows that come behind these records."""
        if self.numbers is None:
            return numbers
        return np.searchsorted(self.numbers[1:], numbers, side="right")

    def order_of(self, numbers: Int64s) -> Int64s:
        """The `_order` of rows that come from these records; from none, if there are none."""
        if self.first is not None:
            return numbers + self.first
        if not len(self):
            return np.full(len(numbers), self.before)
        return self.times[numbers]

    def time(self, number: int) -> int:
        """The stream time with a record; before the first one that of the epoch's beginning."""
        return self.before if number < 0 or not len(self) else int(self.times[number])

    def times_of(self, numbers: Int64s) -> Int64s:
        """The stream time with each of these records; of rows that come from none, as there are none, that of the
        epoch's beginning.
        """
        return self.times[numbers] if len(self) else np.full(len(numbers), self.before)

    def reached(self, time: int) -> int:
        """The number of the first record with which stream time is as late as `time`; beyond the last, if none is."""
        return int(np.searchsorted(self.times, time))

    def topic(self, number: int) -> str:
        """The topic of a record."""
        return self.places[int(self._found[0][number])][0]

    def offset(self, number: int) -> int:
        """The offset of a record."""
        return int(self._found[1][number])

    @cached_property
    def _found(self) -> tuple[Int64s, Int64s]:
        topics, offsets = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for topic, (_, numbers, found) in enumerate(self.places):
            topics[numbers], offsets[numbers] = topic, found
        return topics, offsets
