"""The records that were appended to a topic with a seed: written again when the topic starts again with another seed.

They keep their keys, values, timestamps and headers, and their order in a partition; they come behind the seed's, so
their offsets change. Columns that the topic has no more go along, as in the log as a whole (see `records.widening`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..log.commit.descriptions import declaration_text
from ..log.commit.fed_records import EXTERNAL_LANE, SeedSource
from ..log.errors import RangeMissingError
from ..log.listed import Listed
from ..log.log import Log
from ..log.state import LogState
from ..records.arrays import Int64s
from ..records.partitioner import key_partitions
from ..topology import Topic
from .append import WRITE_ROWS, overfull


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
            for piece in _pieces(self._left(state, partition)):
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


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
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
