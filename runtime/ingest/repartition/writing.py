"""Writes the records of a topic again, each into the partition that it has now, and those that come while it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...log.commit.descriptions import FedTopic
from ...log.commit.fed_records import EXTERNAL_LANE, Ranges, SeededPart, ranges_of_both
from ...log.commit.records import RepartitionedTopic
from ...log.listed import Listed
from ...log.log import Log
from ...log.state import LogState
from ...records.arrays import Bools, Int64s, to_numpy
from ...records.partitioner import key_partitions
from ...topology import Topic
from ..append import WRITE_ROWS, overfull, with_normal_keys
from .groups import Group, groups
from .order import in_order, went_in_turns
from .reading import NOTED, PartitionReader
from .rekeying import rekeyed


class TopicWriter:
    """`topic`: as it is declared now; `known`: as its records lie. `go_on`: called again and again; what it raises ends
    this.
    """

    def __init__(self, log: Log, state: LogState, topic: Topic, known: FedTopic, go_on: Callable[[], None]) -> None:
        self._log = log
        self._state = state
        self._topic = topic
        self._known = known
        self._go_on = go_on
        noted = state.put_back.get(topic.name)
        self._readers = [
            PartitionReader(log, state, topic.name, each, go_on, None if noted is None else noted.get(each, ()))
            for each in range(known.partitions)
        ]
        self._put_back: dict[int, Ranges] = {}
        self._done = (0,) * known.partitions
        self._ends = np.zeros(topic.partitions, np.int64)
        self._seeded: tuple[SeededPart, ...] = ()
        self._marks: list[tuple[int, ...]] = []
        self._held: list[tuple[pa.RecordBatch, Int64s]] = []
        self.written: list[Listed] = []

    @property
    def records(self) -> int:
        """How many records have been read."""
        return sum(reader.records for reader in self._readers)

    def write(self) -> RepartitionedTopic:
        """Write what is committed by now and was not written yet. The topic as the next commit would say it, together
        with all that is `written`. Raises DeletionsWithoutKeyError, errors of the log, and what `go_on` raises.
        """
        for group in groups(self._state, self._topic.name, self._done):
            self._write_group(group)
        self._flush()
        seed = self._state.seeds.get(self._topic.name)
        return RepartitionedTopic(
            self._known.moved_to(self._topic),
            None if seed is None else replace(seed, parts=None if seed.parts is None else self._seeded),
            tuple(self._marks),
            self._put_back,
        )

    def _write_group(self, group: Group) -> None:
        counts = [end - start for start, end in zip(self._done, group.ends, strict=True)]
        if not any(counts):
            return
        begin = self._ends.copy()
        row = 0
        by_time = bool(self._known.key) or not went_in_turns(counts)
        for records in in_order([self._read(*each) for each in enumerate(group.ends)], by_time=by_time):
            self._go_on()
            where = self._partitions(records, row)
            row += records.num_rows
            if NOTED in records.schema.names:
                self._note(to_numpy(records.column(NOTED)), where)
                records = records.drop_columns([NOTED])
            self._ends += np.bincount(where, minlength=self._topic.partitions)
            self._hold(records, where)
        self._done = group.ends
        self._marks.append(tuple(map(int, self._ends)))
        if group.seed:
            grown = np.flatnonzero(self._ends > begin)
            self._seeded = tuple(SeededPart(int(each), int(begin[each]), int(self._ends[each])) for each in grown)

    def _note(self, noted: Bools, where: Int64s) -> None:
        """Keep where the records are that were put back."""
        for partition in np.unique(where[noted]).tolist():
            offsets = self._ends[partition] + np.flatnonzero(noted[where == partition])
            ranges = tuple((int(each), int(each) + 1) for each in offsets)
            self._put_back = ranges_of_both(self._put_back, {partition: ranges})

    def _read(self, partition: int, end: int) -> Iterator[pa.RecordBatch]:
        for records in self._readers[partition].until(end):
            if self._known.key == self._topic.key:
                yield records
            else:
                table = pa.Table.from_batches([rekeyed(self._topic, records)])
                yield from with_normal_keys(self._topic, table).to_batches()

    def _partitions(self, records: pa.RecordBatch, row: int) -> Int64s:
        """As an append finds them: those of the keys, and of null keys one after another."""
        found = key_partitions(self._topic, records)
        return np.where(found >= 0, found, np.arange(row, row + records.num_rows) % self._topic.partitions)

    def _hold(self, records: pa.RecordBatch, where: Int64s) -> None:
        held = self._held
        full = sum(len(each) for _, each in held) >= WRITE_ROWS or overfull([each for each, _ in held], records)
        if held and (full or held[0][0].schema != records.schema):
            self._flush()
        self._held.append((records, where))

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches([records for records, _ in self._held])
            where = np.concatenate([each for _, each in self._held])
            name = f"s-{uuid.uuid4().hex}"
            self.written += self._log.write(
                self._state.application, self._topic.name, name, table, where, EXTERNAL_LANE
            )
            self._held = []
