"""Which record each row of a task comes from, and whether an operator has kept something of that record already.

A record that fails can be skipped by the stage behind the step, as long as no store and no topic has anything of it,
and no operator has counted it. From then on it is *touched*: its rows have negative numbers. If one of them fails, the
epoch is rebuilt without the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import HeadwaterError
from ..records.arrays import Bools, Int64s
from .execution.node import Edges, TaskEpoch
from .operators.operator import Node


class TouchedRecordError(HeadwaterError):
    """A step could not process a row of a record that is touched."""

    def __init__(self) -> None:
        super().__init__("a step cannot process a record of which a store or a topic has something already")


def refuse_touched(failed: Sequence[int]) -> None:
    """Raise TouchedRecordError if one of these records is touched."""
    if any(number < 0 for number in failed):
        raise TouchedRecordError


class Numbering:
    """The numbers of a task's rows in one stage. `numbers`: of the rows that came, by the first level of their path."""

    def __init__(self, numbers: Int64s) -> None:
        self._numbers = numbers
        self._touched: Bools = np.zeros(len(numbers), np.bool_)

    @classmethod
    def of_taken(cls, records: int) -> Numbering:
        """That of the first stage, whose rows are the records that the task takes."""
        # Where there is no record, what wall-clock punctuations forward has the number 0.
        return cls(np.arange(max(records, 1)))

    def run(self, node: Node, edges: Edges, epoch: TaskEpoch) -> None:
        """Run an operator, and note which records it touches."""
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
        """Leave no record out."""
        self._touched[:] = True

    @property
    def records(self) -> Int64s:
        """The numbers of the records, by the first level of their rows' path, whether they are touched or not."""
        return np.where(self._numbers < 0, -1 - self._numbers, self._numbers)

    def leave_out(self, records: Int64s, edges: Edges) -> tuple[int, ...]:
        """Remove all rows of the records that some rows come from, by the first level of their paths; their numbers.

        Raises TouchedRecordError.
        """
        failed = np.unique(self._numbers[records])
        refuse_touched(failed.tolist())
        gone = np.isin(self._numbers, failed)
        if (gone & self._touched).any():
            raise TouchedRecordError
        for name, rows in edges.items():
            edges[name] = rows.filter(~gone[rows.path[0]])
        return tuple(failed.tolist())

    def numbers(self) -> Int64s:
        """The numbers of the rows that go on, by the first level of their path."""
        if not self._touched.any():
            return self._numbers
        records = np.unique(self._numbers[self._touched])
        gone = np.isin(self._numbers, records) & (self._numbers >= 0)
        return np.where(gone, -1 - self._numbers, self._numbers)
