"""The numbers of records: from which record each row of a task comes, and whether the record is touched.

A failed record can be skipped by the stage after the step, as long as no operator has stored, written or counted
anything of it. Once an operator has, the record is *touched*: its rows have negative numbers. If one of these rows
fails, the epoch is rebuilt without the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import HeadwaterError
from ..records.arrays import Bools, Int64s
from .execution.node import Edges, TaskEpoch
from .operators.operator import Node


class TouchedRecordError(HeadwaterError):
    """A step could not process a row of a touched record."""

    def __init__(self) -> None:
        super().__init__("a step cannot process a record of which a store or a topic has something already")


def reject_touched(failed: Sequence[int]) -> None:
    """Raise TouchedRecordError if one of these records is touched. `failed`: numbers, negative if touched."""
    if any(number < 0 for number in failed):
        raise TouchedRecordError


class Numbering:
    """The record numbers of a task's rows in one stage.

    `numbers`: int64. The first level of a row's path is an index into it. -1 - n stands for the touched record n.
    """

    def __init__(self, numbers: Int64s) -> None:
        self._numbers = numbers
        self._touched: Bools = np.zeros(len(numbers), np.bool_)

    @classmethod
    def of_taken(cls, records: int) -> Numbering:
        """The numbering of the first stage: its rows are the records that the task takes."""
        # Without records, rows of wall-clock punctuations have the number 0.
        return cls(np.arange(max(records, 1)))

    def run(self, node: Node, edges: Edges, epoch: TaskEpoch) -> None:
        """Run an operator, and mark the records that it touches."""
        touches = node.touches
        self._touch(edges, touches.before)
        came = {name: edges[name].path[0] for name in touches.dropped}
        node.run(edges, epoch)
        self._touch(edges, touches.after)
        for name, records in came.items():
            self._touched[np.setdiff1d(records, edges[name].path[0])] = True

    def _touch(self, edges: Edges, names: Iterable[str]) -> None:
        for name in names:
            self._touched[edges[name].path[0]] = True

    def touch_all(self) -> None:
        """Mark all records as touched, so that none can be skipped."""
        self._touched[:] = True

    @property
    def records(self) -> Int64s:
        """The numbers of the records, touched or not, by the first level of their rows' path.

        Example: [0, -1, 2] gives [0, 0, 2].
        """
        return np.where(self._numbers < 0, -1 - self._numbers, self._numbers)

    def skip(self, records: Int64s, edges: Edges) -> tuple[int, ...]:
        """Remove all rows of failed records from `edges`. Returns the numbers of these records.

        `records`: the first level of the paths of failed rows. Raises TouchedRecordError.

        Example: a step before has made two rows of record 0. The second one fails, so both are removed.

            numbers                         [0, 0, 2, 3]
            records                         [1]
            result                          (0,)
            first levels of remaining rows  [2, 3]
        """
        failed = np.unique(self._numbers[records])
        reject_touched(failed.tolist())
        gone = np.isin(self._numbers, failed)
        if (gone & self._touched).any():
            raise TouchedRecordError
        for name, rows in edges.items():
            edges[name] = rows.filter(~gone[rows.path[0]])
        return tuple(failed.tolist())

    def numbers(self) -> Int64s:
        """The numbers for the next stage, by the first level of the rows' path. Touched records are negative.

        Example: a row with the first level 1 is touched, so all rows of its record are.

            numbers   [0, 0, 2, 3]
            result    [-1, -1, 2, 3]
        """
        if not self._touched.any():
            return self._numbers
        records = np.unique(self._numbers[self._touched])
        gone = np.isin(self._numbers, records) & (self._numbers >= 0)
        return np.where(gone, -1 - self._numbers, self._numbers)
