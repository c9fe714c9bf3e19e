"""What an epoch costs a driver whatever its tasks do: to plan it, and to commit it. Without Spark, in this process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.runtime.dataclass_json import to_json
from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.external_records import EXTERNAL_LANE, AppendRecord
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import Listed
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.committer import Committer
from headwater.runtime.progress.planner import Planner
from headwater.runtime.records.schema import CHANGELOG, changelog_topic, topic_schema
from headwater.runtime.task_id import TaskId, TaskKey

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork

TASKS = (100, 1_000, 10_000)
WARM_UP = 2
STORE = "totals"
SEEDS = "benchmark-seed"


@dataclass(frozen=True)
class Cost:
    """Seconds of an epoch of all tasks."""

    planning: float
    commit: float


def costs_of_a_driver(bench: Bench) -> Iterator[Measurement]:
    """Seconds to plan and to commit an epoch of so many tasks, each with a record and a store."""
    found: dict[int, Cost] = {}
    with OtherWork() as others:
        for tasks in TASKS:
            driver = Driver(bench.folder(f"driver-{tasks}"), tasks)
            costs = [driver.epoch(number) for number in range(WARM_UP + bench.measured)][WARM_UP:]
            found[tasks] = Cost(
                statistics.median(each.planning for each in costs), statistics.median(each.commit for each in costs)
            )
    most = found[max(TASKS)]
    line = Measurement(
        "growth_driver",
        "s",
        rounded(most.planning + most.commit),
        points={
            "planning": {str(tasks): rounded(cost.planning) for tasks, cost in found.items()},
            "commit": {str(tasks): rounded(cost.commit) for tasks, cost in found.items()},
        },
        note=f"Planning and commit of an epoch of {max(TASKS):,} tasks, each with a record, a store and two files.",
    )
    yield bench.judged(line, others)


class Driver:
    """Plans and commits epochs of one subtopology. What its tasks would write is made up."""

    def __init__(self, root: Path, tasks: int) -> None:
        self._tasks = tasks
        self._records = Topic("records", tasks, "k string", "v bigint")
        self._results = Topic("results", tasks, "k string", "total bigint", writer="benchmark-totals")
        store = Store(STORE, tasks, "k string", "total bigint")
        self._part = Subtopology(0, "totals", tasks, lambda rows, _: rows, (self._records,), (self._results,), (store,))
        topology = Topology("benchmark", "totals", "1", "hash", (self._part,))
        self._application = topology.application
        self._log = EmbeddedLog(root / "log")
        self._log.check()
        self._seeds = LogState.load(self._log.commits(SEEDS))
        own = LogState.load(self._log.commits(self._application))
        self._committer = Committer(own)
        self._committer.claim(TopologyDescription.from_topology(topology))
        self._committed = Committed(self._log, topology, own)
        self._planner = Planner(self._committed, 1000)

    def epoch(self, number: int) -> Cost:
        """Append a record to each partition, plan, and commit."""
        self._seeds.commit(AppendRecord(number, self._written(SEEDS, self._records, number)))
        begun = time.perf_counter()
        self._plan()
        planned = time.perf_counter()
        commits = self._answers(number)
        answered = time.perf_counter()
        self._committer.commit(number, commits)
        return Cost(planned - begun, time.perf_counter() - answered)

    @property
    def unread(self) -> int:
        """Records that no task has taken."""
        self._committed.refresh()
        return self._planner.unread(TaskId(0, number, self._part.name) for number in range(self._tasks))

    def _plan(self) -> str:
        """As text, which is what workers get."""
        self._committed.refresh()
        network = self._committed.network()
        idle: dict[TaskKey, bool] = {}
        plans = [self._planner.task(self._part, number, {STORE: 0}, network, idle) for number in range(self._tasks)]
        return "".join(to_json(each) for each in plans)

    def _answers(self, number: int) -> list[TaskCommit]:
        """What tasks say that have each taken their record."""
        results = self._written(self._application, self._results, number)
        changes = self._changes(number)
        return [
            TaskCommit(
                self._part.name,
                task,
                {"records": {EXTERNAL_LANE: number + 1}},
                number,
                segments=(replace(result, lane=task), replace(change, lane=task)),
                applied={STORE: number},
                records=1,
            )
            for task, (result, change) in enumerate(zip(results, changes, strict=True))
        ]

    def _written(self, application: str, topic: Topic, number: int) -> tuple[Listed, ...]:
        """A record in each partition of a topic, all in one file."""
        count = self._tasks
        values = {"k": pa.array(["k"] * count), "v": pa.array([1] * count), "total": pa.array([1] * count)}
        zeros = pa.array([0] * count)
        rows = [values.get(field.name.split(".")[-1], zeros).cast(field.type) for field in topic_schema(topic)]
        table = pa.Table.from_arrays(rows, schema=topic_schema(topic))
        return self._log.write(application, topic.name, f"s-{number}", table, np.arange(count), EXTERNAL_LANE)

    def _changes(self, number: int) -> tuple[Listed, ...]:
        """A record in each partition of the changelog."""
        count = self._tasks
        columns = [pa.array([b"k"] * count), pa.array([b"row"] * count), pa.array([0] * count)]
        table = pa.Table.from_arrays(columns, schema=CHANGELOG)
        topic = changelog_topic(self._application, STORE)
        return self._log.write(self._application, topic, f"c-{number}", table, np.arange(count), EXTERNAL_LANE)
