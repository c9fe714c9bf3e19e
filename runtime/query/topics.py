"""Reading a topic's committed records by offset, for people: `headwater read` and the Python API."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa

from ..log.errors import FullyRefreshedError, RangeMissingError
from ..log.log import Log
from ..log.offset_order import by_offset
from ..log.state import LogState
from ..records.arrays import Int64s
from ..records.schema import topic_schema
from ..records.texts.record_json import Record, records_of
from ..topology import Topic

AT_ONCE = 1024
"""Rows that are turned into Python values at once: a reader with a low limit need not wait for a whole batch."""


class TopicReader:
    """The committed records of a topic from an offset on; each call of `read` goes on where the last one ended.

    `application`: the topic's writer, `<project>-seed` for a topic that is fed from outside. `start`: the offset to
    start at in every partition, None for the first. `as_written`: whether the topic's columns are those that its writer
    gives it, once it has a record: what an expression gives may not be known here before.
    """

    def __init__(
        self, log: Log, application: str, topic: Topic, start: int | None = None, *, as_written: bool = False
    ) -> None:
        self._log = log
        self._topic = topic
        self._state = LogState(log.commits(application))
        self._offsets = dict.fromkeys(range(topic.partitions), start or 0)
        self._columns = topic_schema(topic, headers=True)
        self._as_written = as_written
        self._since: int | None = None
        self._written = False

    def read(self, limit: int | None = None) -> Iterator[Record]:
        """The records that are committed by now, at most `limit`. Raises FullyRefreshedError.

        Those of a partition come by offset; of several partitions the one whose next record is the earliest goes first.
        """
        self._refresh()
        feeds = [self._partition(partition) for partition in range(self._topic.partitions)]
        merged = heapq.merge(*feeds, key=lambda record: (record.timestamp, record.partition))
        for record in islice(merged, limit):
            self._offsets[record.partition] = record.offset + 1
            yield record

    def _refresh(self) -> None:
        if self._state.number:
            self._state.refresh()
            self._state.check_same()
        else:
            self._state.reload()
        self._check_same_records()

    def _check_same_records(self) -> None:
        """Check that the topic has not begun again since it was looked at first: then other records have its offsets.

        Only one that is fed from outside can do that alone. Raises FullyRefreshedError.
        """
        fed = self._state.topics.get(self._topic.name)
        since = None if fed is None else fed.since
        if self._written and since != self._since:
            raise FullyRefreshedError(self._topic.name)
        written = self._topic.name in self._state.written()
        if self._as_written and written and not self._written:
            self._take_columns()
        self._since, self._written = since, written

    def _take_columns(self) -> None:
        """Take the columns from the topic's writer. One that is fed from outside has none but its own."""
        recorded = self._state.topology.topics.get(self._topic.name)
        if recorded is not None:
            self._topic = replace(self._topic, value=recorded.value)
            self._columns = topic_schema(self._topic, headers=True)

    def batches(self, limit: int | None = None) -> Iterator[tuple[int, Int64s, pa.RecordBatch]]:
        """The records that are committed by now, of each partition at most `limit`: partition, offsets, batch.

        Partition after partition. Where the next read goes on is left to `advance`.
        """
        self._refresh()
        for partition in range(self._topic.partitions):
            left = limit
            for offsets, batch in self._batches(partition):
                yield partition, offsets[:left], batch[:left]
                if left is not None and (left := left - batch.num_rows) <= 0:
                    break

    def advance(self, offsets: Mapping[int, int]) -> None:
        """Let the next read go on at these offsets, by partition."""
        self._offsets.update(offsets)

    def _partition(self, partition: int) -> Iterator[Record]:
        for offsets, batch in self._batches(partition):
            for row in range(0, batch.num_rows, AT_ONCE):
                part = slice(row, row + AT_ONCE)
                yield from records_of(self._topic, partition, offsets[part], batch[part])

    def _batches(self, partition: int) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """What is committed from where reading stands, each batch with the offsets of its records."""
        offset = self._offsets[partition]
        while True:
            try:
                for offsets, batch in self._committed(partition, offset):
                    yield offsets, batch
                    offset = int(offsets[-1]) + 1
                return
            except RangeMissingError as error:
                # Only a file that is still listed is lost.
                if not self._state.was_replaced(error):
                    raise
                self._check_same_records()

    def _committed(self, partition: int, offset: int) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        ranges = self._state.ranges(self._topic.name, partition, offset)
        wanted = [(each, each.position_of(offset)) for each in ranges]
        for found in by_offset(self._log, wanted, self._columns):
            skip = int(np.searchsorted(found.offsets, offset))
            if skip < len(found.offsets):
                yield found.offsets[skip:], found.records[skip:]
