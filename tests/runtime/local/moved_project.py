"""A project whose flows may be in other topologies from one run to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.driver.results import RunResults
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import StepText, Topic, Topology
from headwater.runtime.query.stores import StoreQuery
from headwater.tests.runtime.local.local_application import PROJECT, Part, part
from headwater.tests.runtime.local.recomputed_project import COUNT, SUM, RecomputedProject, temporary
from headwater.tests.runtime.local.summing import OTHERS, PARTITIONS, TOTALS, WORDS

STORE = replace(TOTALS, aggregates=(COUNT, SUM))
READS = {"copies": "words", "sums": "others", "again": "copied", "late": "sums"}
"""Flow -> the topic that it reads. Each writes one: `copied`, `sums` (of a store), `again` and `late`."""
WRITES = {"copies": "copied", "sums": "sums", "again": "again", "late": "late"}

BEFORE: Mapping[str, tuple[str, ...]] = {"one": ("copies", "sums"), "two": ("late",), "reader": ("again",)}


@dataclass(frozen=True)
class Layout:
    """`flows`: topology -> its flows, writers before readers. `starts`: flow -> its `start`. `names`: flow -> what it
    is called, if otherwise now. `retention_ms`: of `sums`.
    """

    flows: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: BEFORE)
    starts: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None

    def writer(self, flow: str) -> str:
        return next(f"{PROJECT}-{topology}" for topology, flows in self.flows.items() if flow in flows)

    def topic(self, name: str) -> Topic:
        if name in ("words", "others"):
            return {"words": WORDS, "others": OTHERS}[name]
        flow = next(each for each, topic in WRITES.items() if topic == name)
        value = STORE.value if flow in ("sums", "late") else WORDS.value
        kept = self.retention_ms if name == "sums" else None
        return Topic(name, PARTITIONS, "k string", value, writer=self.writer(flow), retention_ms=kept)

    def topics(self) -> list[Topic]:
        return [self.topic(WRITES[flow]) for flows in self.flows.values() for flow in flows]

    def topologies(self) -> list[tuple[Topology, list[Part]]]:
        return [self._topology(name, [self._part(flow) for flow in flows]) for name, flows in self.flows.items()]

    def _topology(self, name: str, parts: list[Part]) -> tuple[Topology, list[Part]]:
        numbered = tuple(replace(each.subtopology, number=number) for number, each in enumerate(parts))
        edition = "-".join(each.subtopology.name for each in parts)
        was = {now: (flow,) for flow, now in self.names.items()}
        return Topology(PROJECT, name, "1", edition, numbered, was=was), parts

    def _part(self, flow: str) -> Part:
        source, sink = self.topic(READS[flow]), Sink("f", self.topic(WRITES[flow]), "each_update")
        kept = (Aggregate("f", STORE, at=f"topologies/{flow}.yml:7"),) if flow == "sums" else ()
        name = self.names.get(flow, flow)
        made = part(
            name, PARTITIONS, (((Source(source, ("f",)), *kept, sink), {}, {}),), (STORE,) if flow == "sums" else ()
        )
        steps = (StepText(name, f"from {source.name}", f"{flow}.yml:2"), StepText(name, f"to {sink.topic.name}"))
        starts = {source.name: self.starts[flow]} if flow in self.starts else {}
        return replace(made, subtopology=replace(made.subtopology, steps=steps, starts=starts))


@dataclass
class MovedProject(RecomputedProject):
    """Runs it, each time in its layout of then."""

    defined: Layout = field(default_factory=Layout)  # type: ignore[assignment]

    def append(self, numbers: range) -> None:
        super().append(numbers)
        for partition in range(PARTITIONS):
            records = [((f"{'abc'[x % 3]}{partition}",), (x,), 1000 * x) for x in numbers]
            self.app.append(OTHERS, records, partition, name=f"o-{partition}-{numbers.start}")

    def laid_out(self, **flows: tuple[str, ...]) -> None:
        self.defined = Layout(flows)

    @property
    def owned(self) -> list[str]:
        return [f"{PROJECT}-{each}" for each in self.defined.flows]

    def run(self, **options: Any) -> RunResults:  # type: ignore[override]
        return super().run(**{"owned": self.owned, **options})

    def rows(self, state: str = "state") -> list[Any]:
        application = self.defined.writer("sums")
        opened = ChosenPlugins(("", (), ())).backend(STORE).open_to_read
        return list(StoreQuery(application, "sums", STORE, self.placed, self.path / state, opened).rows())

    def result(self, state: str = "state") -> dict[str, Sequence[Any]]:
        hidden = ("lane", "_order")
        found = {
            topic.name: sorted(  # of each key in order: several tasks write into the same partition
                ({k: v for k, v in row.items() if k not in hidden} for row in self.records(topic)),
                key=lambda row: (row["partition"], row["key.k"]),
            )
            for topic in self.defined.topics()
        }
        return {**found, "store": self.rows(state)}


def moved_from_the_start(flows: Mapping[str, tuple[str, ...]], records: range) -> Mapping[str, Sequence[Any]]:
    """What a project comes to whose flows were there from the start."""
    return _result(tuple(flows.items()), records)


@cache
def _result(flows: tuple[tuple[str, tuple[str, ...]], ...], records: range) -> Mapping[str, Sequence[Any]]:
    with temporary() as folder:
        other = MovedProject(Path(folder), defined=Layout(dict(flows)))
        other.append(records)
        other.went_well()
        return other.result()
