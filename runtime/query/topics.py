"""Records of topics, for people."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..ir.topology import Topic
from ..log.errors import FullyRefreshedError, RangeMissingError
from ..log.log import Log
from ..log.ranges import by_offset
from ..log.state import LogState
from ..records.arrays import Int64s
from ..records.record_json import Record, records_of
from ..records.schema import HEADERS, key_columns, topic_schema, value_columns
from ..records.types import TIMESTAMP, Kind, column_names

# Reading a topic's committed records by offset, for people: `headwater read` and the Python API.

AT_ONCE = 1024
"""Rows that are turned into Python values at once: a reader with a low limit need not wait for a whole batch."""


class TopicReader:
    """The committed records of a topic from an offset on; each call of `read` goes on where the last one ended.

    `application`: the topic's writer, `<project>-seed` for a topic that is fed from outside. `start`: the offset to
    start at in every partition, None for the first. `as_written`: whether the topic's columns are those that its writer
    gives it, once it has a record: what an expression gives may not be known here before. `state`: of the application,
    where several topics of it are read: each commit is then read once. By default one of its own.
    """

    def __init__(
        self,
        log: Log,
        application: str,
        topic: Topic,
        start: int | None = None,
        *,
        as_written: bool = False,
        state: LogState | None = None,
    ) -> None:
        self._log = log
        self._topic = topic
        self._state = LogState(log.commits(application)) if state is None else state
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


# A topic's records as an Arrow table of typed columns, made of whole batches and not of Python objects.
#
# Columns: `partition`, `offset` and `timestamp`, those of the key and of the value as they are declared, then
# `tombstone` and `headers` (null where a record has none). For names that meet see `types.column_names`.

_HEADERS = pa.map_(pa.string(), pa.string())
_BEFORE = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": TIMESTAMP}
_AFTER = {"tombstone": pa.bool_(), "headers": _HEADERS}


def table_schema(topic: Topic) -> pa.Schema:
    """The columns of the table."""
    key, value = key_columns(topic), value_columns(topic)
    keys, values = table_names(topic)
    columns = {keys[name]: kind for name, kind in key.items()} | {values[name]: kind for name, kind in value.items()}
    return pa.schema(list((_BEFORE | columns | _AFTER).items()))


def table_names(topic: Topic) -> tuple[dict[str, str], dict[str, str]]:
    """What the table calls the columns of the key and of the value."""
    return column_names([*_BEFORE, *_AFTER], key_columns(topic), value_columns(topic))


def read_table(topic: Topic, reader: TopicReader, limit: int | None = None) -> pa.Table:
    """What `reader.read(limit)` would give, in the same order; its next read goes on behind that."""
    schema = table_schema(topic)
    pieces: list[pa.Table] = []
    timestamps: defaultdict[int, list[Int64s]] = defaultdict(list)
    for partition, offsets, batch in reader.batches(limit):
        pieces.append(_table(topic, schema, partition, offsets, batch))
        timestamps[partition].append(batch.column("_timestamp").to_numpy())
    table = pa.concat_tables([schema.empty_table(), *pieces])
    if len(timestamps) > 1:
        table = table.take(pa.array(_order(timestamps.values())[:limit]))
    reader.advance(_ends(table))
    return table


def _table(topic: Topic, schema: pa.Schema, partition: int, offsets: Int64s, batch: pa.RecordBatch) -> pa.Table:
    rows = batch.num_rows
    columns = [
        np.full(rows, partition, np.int32),
        offsets,
        batch.column("_timestamp").cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP),
        *(batch.column(f"key.{name}") for name in key_columns(topic)),
        *(batch.column(f"value.{name}") for name in value_columns(topic)),
        pc.equal(batch.column("_kind"), int(Kind.TOMBSTONE)),
        _headers(batch.column(HEADERS)),
    ]
    return pa.table(columns, schema=schema)


def _headers(column: pa.Array) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column), _HEADERS)
    return pa.array([None if text is None else list(json.loads(text).items()) for text in column.to_pylist()], _HEADERS)


def _order(timestamps: Iterable[Sequence[Int64s]]) -> Int64s:
    """Rows of all partitions, one behind the other, as a merge by the partitions' next timestamps takes them.

    A record waits for those before it in its partition, so it comes where the greatest timestamp up to it does.
    """
    turns = [np.maximum.accumulate(np.concatenate(own)) for own in timestamps]
    return np.argsort(np.concatenate(turns), kind="stable")


def _ends(table: pa.Table) -> dict[int, int]:
    """The offsets behind the table's records, by partition."""
    last = table.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    return {each["partition"]: each["offset_max"] + 1 for each in last}
