"""A project of two topologies, of which anything may be called otherwise from one run to the next."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import PluginRef, Topic, Topology
from headwater.runtime.log.placed_log import PlacedLog
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, assert_caught_up, part
from headwater.tests.runtime.local.summing import PARTITIONS, TOTALS


@dataclass(frozen=True)
class Names:
    """What is called how. `writer` sums up `words` by way of a repartition topic, `reader` copies the sums."""

    writer: str = "app"
    reader: str = "late"
    rekey: str = "rekey"
    part: str = "sums"
    store: str = "totals"
    words: str = "words"
    sums: str = "sums"
    was: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def words_topic(self) -> Topic:
        return Topic(self.words, PARTITIONS, "k string", "x bigint")

    @property
    def sums_topic(self) -> Topic:
        return Topic(self.sums, PARTITIONS, "k string", "n bigint, s bigint", writer=f"{PROJECT}-{self.writer}")

    @property
    def copied_topic(self) -> Topic:
        return Topic("copied", PARTITIONS, "k string", "n bigint, s bigint", writer=f"{PROJECT}-{self.reader}")

    def topologies(self) -> list[Topology]:
        application = f"{PROJECT}-{self.writer}"
        rekeyed = Topic(
            f"{application}-{self.rekey}-repartition", PARTITIONS, "k string", "x bigint", writer=application
        )
        store = replace(TOTALS, name=self.store)
        rekey = (Source(self.words_topic, ("f",)), Sink("f", rekeyed, "repartition"))
        sums = (
            Source(rekeyed, ("f",)),
            Aggregate("f", store, at="topologies/t.yml:7"),
            Sink("f", self.sums_topic, "each_update"),
        )
        copies = (Source(self.sums_topic, ("f",)), Sink("f", self.copied_topic, "each_update"))
        writer = [
            part(self.rekey, PARTITIONS, ((rekey, {}, {}),)),
            part(self.part, PARTITIONS, ((sums, {}, {}),), (store,)),
        ]
        reader = [part("copies", PARTITIONS, ((copies, {}, {}),))]
        return [
            Topology(
                PROJECT,
                name,
                "1",
                "hash",
                tuple(replace(each.subtopology, number=n) for n, each in enumerate(of)),
                was=self.was,
            )
            for name, of in ((self.writer, writer), (self.reader, reader))
        ]


@dataclass
class RenamedProject:
    """Runs it, each time under the names that it has by then. `former`: topology -> its names before."""

    path: Path
    log: str | PluginRef = "embedded"
    names: Names = field(default_factory=Names)
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.app = LocalApplication(self.path, [], self.log)
        self.appended = 0

    def append(self, numbers: range) -> None:
        self.appended = numbers.stop
        for partition in range(PARTITIONS):
            records = [((f"k{partition}",), (x,), x) for x in numbers]
            self.app.append(self.names.words_topic, records, partition, name=f"s-{partition}-{numbers.start}")

    def run(
        self,
        max_records: int = 7,
        select: slice = slice(None),
        state: str = "state",
        stop: threading.Event | None = None,
        until_caught_up: bool = True,
        **options: Any,
    ) -> RunResults:
        former = {f"{PROJECT}-{now}": tuple(f"{PROJECT}-{old}" for old in olds) for now, olds in self.former.items()}
        settings = replace(self.app.settings(max_records, clients=2, state=state), former_names=former)
        return run_topologies(
            self.names.topologies()[select],
            settings,
            LocalCluster(),
            until_caught_up=until_caught_up,
            stop=stop,
            **options,
        )

    def went_well(self, **options: Any) -> None:
        results = self.run(**options)
        assert_caught_up(results)

    def results(self) -> dict[str, list[tuple[int, int]]]:
        """All that was written, of each key in its order."""
        read = LocalApplication(self.path, [], self.log)
        read.log = PlacedLog(read.log)
        found: dict[str, list[tuple[int, int]]] = {}
        for topic in (self.names.sums_topic, self.names.copied_topic):
            for row in read.read(topic):
                found.setdefault(f"{topic.name} {row['key.k']}", []).append((row["value.n"], row["value.s"]))
        return found


def begun(path: Path, log: str | PluginRef = "embedded") -> RenamedProject:
    """Half of the records are taken, the other half waits."""
    project = RenamedProject(path, log)
    project.append(range(20))
    project.went_well()
    project.append(range(20, 40))
    return project


def undisturbed_results(path: Path) -> dict[str, list[tuple[int, int]]]:
    """The results of a project that took the same records under the names that it always had."""
    project = RenamedProject(path)
    project.append(range(40))
    project.went_well()
    return project.results()
