"""Applications on a real log and real stores, run by the real loop in this process."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from headwater.runtime.cluster.local import LocalCluster, LocalJob, Step
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.driver.events import EpochCommitted, Event, Observer
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.building import answers, fillers, repartition_topics
from headwater.runtime.engine.operators.operator import Operator
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.engine.steps import Engine
from headwater.runtime.ir.topology import GlobalTable, PluginRef, Settings, Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.external_records import EXTERNAL_LANE, AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import Log
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.records.schema import key_columns, topic_schema, value_columns
from headwater.runtime.records.types import Kind
from headwater.runtime.tasks.measured import TaskOutcome, Trouble
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.runtime.local.sparse_log import SparseLog

LOGS: Mapping[str, Callable[..., Log]] = {
    "embedded": lambda path: EmbeddedLog(path),
    "sparse": SparseLog,
    "object_store": ObjectStoreLog,
}

PROJECT = "test"
APPLICATION = "test-app"
MOVES = 0.3
"""How likely a client comes or goes at an event."""

WHOLE = 10**9
"""Most records of an epoch, where all that is there goes into one."""


@dataclass(frozen=True)
class Part:
    """A subtopology, and what stands in for its steps in SQL."""

    subtopology: Subtopology
    expressions: Mapping[str, Step] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[Topic, ...]:
        return self.subtopology.sources


def part(
    name: str,
    partitions: int,
    stages: Sequence[Any],
    stores: tuple[Store, ...] = (),
    global_tables: tuple[GlobalTable, ...] = (),
) -> Part:
    """Of Python stages, as (nodes, reads, yields), with functions on batches between them: steps in SQL."""
    places = [f"{name}.yml:{number}" for number in range(len(stages))]

    def build(rows: Any, engine: Engine) -> Any:
        for place, stage in zip(places, stages, strict=True):
            if isinstance(stage, tuple):
                nodes, reads, yields = stage
                rows = engine.process(rows, nodes, reads, yields)
            else:
                rows = engine.sql(rows, "where", {"at": place})
        return rows

    every = [node for stage in stages if isinstance(stage, tuple) for node in stage[0]]
    nodes = [node for node in every if isinstance(node, Operator)]
    sources = {node.topic.name: node.topic for node in nodes if isinstance(node, Source)}
    sinks = {node.topic.name: node.topic for node in nodes if isinstance(node, Sink)}
    return Part(
        Subtopology(
            0,
            name,
            partitions,
            build,
            tuple(sources.values()),
            tuple(sinks.values()),
            stores,
            global_tables,
            {node.store.name: node.at for node in nodes if getattr(node, "store", None) in stores},
            tuple(repartition_topics(nodes)),
            fillers=tuple(fillers(nodes)),
            processors=tuple(node.name for node in nodes if isinstance(node, Process)),
            answers=answers(nodes),
        ),
        {place: stage for place, stage in zip(places, stages, strict=True) if not isinstance(stage, tuple)},
    )


def assert_caught_up(results: RunResults) -> None:
    """All applications of a run were caught up, and no task waits for anything."""
    ended = [(each.status, each.error, each.waiting) for each in results.applications]
    assert ended == [("caught_up", None, 0)] * len(ended), results


class Stopping:
    """An observer that stops a run after some commits."""

    def __init__(self, after: int) -> None:
        self.stop = threading.Event()
        self._left = after

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._left -= 1
            if not self._left:
                self.stop.set()


class Moving(Stopping):
    """An observer that also has clients come and go, at any event. One client is there at all times."""

    def __init__(self, after: int, cluster: LocalCluster, clients: int, chances: random.Random) -> None:
        super().__init__(after)
        self._cluster = cluster
        self._names = [f"client-{number}" for number in range(1, clients + 1)]
        self._here = set(self._names)
        self._chances = chances

    def on(self, event: Event) -> None:
        super().on(event)
        if self._chances.random() >= MOVES:
            return
        name = self._chances.choice(self._names)
        if name not in self._here:
            self._here.add(name)
            self._cluster.find(name)
        elif len(self._here) > 1:
            self._here.remove(name)
            self._cluster.lose(name)


class FailingJob(LocalJob):
    """The real job, whose epochs or tasks now and then fail when they are done: what they wrote is never committed."""

    chances = random.Random(0)
    damaged: ClassVar[set[tuple[str, int]]] = set()

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        outcomes = super().run(plan)
        if self.chances.random() < 0.15:
            raise RuntimeError("the worker was killed")
        return tuple(map(self._perhaps_damaged, outcomes))

    def _perhaps_damaged(self, outcome: TaskOutcome) -> TaskOutcome:
        task = outcome.subtopology, outcome.partition
        # Not twice in a row: a task that is damaged again and again ends the run.
        if task in self.damaged or self.chances.random() < 0.95:
            self.damaged.discard(task)
            return outcome
        self.damaged.add(task)
        kind = self.chances.choice(["corrupted", "old_assignment"])
        return replace(outcome, commit=None, trouble=Trouble(kind, "so it is said"))


class FailingCluster(LocalCluster):
    """Of such jobs."""

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return FailingJob(part, client, self._expressions)


class LocalApplication:
    """Subtopologies of one application, in graph order, and what it has dropped in all of its runs.

    `log`: `embedded`, or `sparse` for one with holes between positions; or any, with its options. `clean`: whether the
    log is cleaned, without a pause between rounds; deletions go as soon as they may.
    """

    def __init__(
        self, path: Path, parts: Sequence[Part], log: str | PluginRef = "embedded", clean: bool = False
    ) -> None:
        self.path = path
        self.clean = clean
        self.parts = parts
        self.log_ref = log if isinstance(log, PluginRef) else PluginRef(log, {"path": str(path / "log")})
        self.log = LOGS[self.log_ref.name](**self.log_ref.options)
        self.dropped: Counter[str] = Counter()
        self.expressions = {place: step for each in parts for place, step in each.expressions.items()}
        numbered = (replace(each.subtopology, number=number) for number, each in enumerate(parts))
        self.topology = Topology(PROJECT, "app", "1", "hash", tuple(numbered))

    def append(
        self, topic: Topic, records: Sequence[Any], partition: int = 0, headers: Any = None, name: str | None = None
    ) -> None:
        """Records as (key tuple or None, value tuple or None, timestamp). `name`: of the file."""
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
        table = pa.Table.from_arrays(columns, schema=topic_schema(topic, headers is not None))
        seeds = LogState.load(self.log.commits(f"{PROJECT}-seed"))
        name = name or f"s-{seeds.number}"
        written = self.log.write(seeds.application, topic.name, name, table, partition, EXTERNAL_LANE)
        seeds.commit(AppendRecord(0, written))

    def settings(self, max_records: int = WHOLE, clients: int = 1, state: str = "state") -> Settings:
        state_dir = str(self.path / state)
        plugins = ("headwater.tests.runtime.local.sparse_log",) if self.log_ref.name == "sparse" else ()
        return Settings(
            self.log_ref,
            state_dir,
            clients,
            epoch_interval_ms=0,
            max_records=max_records,
            plugins=plugins,
            clean=self.clean,
            clean_interval_ms=10,
            delete_retention_ms=0,
        )

    def attempt(
        self,
        settings: Settings | None = None,
        cluster: LocalCluster | None = None,
        observer: Observer | None = None,
        **options: Any,
    ) -> ApplicationResult:
        """A run until it is caught up, however it ends."""
        cluster = cluster or LocalCluster(expressions=self.expressions)
        (result,) = run_topologies(
            [self.topology],
            settings or self.settings(),
            cluster,
            until_caught_up=True,
            observer=observer,
            **options,
        ).applications
        self.dropped.update(result.dropped)
        return result

    def run(self, max_records: int = WHOLE, clients: int = 1) -> ApplicationResult:
        """A run that goes well."""
        result = self.attempt(self.settings(max_records, clients))
        assert (result.status, result.error, result.waiting) == ("caught_up", None, 0), result.error
        return result

    def run_randomly(
        self, seed: int, *, moving: bool = False, ends: Sequence[str] = ("the worker was killed",)
    ) -> None:
        """Until nothing is left: in random cuts, on other clients in each run; tasks stall, and epochs fail.

        `moving`: clients come and go during a run too. `ends`: what errors may say that end a run.
        """
        chances = random.Random(seed)
        for _ in range(1000):
            cluster = FailingCluster(chances.randrange(1, 3), self.expressions)
            commits, clients = chances.randrange(1, 40), chances.randrange(1, 4)
            stopping = Moving(commits, cluster, clients, chances) if moving else Stopping(commits)
            result = self.attempt(
                self.settings(chances.choice([1, 3, 7, 50, WHOLE]), clients=clients),
                cluster,
                stopping,
                stop=stopping.stop,
                held=lambda _: chances.random() < 0.3,
            )
            assert result.error is None or any(text in result.error for text in ends), result.error
            if result.status == "caught_up" and not result.waiting:
                return
        raise AssertionError("never caught up")

    def read(self, topic: Topic) -> list[dict[str, Any]]:
        """All records of a topic, by partition and offset, with the columns of the topic."""
        state = LogState.load(self.log.commits(topic.writer or f"{PROJECT}-seed"))
        columns = topic_schema(topic, headers=True)
        found = []
        for partition in range(topic.partitions):
            for within in state.ranges(topic.name, partition):
                for fetched in self.log.read(within, None, columns):
                    rows = fetched.records.to_pylist()
                    found += [{"partition": partition, "lane": within.lane, **row} for row in rows]
        return found
