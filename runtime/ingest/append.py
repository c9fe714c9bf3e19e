"""Records that users append."""

from __future__ import annotations

import time
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
from ..log.errors import CommitExistsError, RangeMissingError, SeededMeanwhileError, SeedError
from ..log.log import Listed, Log
from ..log.state import LogState
from ..records.arrays import Int64s, piece_starts
from ..records.keys import holds_floats, key_partitions, normal_key
from ..records.schema import key_columns
from ..records.values import Convert
from .incoming import Incoming, from_python, join
from .record_form import RefusedRows, Sieve
from .seed_rows import times_of, yielded_rows

# Appends records from outside to a topic: writes them, then creates one commit that lists them.

SOURCE = "the rows to append"
"""The name of the rows in errors."""

WRITE_ROWS = 500_000
"""Records that are written at once. This limits the memory of an append that arrives in pieces."""

WRITE_BYTES = 256 << 20
"""Bytes of records that are written at once, as they are in memory; of a larger record, those of this record."""


@dataclass(frozen=True)
class AppendResult:
    """The result of an append. `commit`: its number, 0 if there was nothing to append.

    `offsets`: partition -> the offset of the first record and the offset after the last. `refused`: rows that the topic
    cannot hold, and that were left out.
    """

    topic: str
    records: int
    commit: int
    offsets: Mapping[int, tuple[int, int]]
    refused: RefusedRows = field(default_factory=RefusedRows)


class RetriedMeanwhileError(HeadwaterError):
    """Somebody else has put dead letters of `topic` back at the same time."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"dead letters of {topic} were put back by somebody else meanwhile", "try again")
        self.topic = topic


def append(
    log: Log,
    application: str,
    topic: Topic,
    rows: Any,
    timestamps: Sequence[int] | None = None,
    values: Convert = from_python,
) -> AppendResult:
    """Append records to a topic that is fed from outside. Either all are committed, or none; but rows that the topic
    cannot hold are left out if its `on_error` says so.

    `rows`: a table (Arrow's, pandas', ...), or an iterable of tables, of objects with a field for each column, or of
    objects in record form. `timestamps`: ms, one for each row; otherwise they come from the record, from the topic's
    timestamp column, or from the clock. `application`: `<project>-seed`. `values`: how the values of objects are read.

    Raises SeedError for rows that the topic cannot hold, TopicChangedError.
    """
    now = time.time_ns() // 1_000_000
    # Timestamps are given row by row, so then all rows have to fit.
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
    """Append records that have the topic's columns already. `application`: in whose commits they are."""
    written = write_incoming(log, application, topic, [incoming])
    record = AppendRecord(time.time_ns() // 1_000_000, written, topic=ExternalTopic.from_topic(topic))
    return commit_append(LogState.load(log.commits(application)), topic, record)


def write_incoming(log: Log, application: str, topic: Topic, incoming: Iterable[Incoming]) -> tuple[Listed, ...]:
    """Write records that no commit lists yet. Records with a null key go round robin by row number."""
    written: list[Listed] = []
    for table, partitions in placed(topic, incoming):
        name = f"s-{uuid.uuid4().hex}"
        written += log.write(application, topic.name, name, table, partitions, EXTERNAL_LANE)
    return tuple(written)


def placed(topic: Topic, incoming: Iterable[Incoming]) -> Iterator[tuple[pa.Table, Int64s]]:
    """Records as they are to be written, in pieces, with the partition of each."""
    row = 0
    for piece in _pieces(incoming):
        piece = replace(piece, table=with_normal_keys(topic, piece.table))
        yield piece.table, _partitions(topic, piece, row)
        row += len(piece)


def commit_append(
    state: LogState, topic: Topic, record: AppendRecord, kept: Callable[[LogState], tuple[Listed, ...]] | None = None
) -> AppendResult:
    """Create the commit, after any commits that others create meanwhile.

    `state`: the one that a seed, or dead letters, were compared with. `kept`: of a topic that starts again, the records
    that are listed behind the new ones. Raises TopicChangedError, SeededMeanwhileError, RetriedMeanwhileError.
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
    """The records with keys of which equal ones are equal bytes: -0.0 equals 0.0, and all NaN are equal in Spark."""
    keys = {f"key.{name}" for name, data_type in key_columns(topic).items() if holds_floats(data_type)}
    columns = [normal_key(table[name].combine_chunks()) if name in keys else table[name] for name in table.column_names]
    return pa.table(columns, schema=table.schema)


def _partitions(topic: Topic, piece: Incoming, first: int) -> Int64s:
    found = key_partitions(topic, piece.table)
    if piece.partitions is not None:
        found = np.where(piece.partitions >= 0, piece.partitions, found)
    return np.where(found >= 0, found, np.arange(first, first + len(piece)) % topic.partitions)


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
    held: list[Incoming] = []
    for whole in incoming:
        starts = piece_starts(whole.table, max(1, len(whole)), WRITE_BYTES)
        for piece in [whole[first:end] for first, end in pairwise([*starts, len(whole)])]:
            if overfull([each.table for each in held], piece.table):
                yield join(held)
                held = []
            held.append(piece)
            if sum(map(len, held)) >= WRITE_ROWS:
                yield join(held)
                held = []
    if held:
        yield join(held)


def overfull(held: Sequence[pa.Table | pa.RecordBatch], more: pa.Table | pa.RecordBatch) -> bool:
    """Whether records that are to be written at once would have too many bytes with some more."""
    return bool(held) and sum(each.nbytes for each in (*held, more)) > WRITE_BYTES


# The records that were appended to a topic with a seed: written again when the topic starts again with another seed.
#
# They keep their keys, values, timestamps and headers, and their order in a partition; they come behind the seed's, so
# their offsets change. Columns that the topic has no more go along, as in the log as a whole (see `records.widening`).


@dataclass(frozen=True)
class SeedReplacement:
    """A topic that is to start again with its seed. `records`: how many it has. `appended`: how many of these its seed
    has not given; None if that is not known.
    """

    topic: str
    records: int
    appended: int | None


class AppendedUnknownError(HeadwaterError):
    """Which records of a topic its seed gave is not known: an earlier version has folded the commit. `topic`."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"which records of {topic} came with its seed is not known: an earlier version has written them",
            f"if nothing was appended to it, or that may go: headwater seed {topic} --full-refresh --drop-appended",
        )
        self.topic = topic


class AppendedOtherwiseError(HeadwaterError):
    """Appended records cannot be kept in a topic that is declared otherwise now. `topic`, `records`: how many."""

    def __init__(self, topic: str, records: int, difference: str) -> None:
        super().__init__(
            f"{records:,} records were appended to {topic}, and cannot be records of it as it is declared now: "
            f"{difference}",
            f"declare it as it was; or copy them first to a topic of another name: headwater read {topic} --format "
            f"json; or give them up: headwater seed {topic} --full-refresh --drop-appended",
        )
        self.topic = topic
        self.records = records


def appended_records(state: LogState, topic: str) -> int:
    """How many records of a topic its seed has not given. Raises AppendedUnknownError."""
    found = state.topics.get(topic)
    if found is None:
        return 0
    ends = _seeded(state, topic)
    total = 0
    for partition in range(found.partitions):
        first, end = ends.get(partition, (0, 0))
        for within in state.ranges(topic, partition):
            covered = max(0, min(end, within.end_offset) - max(first, within.start_offset))
            total += max(0, within.records - covered)
    return total


def replacement(state: LogState, topic: str) -> SeedReplacement:
    """What it means that a fed topic starts again with its seed."""
    parts = range(state.topics[topic].partitions)
    total = sum(each.records for partition in parts for each in state.ranges(topic, partition))
    try:
        return SeedReplacement(topic, total, appended_records(state, topic))
    except AppendedUnknownError:
        return SeedReplacement(topic, total, None)


def check_appended(state: LogState, topic: Topic) -> None:
    """Check that a topic can start again without losing appended records, if it has some.

    Raises AppendedOtherwiseError if they cannot be read as it is declared now, AppendedUnknownError.
    """
    count = appended_records(state, topic.name)
    was, is_ = state.topics[topic.name].obstacles(topic)
    differ = {field: value for field, value in was.items() if field != "partitions"}
    if count and differ:
        raise AppendedOtherwiseError(topic.name, count, declaration_text(differ, is_))


class Appended:
    """Writes the appended records of a topic again, and those that come while it does. `topic`: as it is now."""

    def __init__(self, log: Log, application: str, topic: Topic) -> None:
        self._log = log
        self._application = application
        self._topic = topic
        self._next: dict[int, int] = {}
        self._written: list[Listed] = []
        self._rows = 0

    def written_again(self, state: LogState) -> tuple[Listed, ...]:
        """What is to be listed by the commit behind the seed's records, if it comes next after this state.

        Raises AppendedUnknownError, and errors of the log.
        """
        known = state.topics[self._topic.name]
        for partition in range(known.partitions):
            for piece in _appended_pieces(self._left(state, partition)):
                self._write(partition, piece, known.partitions)
        return tuple(self._written)

    def _left(self, state: LogState, partition: int) -> Iterator[pa.RecordBatch]:
        """The records that were not written again yet. Those of the seed are not even read: they may be damaged."""
        first, end = _seeded(state, self._topic.name).get(partition, (0, 0))
        for low, high in ((0, first), (end, state.end(self._topic.name, partition))):
            yield from self._between(state, partition, low, high)

    def _between(self, state: LogState, partition: int, low: int, high: int) -> Iterator[pa.RecordBatch]:
        while (start := max(low, self._next.get(partition, 0))) < high:
            try:
                for within in state.ranges(self._topic.name, partition, start):
                    if within.start_offset >= high:
                        break
                    for found in self._log.read(within, within.position_of(start)):
                        rows = np.flatnonzero((found.offsets >= start) & (found.offsets < high))
                        if len(rows):
                            yield found.records.take(pa.array(rows))
                            self._next[partition] = int(found.offsets[rows[-1]]) + 1
                self._next[partition] = high
            except RangeMissingError as error:
                if not state.was_replaced(error):
                    raise

    def _write(self, partition: int, piece: pa.Table, partitions: int) -> None:
        where: int | Int64s = partition
        if partitions != self._topic.partitions:
            found = key_partitions(self._topic, piece)
            spread = np.arange(self._rows, self._rows + len(piece)) % self._topic.partitions
            where = np.where(found >= 0, found, spread)
        self._rows += len(piece)
        name = f"s-{uuid.uuid4().hex}"
        self._written += self._log.write(self._application, self._topic.name, name, piece, where, EXTERNAL_LANE)


def _seeded(state: LogState, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> the offsets of the first record of its seed and behind the last."""
    source: SeedSource | None = state.seeds.get(topic)
    if source is None:
        return {}
    if source.parts is None:
        raise AppendedUnknownError(topic)
    return {part.partition: (part.start, part.end) for part in source.parts}


def _appended_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The records in tables of equal columns, of about WRITE_ROWS rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        full = sum(map(len, held)) >= WRITE_ROWS or overfull(held, batch)
        if held and (full or batch.schema != held[0].schema):
            yield pa.Table.from_batches(held)
            held = []
        held.append(batch)
    if held:
        yield pa.Table.from_batches(held)
