"""A project of topologies that follow one another, of which anything may be changed from one run to the next."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.cluster.local import LocalCluster, Step
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, PluginRef, Store, Topic, Topology
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.keys import encode_keys, partition_of
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, Part, assert_caught_up, part
from headwater.tests.runtime.local.summing import FLOW, PARTITIONS, WORDS

COUNT = Agg("n", "count")
SUM = Agg("s", "sum", "x", "bigint")
KEYS = tuple(f"k{number}" for number in range(12))
MAX = Agg("m", "max", "x", "bigint")


@dataclass(frozen=True)
class Definition:
    """Numbers by key are copied (`first`), summed up (`sums`), and the sums are copied (`late`): three topologies."""

    aggregates: tuple[Agg, ...] = (COUNT, SUM)
    window: Window | None = None
    backend: str = "lmdb"
    store: str = "totals"
    keep: Step | None = None
    keep_first: Step | None = None
    latest: bool = False
    edition: str = "1"
    start: str = "earliest"
    copied_retention_ms: int | None = None
    late: str = "late"
    late_reads: str = "sums"

    @property
    def store_of_sums(self) -> Store:
        value = ", ".join(f"{each.name} bigint" for each in self.aggregates)
        kind = "key_value" if self.window is None else "window"
        return Store(
            self.store,
            PARTITIONS,
            "k string",
            value,
            kind,
            window=self.window,
            aggregates=self.aggregates,
            backend=self.backend,
        )

    @property
    def sums(self) -> Topic:
        store = self.store_of_sums
        return Topic("sums", PARTITIONS, store.key, store.value, self.window is not None, f"{PROJECT}-sums")

    def topologies(self) -> list[tuple[Topology, list[Part]]]:
        copied = Topic("copied", PARTITIONS, WORDS.key, WORDS.value, writer=f"{PROJECT}-first")
        copied = replace(copied, retention_ms=self.copied_retention_ms)
        late = replace(self.sums, name="late", writer=f"{PROJECT}-{self.late}")
        first: tuple[Any, ...] = (((Source(WORDS, ("f",)), Sink("f", copied, "each_update")), {}, {}),)
        if self.keep_first is not None:
            copies_kept = ((Sink("f", copied, "each_update"),), {"f": FLOW}, {})
            first = (((Source(WORDS, ("f",)),), {}, {"f": FLOW}), self.keep_first, copies_kept)
        store = self.store_of_sums
        rest: tuple[Any, ...] = (Aggregate("f", store, at="topologies/sums.yml:7"), Sink("f", self.sums, "each_update"))
        stages: tuple[Any, ...] = (((Source(copied, ("f",)), *rest), {}, {}),)
        if self.keep is not None:
            stages = (((Source(copied, ("f",)),), {}, {"f": FLOW}), self.keep, (rest, {"f": FLOW}, {}))
        source = self.sums if self.late_reads == "sums" else copied
        late = replace(late, key=source.key, value=source.value, windowed=source.windowed)
        copies = (Source(source, ("f",)), Sink("f", late, "each_update"))
        return [
            self._topology("first", part("first" if self.keep_first is None else "kept", PARTITIONS, first)),
            self._topology("sums", self._starting(part("sums", PARTITIONS, stages, (store,)))),
            self._topology(self.late, part("late", PARTITIONS, ((copies, {}, {}),))),
        ]

    def _starting(self, of: Part) -> Part:
        starts = {} if self.start == "earliest" else {"copied": self.start}
        return replace(of, subtopology=replace(of.subtopology, starts=starts))

    def _topology(self, name: str, *parts: Part) -> tuple[Topology, list[Part]]:
        numbered = tuple(replace(each.subtopology, number=number) for number, each in enumerate(parts))
        return Topology(PROJECT, name, "1", self.edition, numbered), list(parts)


@dataclass
class RecomputedProject:
    """Runs it, each time as it is defined by then."""

    path: Path
    log: str | PluginRef = "embedded"
    defined: Definition = field(default_factory=Definition)
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.app = LocalApplication(self.path, [], self.log)

    @property
    def placed(self) -> PlacedLog:
        return PlacedLog(self.app.log)

    def append(self, numbers: range) -> None:
        """Records, each in the partition of its key: so the order of a topic does not depend on that of the tasks."""
        for partition in range(PARTITIONS):
            keys = [key for key in KEYS if partition_of(encode_keys([pa.array([key])]), PARTITIONS)[0] == partition]
            records = [((keys[x % len(keys)],), (x,), 1000 * x) for x in numbers]
            self.app.append(WORDS, records, partition, name=f"s-{partition}-{numbers.start}")

    def run(
        self,
        max_records: int = 7,
        select: slice = slice(None),
        state: str = "state",
        stop: threading.Event | None = None,
        until_caught_up: bool = True,
        cluster: Callable[..., LocalCluster] = LocalCluster,
        **options: Any,
    ) -> RunResults:
        chosen = self.defined.topologies()[select]
        expressions = {place: step for _, parts in chosen for each in parts for place, step in each.expressions.items()}
        settings = self.app.settings(max_records, clients=2, state=state)
        return run_topologies(
            [topology for topology, _ in chosen],
            replace(
                settings,
                file_delete_delay_ms=options.pop("delay_ms", 600_000),
                go_on=options.pop("go_on", False),
                former_names=options.pop("former", dict(self.former)),
            ),
            cluster(expressions=expressions),
            until_caught_up=until_caught_up,
            stop=stop,
            **options,
        )

    def went_well(self, **options: Any) -> RunResults:
        results = self.run(**options)
        assert_caught_up(results)
        return results

    def records(self, topic: Topic) -> list[dict[str, Any]]:
        read = LocalApplication(self.path, [], self.log)
        read.log = self.placed
        return read.read(topic)

    def rows(self, state: str = "state") -> list[Any]:
        """The rows of the store, as `query` shows them."""
        store = self.defined.store_of_sums
        opened = ChosenPlugins(("", (), ())).backend(store).open_to_read
        return list(StoreQuery("test-sums", "sums", store, self.placed, self.path / state, opened).rows())

    def result(self, state: str = "state") -> dict[str, Sequence[Any]]:
        """All that anybody can see of it: topics in order with timestamps, and the store."""
        topics = [topic for topology, _ in self.defined.topologies() for topic in topology.subtopologies[-1].sinks]
        hidden = ("lane", "_order")  # `_order` is that of the epochs in which they happened to be written
        return {
            **{
                topic.name: [{k: v for k, v in row.items() if k not in hidden} for row in self.records(topic)]
                for topic in topics
            },
            "store": self.rows(state),
        }

    def state(self, application: str) -> LogState:
        return LogState.load(self.placed.commits(application))


def begun_project(folder: Path, defined: Definition | None = None) -> RecomputedProject:
    """A project that has run, and that has got more records since. `defined`: as it is defined from now on."""
    shutil.copytree(_begun().name, folder)
    return RecomputedProject(folder, defined=defined or Definition())


def temporary() -> TemporaryDirectory[str]:
    """A folder beside those of the tests, for what several tests need: it goes when the process ends."""
    return TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))


@cache
def _begun() -> TemporaryDirectory[str]:
    """The same project, which is made once and copied for each test."""
    folder = temporary()
    begun = RecomputedProject(Path(folder.name))
    begun.append(range(20))
    begun.went_well()
    begun.append(range(20, 40))
    return folder


@cache
def result_from_the_start(defined: Definition) -> Mapping[str, Sequence[Any]]:
    """What `begun_project` would be, had it been defined so from the start."""
    with temporary() as folder:
        other = RecomputedProject(Path(folder), defined=defined)
        other.append(range(40))
        other.went_well()
        return other.result()
