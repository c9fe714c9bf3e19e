"""Records of topics, for `headwater read` and the Python API."""

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
from ..log.errors import FullyRefreshedError
from ..log.log import Log
from ..log.state import LogState, committed_records
from ..records.arrays import Int64s
from ..records.record_json import Record, records_of
from ..records.schema import HEADERS, key_columns, topic_schema, value_columns
from ..records.types import TIMESTAMP, Kind, column_names

# Reading a topic's committed records by offset.

AT_ONCE = 1024
"""Rows converted to Python values at once: a reader with a low limit does not wait for a whole batch."""


class TopicReader:
    """The committed records of a topic from an offset on. A call of `read` continues where the last one ended.

    `application`: the topic's writer, `<project>-seed` for an external topic. `start`: the first offset in every
    partition, None for the first record. `as_written`: take the columns from the topic's writer once it has written a
    record: types of expressions may be unknown here before. `state`: the application's, shared by readers of several
    topics, so that each commit is read once; default: a state of its own.
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
        """The records committed by now, at most `limit`. Raises FullyRefreshedError.

        Records of a partition come by offset; of several partitions, the one with the earliest next record comes first.
        """
        self._refresh()
        partitions = [self._partition(partition) for partition in range(self._topic.partitions)]
        merged = heapq.merge(*partitions, key=lambda record: (record.timestamp, record.partition))
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
        """Check that the topic has not started again since the first read: then other records have its offsets.

        Only an external topic starts again by itself. Raises FullyRefreshedError.
        """
        fed = self._state.topics.get(self._topic.name)
        since = None if fed is None else fed.since
        if self._written and since != self._since:
            raise FullyRefreshedError(self._topic.name)
        written = self._topic.name in self._state.written()
        if self._as_written and written and not self._written:
            self._use_written_columns()
        self._since, self._written = since, written

    def _use_written_columns(self) -> None:
        """Use the columns of the topic's writer. An external topic has only its own."""
        recorded = self._state.topology.topics.get(self._topic.name)
        if recorded is not None:
            self._topic = replace(self._topic, value=recorded.value)
            self._columns = topic_schema(self._topic, headers=True)

    def batches(self, limit: int | None = None) -> Iterator[tuple[int, Int64s, pa.RecordBatch]]:
        """The records committed by now, at most `limit` of each partition: partition, offsets, batch.

        Partition by partition. The caller sets the next position with `advance`.
        """
        self._refresh()
        for partition in range(self._topic.partitions):
            remaining = limit
            for offsets, batch in self._batches(partition):
                yield partition, offsets[:remaining], batch[:remaining]
                if remaining is not None and (remaining := remaining - batch.num_rows) <= 0:
                    break

    def advance(self, offsets: Mapping[int, int]) -> None:
        """Set the offsets, by partition, at which the next read starts."""
        self._offsets.update(offsets)

    def _partition(self, partition: int) -> Iterator[Record]:
        for offsets, batch in self._batches(partition):
            for row in range(0, batch.num_rows, AT_ONCE):
                part = slice(row, row + AT_ONCE)
                yield from records_of(self._topic, partition, offsets[part], batch[part])

    def _batches(self, partition: int) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """Committed records from the present offset on, in batches with their offsets."""
        topic, start = self._topic.name, self._offsets[partition]
        return committed_records(
            self._log, self._state, topic, partition, start, columns=self._columns, check=self._check_same_records
        )


# A topic's records as an Arrow table of typed columns, built from batches, not from Python objects.
#
# Columns: `partition`, `offset` and `timestamp`, those of the key and of the value as declared, then `tombstone` and
# `headers` (null for a record without headers). For equal names see `types.column_names`.

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
    """The names of the key's and the value's columns in the table."""
    return column_names([*_BEFORE, *_AFTER], key_columns(topic), value_columns(topic))


def read_table(topic: Topic, reader: TopicReader, limit: int | None = None) -> pa.Table:
    """The records of `reader.read(limit)` in the same order, as a table. The reader's position moves behind them."""
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
    """The order in which a merge by timestamp takes the rows of all partitions, as positions in their concatenation.

    A record waits for those before it in its partition, so it is placed by the greatest timestamp up to it:

        _order([[np.array([1, 5, 2])], [np.array([3, 4])]])
        # turns: [1, 5, 5], [3, 4]; rows in the order 1, 3, 4, 5, 2
        # array([0, 3, 4, 1, 2])
    """
    turns = [np.maximum.accumulate(np.concatenate(own)) for own in timestamps]
    return np.argsort(np.concatenate(turns), kind="stable")


def _ends(table: pa.Table) -> dict[int, int]:
    """The offsets after the table's last records, by partition."""
    last = table.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    return {row["partition"]: row["offset_max"] + 1 for row in last}
