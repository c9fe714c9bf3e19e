"""Applications whose work is counted, and the records that they are fed with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.dataclass_json import to_json
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Subtopology, Topic
from headwater.runtime.ir.windows import Window
from headwater.runtime.placing.place import Client
from headwater.runtime.tasks.measured import TaskOutcome
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.performance.counting import length
from headwater.tests.runtime.local.local_application import LocalApplication, Part, part
from headwater.tests.runtime.local.summing import PARTITIONS, WORDS, summed, summed_by_text

KEYS = 50
"""Keys of each partition."""

MINUTE = 60_000
NAMES = Topic("names", PARTITIONS, "k string", "name string")
NAMED = Topic("named", PARTITIONS, "k string", "x bigint, name string", writer="test-app")
KNOWN = Store("known", PARTITIONS, "k string", "name string")
WINDOW = Window(MINUTE, MINUTE, 0)
BY_MINUTE = Store(
    "by_minute", PARTITIONS, "k string", "n bigint", type="window", window=WINDOW, aggregates=(Agg("n", "count"),)
)
MINUTES = Topic("minutes", PARTITIONS, "k string", "n bigint", windowed=True, writer="test-app")


def by_minute(mode: Literal["append", "per_epoch"] = "append") -> Part:
    """Numbers of each key, counted by the minute."""
    aggregate = Aggregate("f", BY_MINUTE, emit="per_epoch" if mode == "per_epoch" else "each_update", at="t.yml:1")
    nodes = (Source(WORDS, ("f",)), aggregate, Sink("f", MINUTES, mode))
    return part("minutes", PARTITIONS, ((nodes, {}, {}),), (BY_MINUTE,))


def named() -> Part:
    """Numbers with the name of their key from a table."""
    nodes = (
        Source(NAMES, "t"),
        Source(WORDS, "f"),
        Table("t", KNOWN, at="t.yml:1"),
        StreamTableJoin("f", "t", KNOWN, "left", {"name": "name"}),
        Sink("f", NAMED),
    )
    return part("named", PARTITIONS, ((nodes, {}, {}),), (KNOWN,))


@dataclass(frozen=True)
class Case:
    """What is counted: an application, and how many records it is fed with for each epoch, of all partitions.

    `last`: the subtopology whose commit is the end of what one feeding brings.
    """

    parts: Sequence[Part]
    records: int
    last: str
    repartitions: bool = False

    def consumed(self, epochs: int) -> int:
        """Records that its tasks consume of so many feedings."""
        names = min(KEYS, self.records // PARTITIONS) * PARTITIONS if self.joins else 0
        return epochs * (self.records * (2 if self.repartitions else 1) + names)

    @property
    def joins(self) -> bool:
        return any(NAMES in part.sources for part in self.parts)

    def feed(self, app: LocalApplication, epoch: int) -> None:
        each = self.records // PARTITIONS
        times = [(epoch * each + x) * 2 * MINUTE // each for x in range(each)]
        for partition in range(PARTITIONS):
            if self.joins:
                names = [((f"{partition}-{x % KEYS}",), (f"name {epoch}",), times[x]) for x in range(each)[:KEYS]]
                app.append(NAMES, names, partition)
            words = [((f"{partition}-{x % KEYS}",), (x,), time) for x, time in enumerate(times)]
            app.append(WORDS, words, partition)


CASES = {
    "keyed count": Case([summed()], 10_000, "sums"),
    "keyed count, small epoch": Case([summed()], 1_000, "sums"),
    "window count": Case([by_minute()], 10_000, "minutes"),
    "window count, collapsed": Case([by_minute("per_epoch")], 1_000, "minutes"),
    "table join": Case([named()], 10_000, "named"),
    "re-key count": Case([*summed_by_text()], 10_000, "sums_by_text", repartitions=True),
}


class Feeding:
    """An observer of a lasting run: feeds the next epoch when one is through, and stops the run after the last."""

    def __init__(self, feed: Callable[[int], None], epochs: int, last: str, stop: threading.Event) -> None:
        self._stop = stop
        self._feed = feed
        self._epochs = epochs
        self._last = last
        self._done = 0

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted) and event.subtopology == self._last:
            self._done += 1
            if self._done < self._epochs:
                self._feed(self._done)
            else:
                self._stop.set()


class CountedCluster(LocalCluster):
    """The real cluster, with the bytes of the plans that its jobs are given. `rounds`: after so many of the loop, in
    each of which the cluster is asked for its clients, it stops the run.
    """

    def __init__(self, rounds: int | None = None) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.plan_bytes = 0
        self._rounds = rounds

    def present(self, count: int) -> tuple[Client, ...]:
        if self._rounds is not None:
            self._rounds -= 1
            if self._rounds <= 0:
                self.stop.set()
        return super().present(count)

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return CountedJob(part, client, self)


class CountedJob(LocalJob):
    """The real job. Paths are left out of the plan's bytes, as they are of the machine."""

    def __init__(self, part: Subtopology, client: Client, cluster: CountedCluster) -> None:
        super().__init__(part, client, {})
        self._cluster = cluster

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        self._cluster.plan_bytes += length(to_json(replace(plan, log=("embedded", {}), state_dir="")))
        return super().run(plan)
