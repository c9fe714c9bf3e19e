"""Appends of records by users."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..ir.topology import Topic
from ..log.commit.descriptions import ExternalTopic, declaration_text
from ..log.commit.external_records import EXTERNAL_LANE, AppendRecord, SeedSource
from ..log.declared_topics import check_readable
from ..log.errors import CommitExistsError, SeededMeanwhileError, SeedError
from ..log.log import Listed, Log
from ..log.state import LogState, committed_records
from ..records.arrays import Int64s, piece_starts
from ..records.keys import holds_floats, key_partitions, normal_key
from ..records.schema import key_columns
from ..records.values import Convert
from ..timed_parts import wall_ms
from .incoming import Incoming, from_python, join
from .record_form import RefusedRows, Sieve
from .seed_rows import times_of, yielded_rows

# An append writes records, then creates one commit that lists them.

SOURCE = "the rows to append"
"""The source of the rows, for errors."""

WRITE_ROWS = 500_000
"""The most records that are written at once. It limits the memory of an append that arrives in pieces."""

WRITE_BYTES = 256 << 20
"""The most bytes in memory of records that are written at once; a larger record is written alone."""


@dataclass(frozen=True)
class AppendResult:
    """The result of an append. `commit`: the number of its commit, 0 if there was nothing to append.

    `offsets`: partition -> the offset of the first record and the offset after the last. `refused`: skipped rows, which
    the topic cannot hold.
    """

    topic: str
    records: int
    commit: int
    offsets: Mapping[int, tuple[int, int]]
    refused: RefusedRows = field(default_factory=RefusedRows)


class RetriedMeanwhileError(HeadwaterError):
    """Another process has put dead letters of `topic` back at the same time."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"another process has put dead letters of {topic} back meanwhile", "try again")


def append(
    log: Log,
    application: str,
    topic: Topic,
    rows: Any,
    timestamps: Sequence[int] | None = None,
    values: Convert = from_python,
) -> AppendResult:
    """Append records to an external topic: all are committed, or none. With `on_error: skip` or `dead_letter` of the
    topic, rows that it cannot hold are skipped.

    `rows`: a table (Arrow's, pandas', ...), or an iterable of tables, of objects with a field for each column, or of
    objects in record form. `timestamps`: in ms, one for each row; without them they come from the record, from the
    topic's timestamp column, or from the clock. `application`: `<project>-seed`. `values`: the converter of the
    objects' values.

    Raises SeedError for rows that the topic cannot hold, TopicChangedError.
    """
    now = wall_ms()
    # Given timestamps belong to rows by position, so no row may be skipped then.
    sieve = Sieve(topic if timestamps is None else replace(topic, on_error="fail"))
    if timestamps is None:
        incoming = sieve.to_the_end(yielded_rows(SOURCE, rows, topic, now, sieve, values))
    else:
        untimed = sieve.to_the_end(yielded_rows(SOURCE, rows, replace(topic, timestamp=None), now, sieve, values))
        incoming = _timed(untimed, times_of(SOURCE, timestamps))
    written = write_incoming(log, application, topic, incoming)
    if not written:
        return AppendResult(topic.name, 0, 0, {}, sieve.refused)
    record = AppendRecord(now, written, topic=ExternalTopic.from_topic(topic))
    return replace(commit_append(LogState.load(log.commits(application)), topic, record), refused=sieve.refused)


def append_incoming(log: Log, application: str, topic: Topic, incoming: Incoming) -> AppendResult:
    """Append records that already have the topic's columns. `application`: the one that commits them."""
    written = write_incoming(log, application, topic, [incoming])
    record = AppendRecord(wall_ms(), written, topic=ExternalTopic.from_topic(topic))
    return commit_append(LogState.load(log.commits(application)), topic, record)


def write_incoming(log: Log, application: str, topic: Topic, incoming: Iterable[Incoming]) -> tuple[Listed, ...]:
    """Write records without a commit. Records with a null key are spread round robin by row number."""
    pieces = with_partitions(topic, incoming)
    return tuple(listed for piece in pieces for listed in write_external(log, application, topic, *piece))


def write_external(
    log: Log, application: str, topic: Topic, table: pa.Table, partitions: int | Int64s
) -> tuple[Listed, ...]:
    """Write records of an external topic without a commit. `partitions`: see `RecordWriter.write`."""
    return log.write(application, topic.name, f"s-{uuid.uuid4().hex}", table, partitions, EXTERNAL_LANE)


def write_lane(
    log: Log, application: str, topic: Topic, incoming: Incoming, lane: int, stream_time: int
) -> tuple[Listed, ...]:
    """Write records without a commit into a lane of the application that writes the topic. Their order is the stream
    time of the lane's task, which its next records have, too.
    """
    ((table, partitions),) = with_partitions(topic, [incoming])
    order = pa.array(np.full(table.num_rows, max(0, stream_time)))
    table = table.set_column(table.schema.get_field_index("_order"), table.schema.field("_order"), order)
    return log.write(application, topic.name, f"r-{uuid.uuid4().hex}", table, partitions, lane)


def with_partitions(topic: Topic, incoming: Iterable[Incoming]) -> Iterator[tuple[pa.Table, Int64s]]:
    """Records in pieces to write, with the partition of each record."""
    row = 0
    for piece in _pieces(incoming):
        piece = replace(piece, table=with_normal_keys(topic, piece.table))
        yield piece.table, _partitions(topic, piece, row)
        row += len(piece)


def commit_append(
    state: LogState, topic: Topic, record: AppendRecord, kept: Callable[[LogState], tuple[Listed, ...]] | None = None
) -> AppendResult:
    """Create the commit, after any commits that other processes create meanwhile.

    `state`: the state with which a seed, or dead letters, were compared. `kept`: for a topic that starts again, returns
    the records to list behind the new ones. Raises TopicChangedError, SeededMeanwhileError, RetriedMeanwhileError.
    """
    new = record.segments
    seeded = state.seeds.get(topic.name)
    retried, put_back = dict(state.retried), dict(state.put_back)
    while True:
        if record.retried is not None and (state.retried, state.put_back) != (retried, put_back):
            raise RetriedMeanwhileError(record.retried.topic)
        if record.source and state.seeds.get(topic.name) != seeded:
            raise SeededMeanwhileError(topic.name)
        if not record.replace:
            check_readable(state, topic)
            record = replace(record, topic=ExternalTopic.from_topic(topic).with_earlier(state.topics.get(topic.name)))
        elif kept is not None and (again := kept(state)):
            declared = ExternalTopic.from_topic(topic).with_earlier(state.topics[topic.name])
            record = replace(record, segments=(*new, *again), topic=declared, appended=len(again))
        try:
            committed = state.commit(record)
            break
        except CommitExistsError:
            state.refresh()
    assert isinstance(committed, AppendRecord)
    return AppendResult(topic.name, committed.records, state.number, committed.offsets)


def with_normal_keys(topic: Topic, table: pa.Table) -> pa.Table:
    """The records with keys of which equal ones are equal bytes: in Spark, -0.0 equals 0.0, and all NaN are equal."""
    keys = {f"key.{name}" for name, data_type in key_columns(topic).items() if holds_floats(data_type)}
    columns = [normal_key(table[name].combine_chunks()) if name in keys else table[name] for name in table.column_names]
    return pa.table(columns, schema=table.schema)


def _partitions(topic: Topic, piece: Incoming, first: int) -> Int64s:
    partitions = partitions_of(topic, piece.table, first)
    return partitions if piece.partitions is None else np.where(piece.partitions >= 0, piece.partitions, partitions)


def partitions_of(topic: Topic, records: pa.Table | pa.RecordBatch, first: int) -> Int64s:
    """The partition of each record: by its key, and round robin for null keys. `first`: the number of the first row."""
    by_key = key_partitions(topic, records)
    return np.where(by_key >= 0, by_key, np.arange(first, first + records.num_rows) % topic.partitions)


def _timed(incoming: Iterable[Incoming], timestamps: pa.Array) -> Iterator[Incoming]:
    """The same records with other timestamps. Raises SeedError if the numbers differ."""
    first = 0
    for piece in incoming:
        times = timestamps[first : first + len(piece)]
        if len(times) < len(piece):
            raise SeedError(SOURCE, f"there are only {len(timestamps)} timestamps", f"row {len(timestamps) + 1}")
        columns = {"_timestamp": times, "_order": times}
        arrays = [columns.get(name, piece.table[name]) for name in piece.table.column_names]
        yield replace(piece, table=pa.table(arrays, schema=piece.table.schema))
        first += len(piece)
    if first < len(timestamps):
        raise SeedError(SOURCE, f"there are {len(timestamps)} timestamps for {first} rows")


def _pieces(incoming: Iterable[Incoming]) -> Iterator[Incoming]:
    """The same records in pieces of about WRITE_ROWS and at most WRITE_BYTES."""
    pending: list[Incoming] = []
    for whole in incoming:
        starts = piece_starts(whole.table, max(1, len(whole)), WRITE_BYTES)
        for piece in [whole[first:end] for first, end in pairwise([*starts, len(whole)])]:
            if overfull([part.table for part in pending], piece.table):
                yield join(pending)
                pending = []
            pending.append(piece)
            if sum(map(len, pending)) >= WRITE_ROWS:
                yield join(pending)
                pending = []
    if pending:
        yield join(pending)


def overfull(held: Sequence[pa.Table | pa.RecordBatch], more: pa.Table | pa.RecordBatch) -> bool:
    """Whether `more` would exceed WRITE_BYTES, the most bytes written at once."""
    return bool(held) and sum(part.nbytes for part in (*held, more)) > WRITE_BYTES


# Appended records of a topic with a seed. They are written again when the topic starts again with another seed.
#
# They keep their keys, values, timestamps and headers, and their order in a partition. They follow the seed's records,
# so their offsets change. Columns that the topic does not have any more are kept, as in the whole log
# (`records.widening`).


@dataclass(frozen=True)
class SeedReplacement:
    """A topic that is to start again with its seed. `records`: their number. `appended`: the number of those that do
    not come from the seed; None if unknown.
    """

    topic: str
    records: int
    appended: int | None


class AppendedUnknownError(HeadwaterError):
    """It is unknown which records of `topic` its seed has written: an earlier version has folded the commit."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"it is unknown which records of {topic} came with its seed: an earlier version has written them",
            f"if no appended records matter: headwater seed {topic} --full-refresh --drop-appended",
        )


class AppendedOtherwiseError(HeadwaterError):
    """Appended records do not fit the present declaration of their topic. `topic`; `records`: their number."""

    def __init__(self, topic: str, records: int, difference: str) -> None:
        super().__init__(
            f"{records:,} records were appended to {topic}, and do not fit its present declaration: {difference}",
            f"restore the declaration; or copy them first to a topic of another name: headwater read {topic} --format "
            f"json; or drop them: headwater seed {topic} --full-refresh --drop-appended",
        )
        self.records = records


def appended_records(state: LogState, topic: str) -> int:
    """The number of a topic's records that do not come from its seed. Raises AppendedUnknownError."""
    declared = state.topics.get(topic)
    if declared is None:
        return 0
    ends = _seeded(state, topic)
    total = 0
    for partition in range(declared.partitions):
        first, end = ends.get(partition, (0, 0))
        for within in state.ranges(topic, partition):
            covered = max(0, min(end, within.end_offset) - max(first, within.start_offset))
            total += max(0, within.records - covered)
    return total


def replacement(state: LogState, topic: str) -> SeedReplacement:
    """What changes if an external topic starts again with its seed."""
    parts = range(state.topics[topic].partitions)
    total = sum(range_.records for partition in parts for range_ in state.ranges(topic, partition))
    try:
        return SeedReplacement(topic, total, appended_records(state, topic))
    except AppendedUnknownError:
        return SeedReplacement(topic, total, None)


def check_appended(state: LogState, topic: Topic) -> None:
    """Check that a topic can start again and keep its appended records.

    Raises AppendedOtherwiseError if they do not fit the present declaration, AppendedUnknownError.
    """
    count = appended_records(state, topic.name)
    was, is_ = state.topics[topic.name].obstacles(topic)
    differ = {field: value for field, value in was.items() if field != "partitions"}
    if count and differ:
        raise AppendedOtherwiseError(topic.name, count, declaration_text(differ, is_))


class Appended:
    """Writes the appended records of a topic again, also those that arrive meanwhile. `topic`: as declared now."""

    def __init__(self, log: Log, application: str, topic: Topic) -> None:
        self._log = log
        self._application = application
        self._topic = topic
        self._next: dict[int, int] = {}
        self._written: list[Listed] = []
        self._rows = 0

    def rewrite(self, state: LogState) -> tuple[Listed, ...]:
        """The rewritten records, to be listed behind the seed's by the commit that follows this state.

        Raises AppendedUnknownError, and errors of the log.
        """
        declared = state.topics[self._topic.name]
        for partition in range(declared.partitions):
            for piece in _appended_pieces(self._not_rewritten(state, partition)):
                self._write(partition, piece, declared.partitions)
        return tuple(self._written)

    def _not_rewritten(self, state: LogState, partition: int) -> Iterator[pa.RecordBatch]:
        """The records not rewritten yet. The seed's are not even read: they may be damaged."""
        topic = self._topic.name
        first, end = _seeded(state, topic).get(partition, (0, 0))
        for low, high in ((0, first), (end, state.end(topic, partition))):
            start = max(low, self._next.get(partition, 0))
            for offsets, records in committed_records(self._log, state, topic, partition, start, high):
                self._next[partition] = int(offsets[-1]) + 1
                yield records

    def _write(self, partition: int, piece: pa.Table, partitions: int) -> None:
        same = partitions == self._topic.partitions
        where = partition if same else partitions_of(self._topic, piece, self._rows)
        self._rows += len(piece)
        self._written += write_external(self._log, self._application, self._topic, piece, where)


def _seeded(state: LogState, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> the offset of the first record of its seed, and the offset after the last."""
    source: SeedSource | None = state.seeds.get(topic)
    if source is None:
        return {}
    if source.parts is None:
        raise AppendedUnknownError(topic)
    return {part.partition: (part.start, part.end) for part in source.parts}


def _appended_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The records in tables with equal columns, of about WRITE_ROWS rows."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        full = sum(map(len, pending)) >= WRITE_ROWS or overfull(pending, batch)
        if pending and (full or batch.schema != pending[0].schema):
            yield pa.Table.from_batches(pending)
            pending = []
        pending.append(batch)
    if pending:
        yield pa.Table.from_batches(pending)
