"""Reads the committed records of one partition in pieces, also while files are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ...log.commit.fed_records import Ranges
from ...log.errors import RangeMissingError
from ...log.log import Log
from ...log.state import LogState
from ...records.arrays import Int64s

NOTED = "~noted"
"""No column of a record has this name."""


class PartitionReader:
    """Each record is given once. `check`: called before it goes on after files were replaced. `noted`: ranges of
    offsets; each record then says in a column `NOTED` whether it is in one.
    """

    def __init__(
        self,
        log: Log,
        state: LogState,
        topic: str,
        partition: int,
        check: Callable[[], None],
        noted: Ranges | None = None,
    ) -> None:
        self._log = log
        self._state = state
        self._topic = topic
        self._partition = partition
        self._check = check
        self._noted = noted
        self._next = 0
        self._left: pa.RecordBatch | None = None
        self._offsets = np.empty(0, np.int64)
        self._batches = self._committed()
        self.records = 0

    def until(self, end: int) -> Iterator[pa.RecordBatch]:
        """The records before offset `end` that were not given yet. Raises errors of the log."""
        while self._next < end:
            if self._left is None and not self._fill():
                return
            assert self._left is not None
            count = int(np.searchsorted(self._offsets, end))
            if not count:
                return
            found = self._with_note(self._left[:count], self._offsets[:count])
            self._next = int(self._offsets[count - 1]) + 1
            rest = self._left[count:]
            self._left, self._offsets = (rest if rest.num_rows else None), self._offsets[count:]
            self.records += count
            yield found

    def _with_note(self, records: pa.RecordBatch, offsets: Int64s) -> pa.RecordBatch:
        if self._noted is None:
            return records
        within = np.zeros(len(offsets), np.bool_)
        for start, end in self._noted:
            within |= (offsets >= start) & (offsets < end)
        return records.append_column(NOTED, pa.array(within))

    def _fill(self) -> bool:
        found = next(self._batches, None)
        if found is None:
            self._batches = self._committed()  # more may be committed since
            found = next(self._batches, None)
        if found is None:
            return False
        self._offsets, self._left = found
        return True

    def _committed(self) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        start = self._next
        while True:
            try:
                for within in self._state.ranges(self._topic, self._partition, start):
                    for fetched in self._log.read(within, within.position_of(start)):
                        rows = np.flatnonzero(fetched.offsets >= start)
                        if len(rows):
                            start = int(fetched.offsets[rows[-1]]) + 1
                            yield fetched.offsets[rows], fetched.records.take(pa.array(rows))
                return
            except RangeMissingError as error:
                if not self._state.was_replaced(error):
                    raise
                self._check()
