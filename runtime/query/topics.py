"""Reading a topic's committed records by offset, for people: `headwater read` and the Python API."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice

import pyarrow as pa

from ..log.errors import SegmentMissingError
from ..log.log import Log
from ..log.state import LogState
from ..records.record_json import Record, records_of
from ..records.schema import topic_schema
from ..topology import Topic

AT_ONCE = 1024
"""Rows that are turned into Python values at once: a reader with a low limit need not wait for a whole batch."""


class TopicReader:
    """The committed records of a topic from an offset on; each call of `read` goes on where the last one ended.

    `application`: the topic's writer, `<project>-seed` for a topic that is fed from outside. `start`: the offset to
    start at in every partition, None for the first.
    """

    def __init__(self, log: Log, application: str, topic: Topic, start: int | None = None) -> None:
        self._log = log
        self._topic = topic
        self._state = LogState(log.commits(application))
        self._offsets = dict.fromkeys(range(topic.partitions), start or 0)
        self._columns = topic_schema(topic, headers=True).names

    def read(self, limit: int | None = None) -> Iterator[Record]:
        """The records that are committed by now, at most `limit`. Raises StartedAgainError.

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

    def batches(self, limit: int | None = None) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """The records that are committed by now, of each partition at most `limit`: partition, first offset, batch.

        Partition after partition. Where the next read goes on is left to `advance`.
        """
        self._refresh()
        for partition in range(self._topic.partitions):
            left = limit
            for first, batch in self._batches(partition):
                yield partition, first, batch.slice(0, left)
                if left is not None and (left := left - batch.num_rows) <= 0:
                    break

    def advance(self, offsets: Mapping[int, int]) -> None:
        """Let the next read go on at these offsets, by partition."""
        self._offsets.update(offsets)

    def _partition(self, partition: int) -> Iterator[Record]:
        for first, batch in self._batches(partition):
            for row in range(0, batch.num_rows, AT_ONCE):
                yield from records_of(self._topic, partition, first + row, batch.slice(row, AT_ONCE))

    def _batches(self, partition: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What is committed from where reading stands, each batch with the offset of its first record."""
        offset = self._offsets[partition]
        while True:
            try:
                for first, batch in self._committed(partition, offset):
                    yield first, batch
                    offset = first + batch.num_rows
                return
            except SegmentMissingError as error:
                # Files are replaced by merged ones: the commits say by which. Only one that is still listed is lost.
                self._state.reload()
                if error.path in self._state.paths():
                    raise

    def _committed(self, partition: int, offset: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for segment in list(self._state.segments(self._topic.name, partition)):
            if segment.end_offset <= offset:
                continue
            for index, (listed, start) in enumerate(zip(segment.batches, segment.starts, strict=True)):
                first = segment.base_offset + start
                if first + listed.rows <= offset:
                    continue
                (batch,) = self._log.read_batches(segment, [index], self._columns)
                skip = max(offset - first, 0)
                yield first + skip, batch.slice(skip)


def read_topic(
    log: Log, application: str, topic: Topic, start: int | None = None, limit: int | None = None
) -> Iterator[Record]:
    """The committed records of a topic, as `TopicReader.read` gives them."""
    return TopicReader(log, application, topic, start).read(limit)
