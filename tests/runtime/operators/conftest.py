"""A driver in one process: subtopologies over a real log and real stores, epoch by epoch, without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.dataclass_json import from_json
from headwater.runtime.log.embedded import EmbeddedLog
from headwater.runtime.log.log import segment_path
from headwater.runtime.log.records import SOURCE_LANE, AppendRecord, EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.state import LogState
from headwater.runtime.operators.sink import Sink
from headwater.runtime.operators.source import Source
from headwater.runtime.records.kinds import Kind
from headwater.runtime.records.schema import changelog_topic, key_columns, topic_schema, value_columns
from headwater.runtime.stages.stage import Stage
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.store import StateStore
from headwater.runtime.state.task_stores import TaskStores
from headwater.runtime.tasks.plan import EpochPlan, LaneInput, StoreInput, TaskPlan, TopicInput
from headwater.runtime.topology import GlobalTable, Store, Topic

APPLICATION = "test-app"
Sql = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Part:
    """A subtopology: Python stages, as (nodes, reads, yields), with functions on batches between them."""

    name: str
    partitions: int
    stages: tuple[Any, ...]
    stores: tuple[Store, ...] = ()
    global_tables: tuple[GlobalTable, ...] = ()

    @property
    def sources(self) -> list[Source]:
        return [node for node in self.stages[0][0] if isinstance(node, Source)]

    @property
    def sinks(self) -> set[str]:
        stages = [stage for stage in self.stages if isinstance(stage, tuple)]
        return {node.topic.name for nodes, _, _ in stages for node in nodes if isinstance(node, Sink)}


class LocalWorker:
    def __init__(self, plan: EpochPlan, log: EmbeddedLog) -> None:
        self.plan = plan
        self.log = log
        self._stores = TaskStores(plan, log, lambda store: LmdbBackend())

    def store(self, task: TaskPlan, store: Store) -> StateStore:
        return self._stores.open(task, store)

    def global_table(self, table: GlobalTable) -> StateStore:
        return self._stores.open_global(table)


@dataclass
class Application:
    """Subtopologies of one application, run by hand. `parts` are in graph order."""

    path: Path
    parts: Sequence[Part]
    now: int = 0
    epochs: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = EmbeddedLog(self.path / "log")
        self.seeds = LogState(self.log.commits("test-seed"))
        self.state = LogState(self.log.commits(APPLICATION))
        self.state.commit(GenerationRecord(1, 0))

    def append(self, topic: Topic, records: Sequence[Any], partition: int = 0, headers: Any = None) -> None:
        """Records as (key tuple or None, value tuple or None, timestamp)."""
        keys, values = key_columns(topic), value_columns(topic)
        columns = [
            pa.array([None if key is None else key[n] for key, _, _ in records], kind)
            for n, kind in enumerate(keys.values())
        ]
        columns += [
            pa.array([None if value is None else value[n] for _, value, _ in records], kind)
            for n, kind in enumerate(values.values())
        ]
        kinds = [Kind.TOMBSTONE if value is None else Kind.VALUE for _, value, _ in records]
        times = [timestamp for _, _, timestamp in records]
        columns += [pa.array(kinds, pa.int8()), pa.array(times), pa.array(times)]
        if headers is not None:
            columns.append(pa.array(headers, pa.string()))
        self.append_table(
            topic, pa.Table.from_arrays(columns, schema=topic_schema(topic, headers is not None)), partition
        )

    def append_table(self, topic: Topic, table: pa.Table, partition: int = 0) -> None:
        path = segment_path("test-seed", topic.name, f"s-{self.seeds.number}")
        segments = self.log.write_segments(path, topic.name, table, partition, SOURCE_LANE)
        self.seeds.commit(AppendRecord(0, segments))

    def plan(self, part: Part, partition: int, max_records: int = 10**9) -> TaskPlan:
        positions = self.state.tasks.positions(part.name, partition)
        clocks = self.state.tasks.clocks(part.name, partition)
        return TaskPlan(
            part.name,
            partition,
            max_records,
            self.state.tasks.stream_time(part.name, partition),
            clocks,
            tuple(
                self._input(source.topic, partition, positions.get(source.topic.name, {})) for source in part.sources
            ),
            tuple(self._store_input(store, partition, clocks) for store in part.stores),
        )

    def _input(self, topic: Topic, partition: int, consumed: Mapping[int, int]) -> TopicInput:
        if topic.writer is None:
            segments = tuple(self.seeds.lanes(topic.name, partition).get(0, ()))
            return TopicInput(topic.name, (LaneInput(0, consumed.get(0, 0), segments),))
        writer = next(part for part in self.parts if topic.name in part.sinks)
        lanes = self.state.lanes(topic.name, partition)
        return TopicInput(
            topic.name,
            tuple(
                LaneInput(
                    lane,
                    consumed.get(lane, 0),
                    tuple(lanes.get(lane, ())),
                    self.state.tasks.stream_time(writer.name, lane),
                    self.idle(writer, lane),
                )
                for lane in range(writer.partitions)
            ),
        )

    def _whole(self, topic: Topic, partition: int) -> TopicInput:
        return TopicInput(topic.name, (LaneInput(0, 0, tuple(self.seeds.lanes(topic.name, partition).get(0, ()))),))

    def _store_input(self, store: Store, partition: int, clocks: Mapping[str, int]) -> StoreInput:
        topic = changelog_topic(APPLICATION, store.name)
        segments = tuple(self.state.lanes(topic, partition).get(partition, ()))
        return StoreInput(store.name, 0, sum(s.rows for s in segments), segments, clocks.get(store.name, -1))

    def idle(self, part: Part, partition: int) -> bool:
        plan = self.plan(part, partition)
        return all(
            lane.idle and lane.position == sum(segment.rows for segment in lane.segments)
            for topic in plan.inputs
            for lane in topic.lanes
        )

    def epoch(
        self, part: Part, partitions: Sequence[int], max_records: int = 10**9, commit: bool = True
    ) -> list[TaskCommit]:
        """Run some tasks of a subtopology for one epoch."""
        self.epochs += 1
        tasks = tuple(self.plan(part, partition, max_records) for partition in partitions)
        plan = EpochPlan(
            APPLICATION,
            1,
            self.epochs,
            0,
            self.now,
            "client",
            ("embedded", {}),
            str(self.path / "state"),
            (tasks,),
            {
                table.name: tuple(self._whole(table.topic, n) for n in range(table.topic.partitions))
                for table in part.global_tables
            },
        )
        commits = run_stages(part, plan, self.log)
        worth = [c for c in commits if c.records]
        if commit and worth:
            self.state.commit(EpochRecord(1, self.epochs, 0, tuple(worth)))
            for done in worth:
                for name, records in done.dropped.items():
                    self.dropped[name] = self.dropped.get(name, 0) + records
        return commits

    def run(self) -> None:
        """Until nothing is left to do."""
        while not all(self.idle(part, n) for part in self.parts for n in range(part.partitions)):
            for part in self.parts:
                self.epoch(part, range(part.partitions))

    def run_randomly(self, seed: int) -> None:
        """Until nothing is left, in random cuts, by random tasks, with epochs that fail."""
        rng = random.Random(seed)
        for _ in range(100_000):
            if all(self.idle(part, n) for part in self.parts for n in range(part.partitions)):
                return
            part = rng.choice(self.parts)
            tasks = rng.sample(range(part.partitions), rng.randrange(1, part.partitions + 1))
            self.epoch(part, tasks, rng.choice([1, 3, 7, 50, 10**9]), commit=rng.random() > 0.2)
        raise AssertionError("never caught up")

    def read(self, topic: Topic) -> list[dict[str, Any]]:
        """All records of a topic, by partition and offset."""
        state = self.seeds if topic.writer is None else self.state
        names = [*topic_schema(topic).names, "_headers"]
        found = []
        for partition in range(topic.partitions):
            lanes = state.lanes(topic.name, partition)
            segments = sorted((s for lane in lanes.values() for s in lane), key=lambda s: s.base_offset)
            for segment in segments:
                for batch in self.log.read_batches(segment, None, names):
                    found += [{"partition": partition, "lane": segment.lane, **row} for row in batch.to_pylist()]
        return found


def run_stages(part: Part, plan: EpochPlan, log: EmbeddedLog) -> list[TaskCommit]:
    @contextmanager
    def open_worker() -> Iterator[LocalWorker]:
        yield LocalWorker(plan, log)

    batches: Iterator[pa.RecordBatch] = iter(
        [pa.RecordBatch.from_pydict({"thread": pa.array([number], pa.int32())}) for number in range(len(plan.threads))]
    )
    for stage in part.stages:
        if isinstance(stage, tuple):
            nodes, reads, yields = stage
            made = Stage(nodes, open_worker, reads, yields)
            batches = made(batches)
        else:
            batches = stage(batches)
    return [from_json(TaskCommit, text) for batch in batches for text in batch.column(0).to_pylist()]


@pytest.fixture
def application(tmp_path: Path) -> Callable[..., Application]:
    """Applications of given parts, each with a log of its own."""
    made = 0

    def make(*parts: Part) -> Application:
        nonlocal made
        made += 1
        return Application(tmp_path / str(made), parts)

    return make


@pytest.fixture
def part() -> type[Part]:
    return Part
