"""Drivers, readers and appends on one real log, driven at random against a model.

Two drivers claim an application, write epochs, clean up and crash between any two steps. Readers stand anywhere and
hold ranges for long. Whatever happens, a reader gets each committed record once, in order, at the position and offset
that it got when it was committed; of a compacted topic at least the last of each key.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import RewriteRecord, TaskCommit
from headwater.runtime.log.durable_files import collect_garbage
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import RangeMissingError, SegmentsChangedError
from headwater.runtime.log.log import Listed, Log, epoch_file_name, rewritten_file_name
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.ranges import LogRange, Rewritten, by_offset
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded as folding
from headwater.runtime.log.state_parts.folded import Fold
from headwater.runtime.progress.committer import Committer, FencedError
from headwater.runtime.records.schema import topic_schema
from headwater.runtime.task_id import TaskKey

APPLICATION = "p-t"
INCARNATION = "cafecafe" * 4
KEPT, COMPACTED = "kept", "compacted"
TOPICS = (KEPT, COMPACTED)
TASKS = 2
"""Each writes to a lane of its own of all partitions."""
PARTITIONS = 2

_SCHEMA = topic_schema(Topic(KEPT, PARTITIONS, "k bigint", "v bigint"))
_NONE = np.array([], np.int64)

Lane = tuple[str, int, int]
"""Topic, partition, lane."""


@dataclass(frozen=True)
class Made:
    """A record as a task makes it. `value`: unique; None for a tombstone."""

    partition: int
    key: int
    value: int | None


@dataclass(frozen=True)
class Written:
    """A committed record."""

    position: int
    offset: int
    key: int
    value: int | None


names = st.integers(0, 1)
topics = st.sampled_from(TOPICS)
lanes = st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, TASKS - 1))
made = st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, 2), st.booleans())
Epoch = dict[int, list[tuple[int, int, bool]]]
"""Task -> its records: partition, key, whether it is a tombstone."""

epochs = st.dictionaries(st.integers(0, TASKS - 1), st.lists(made, max_size=4), min_size=1)


@dataclass(frozen=True)
class Open:
    """An epoch that is written. `records`: by topic and task."""

    tasks: tuple[TaskCommit, ...]
    records: dict[tuple[str, int], list[Made]]


@dataclass
class Driver:
    """One that has claimed the application. `open`, `rewrites`: what is written and not committed yet. `replaced`:
    files that may go.
    """

    state: LogState
    committer: Committer
    epochs: int = 0
    open: list[Open] = field(default_factory=list)
    rewrites: list[tuple[Listed, ...]] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


@dataclass
class Reader:
    """Reads a lane from its first record on. `held`: ranges that it was given, perhaps long ago."""

    lane: Lane
    state: LogState
    position: int = 0
    held: list[LogRange] = field(default_factory=list)
    got: list[Written] = field(default_factory=list)


class LogMachine(RuleBasedStateMachine):
    """The rules are what drivers and readers do, in any order."""

    def make(self) -> Log:
        return EmbeddedLog(self.root)

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.log = self.make()
        self.log.check()
        self.values = 0
        self.committed: dict[Lane, list[Written]] = defaultdict(list)
        self.offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.drivers: dict[int, Driver] = {}
        self.readers: list[Reader] = []
        self.folds: list[Fold] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(folding, "SNAPSHOT_EVERY", 3)
        self.patch.setattr(folding, "AT_MOST", 6)
        self.claim(0)

    @rule(name=names)
    def claim(self, name: int) -> None:
        """A driver starts, in place of one that was killed, or beside one that will notice."""
        state = LogState.load(self.log.commits(APPLICATION))
        assert state.commits.latest() == state.number
        committer = Committer(state)
        committer.claim(TopologyDescription(incarnation=INCARNATION))
        state.folding = self.folds.append
        self.drivers[name] = Driver(state, committer)
        self.in_charge = name
        collect_garbage(self.log, APPLICATION, state)

    @rule(tasks=epochs)
    def run_epoch(self, tasks: Epoch) -> None:
        driver = self.drivers[self.in_charge]
        self._commit(driver, self._written(driver, tasks))

    @rule(name=names, tasks=epochs)
    def begin_epoch(self, name: int, tasks: Epoch) -> None:
        """An epoch's files are written; it may be committed later, or never."""
        if name in self.drivers:
            driver = self.drivers[name]
            driver.open.append(self._written(driver, tasks))

    @rule(name=names)
    def end_epoch(self, name: int) -> None:
        """An epoch that began some time ago is committed, unless another driver is in charge."""
        driver = self.drivers.get(name)
        if driver is None or not driver.open:
            return
        if name == self.in_charge:
            self._commit(driver, driver.open.pop(0))
            return
        with pytest.raises(FencedError):
            driver.committer.commit(driver.epochs, driver.open[0].tasks)
        del self.drivers[name]

    @rule(topic=topics, lanes=st.lists(lanes, min_size=1, unique=True), skipped=st.integers(0, 2))
    def rewrite(self, topic: str, lanes: list[tuple[int, int]], skipped: int) -> None:
        self.begin_rewrite(topic, lanes, skipped)
        self.end_rewrite()

    @rule(topic=topics, lanes=st.lists(lanes, min_size=1, unique=True), skipped=st.integers(0, 2))
    def begin_rewrite(self, topic: str, lanes: list[tuple[int, int]], skipped: int) -> None:
        """Ranges of some lanes are written into one file; it may be committed later, or never."""
        driver = self.drivers[self.in_charge]
        parts = [
            self._rewritten(topic, ranges)
            for partition, lane in lanes
            if (ranges := driver.state.lane_ranges(topic, partition, lane)[skipped:])
        ]
        if parts:
            self.values += 1
            file = rewritten_file_name(INCARNATION, driver.committer.generation, str(self.values))
            driver.rewrites.append(self.log.write_rewritten(APPLICATION, topic, file, parts))

    @rule()
    def end_rewrite(self) -> None:
        driver = self.drivers[self.in_charge]
        if not driver.rewrites:
            return
        segments = driver.rewrites.pop()
        try:
            driver.state.commit(RewriteRecord(driver.committer.generation, 0, segments, INCARNATION))
            driver.replaced += driver.state.replaced
        except SegmentsChangedError:
            for path in {segment.path for segment in segments} - {""}:
                self.log.remove(path)

    @rule()
    def remove_replaced(self) -> None:
        driver = self.drivers[self.in_charge]
        while driver.replaced:
            self.log.remove(driver.replaced.pop())

    @rule(done=st.integers(0, 2))
    def fold(self, done: int) -> None:
        """Old commits are folded in the background, also by a driver that has been replaced meanwhile."""
        for _ in range(min(done, len(self.folds))):
            self.folds.pop(0).run()

    @rule(topic=topics, lane=lanes)
    def come(self, topic: str, lane: tuple[int, int]) -> None:
        """A reader begins."""
        self.readers.append(Reader((topic, *lane), LogState.load(self.log.commits(APPLICATION))))

    @rule(which=st.integers(0, 9), ranges=st.integers(1, 3), anew=st.booleans())
    def read(self, which: int, ranges: int, anew: bool) -> None:
        """A reader goes on, with the ranges that it holds or with those of now."""
        if not self.readers:
            return
        reader = self.readers[which % len(self.readers)]
        if anew:
            reader.held = []
        for _ in range(ranges):
            if not self._read_range(reader):
                break

    def teardown(self) -> None:
        if not hasattr(self, "root"):
            return
        try:
            self.claim(0)
            self._everything_is_there()
        finally:
            self.patch.undo()
            shutil.rmtree(self.root)

    def _everything_is_there(self) -> None:
        for reader in [*self.readers, *(Reader(lane, self.drivers[0].state) for lane in self.committed)]:
            while self._read_range(reader):
                pass
            self._check(reader)
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                self._check_partition(topic, partition)
        listed = self.drivers[0].state.paths()
        assert {file.path for file in self.log.files(APPLICATION)} == listed

    def _check_partition(self, topic: str, partition: int) -> None:
        """All lanes of a partition, as one sequence."""
        state = self.drivers[0].state
        ranges = [(each, each.start) for each in state.ranges(topic, partition)]
        found = [offset for some in by_offset(self.log, ranges, ["key.k"]) for offset in some.offsets.tolist()]
        written = {row.offset for lane in range(TASKS) for row in self.committed[topic, partition, lane]}
        assert found == sorted(found)
        assert set(found) == written if topic == KEPT else set(found) <= written
        assert state.end(topic, partition) == self.offsets[topic, partition]

    def _check(self, reader: Reader) -> None:
        written = self.committed[reader.lane]
        assert reader.position == (written[-1].position + 1 if written else 0)
        if reader.lane[0] == KEPT:
            assert reader.got == written
            return
        last = {row.key: row for row in written}
        assert reader.got == [row for row in written if row in reader.got]
        assert set(last.values()) <= set(reader.got)

    def _read_range(self, reader: Reader) -> bool:
        """Read one range; False at the end."""
        if not reader.held:
            reader.state.refresh()
            reader.held = list(reader.state.lane_ranges(*reader.lane, reader.position))
        if not reader.held:
            return False
        within = reader.held.pop(0)
        assert within.start <= reader.position < within.end
        try:
            for found in self.log.read(within, reader.position, ["key.k", "value.v"]):
                rows = zip(
                    found.positions.tolist(), found.offsets.tolist(), *found.records.to_pydict().values(), strict=True
                )
                reader.got += [Written(*row) for row in rows]
                reader.position = found.end
        except RangeMissingError as error:
            missing = error.path
        else:
            missing = None
        if missing is not None:  # what took its place is in the commits
            reader.state.refresh()
            reader.held = []
            assert missing not in reader.state.paths()
            return True
        reader.position = within.end
        return True

    def _rewritten(self, topic: str, ranges: Sequence[LogRange]) -> Rewritten:
        found = [each for within in ranges for each in self.log.read(within)]
        first, last = ranges[0], ranges[-1]
        records = pa.Table.from_batches([each.records for each in found], _SCHEMA)
        positions = np.concatenate([_NONE, *(each.positions for each in found)])
        offsets = np.concatenate([_NONE, *(each.offsets for each in found)])
        if topic == COMPACTED:
            of_key = {key: row for row, key in enumerate(records.column("key.k").to_pylist())}
            kept = np.array(sorted(of_key.values()), np.int64)
            records, positions, offsets = records.take(kept), positions[kept], offsets[kept]
        return Rewritten(
            first.partition,
            first.lane,
            first.start,
            last.end,
            first.start_offset,
            last.end_offset,
            records,
            positions,
            offsets,
        )

    def _written(self, driver: Driver, tasks: Epoch) -> Open:
        driver.epochs += 1
        commits, records = [], {}
        for task, rows in tasks.items():
            segments: list[Listed] = []
            for topic in TOPICS:
                records[topic, task] = [self._made(*row) for row in rows]
                segments += self._write(driver, topic, task, records[topic, task])
            commits.append(TaskCommit("s", task, {"in": {0: driver.epochs}}, 0, segments=tuple(segments)))
        return Open(tuple(commits), records)

    def _commit(self, driver: Driver, opened: Open) -> None:
        driver.committer.commit(driver.epochs, opened.tasks)
        for task in opened.tasks:
            for topic in TOPICS:
                self._place(topic, task.partition, opened.records[topic, task.partition])

    def _made(self, partition: int, key: int, tombstone: bool) -> Made:
        self.values += 1
        return Made(partition, key, None if tombstone else self.values)

    def _write(self, driver: Driver, topic: str, task: int, rows: Sequence[Made]) -> tuple[Listed, ...]:
        values = [row.value for row in rows]
        table = pa.table(
            {
                "key.k": [row.key for row in rows],
                "value.v": values,
                "_kind": [int(value is not None) for value in values],
                "_timestamp": [0] * len(rows),
                "_order": [0] * len(rows),
            },
            _SCHEMA,
        )
        name = epoch_file_name(
            INCARNATION, driver.committer.generation, driver.epochs, TaskKey(APPLICATION, "s", task), 0
        )
        return self.log.write(APPLICATION, topic, name, table, np.array([row.partition for row in rows]), task)

    def _place(self, topic: str, lane: int, rows: Sequence[Made]) -> None:
        for row in sorted(rows, key=lambda row: row.partition):
            there = self.committed[topic, row.partition, lane]
            position = there[-1].position + 1 if there else 0
            there.append(Written(position, self.offsets[topic, row.partition], row.key, row.value))
            self.offsets[topic, row.partition] += 1


class ObjectStoreMachine(LogMachine):
    """The same on a log in an object store."""

    def make(self) -> Log:
        return ObjectStoreLog(self.root.as_uri())


TestLog = LogMachine.TestCase
TestObjectStoreLog = ObjectStoreMachine.TestCase
TestObjectStoreLog.settings = settings(max_examples=settings().max_examples // 3)
