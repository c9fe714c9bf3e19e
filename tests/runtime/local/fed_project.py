"""A project that reads topics which are fed from outside, and whose partition counts and keys may change."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ingest.append import append
from headwater.runtime.ingest.seeds import SeedResult, SeedSpec, seed
from headwater.runtime.ir.topology import Agg, Store, Topic, Topology
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.query.stores import StoreQuery
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, Part, assert_caught_up, part

SEEDS = f"{PROJECT}-seed"
AGGREGATES = (Agg("n", "count"), Agg("s", "sum", "x", "bigint"))
WINDOW = Window(50, 50, 0)


@dataclass(frozen=True)
class Shape:
    """Numbers are summed up by key and by window, and joined with a table; `late` copies the sums. `copies` is only run
    where it is selected: it copies the names, and so has no topic in common with `sums`.
    """

    partitions: int = 4
    key: str = "k string"
    value: str = "x bigint"
    window: Window = WINDOW
    names_key: str = ""

    @property
    def words(self) -> Topic:
        return Topic("words", self.partitions, self.key, self.value)

    @property
    def names(self) -> Topic:
        return Topic("names", self.partitions, self.names_key or self.key, "name string")

    def store(self, name: str) -> Store:
        value = "name string" if name == "known" else "n bigint, s bigint"
        made = Store(name, self.partitions, self.key, value)
        if name == "known":
            return made
        made = replace(made, aggregates=AGGREGATES)
        return made if name == "totals" else replace(made, type="window", window=self.window)

    def made(self, name: str, writer: str, value: str, windowed: bool = False) -> Topic:
        return Topic(name, self.partitions, self.key, value, windowed, f"{PROJECT}-{writer}")

    def topologies(self) -> list[tuple[Topology, list[Part]]]:
        count, words = self.partitions, Source(self.words, ("f",))
        sums = self.made("sums", "sums", "n bigint, s bigint")
        by_window = self.made("by_window", "windows", "n bigint, s bigint", True)
        named = self.made("named", "joins", "x bigint, name string")
        totals, windows, known = map(self.store, ("totals", "windows", "known"))
        copied = replace(self.names, name="copied", writer=f"{PROJECT}-copies")
        joined = (
            Source(self.names, ("t",)),
            words,
            Table("t", known),
            StreamTableJoin("f", "t", known, "left", {"name": "name"}),
            Sink("f", named),
        )
        nodes: dict[str, tuple[Any, ...]] = {
            "sums": (words, Aggregate("f", totals), Sink("f", sums)),
            "windows": (words, Aggregate("f", windows), Sink("f", by_window)),
            "joins": joined,
            "late": (Source(sums, ("f",)), Sink("f", replace(sums, name="late", writer=f"{PROJECT}-late"))),
        }
        nodes["copies"] = (Source(self.names, ("f",)), Sink("f", copied))
        stores = {"sums": (totals,), "windows": (windows,), "joins": (known,)}
        return [
            self._topology(name, part(name, count, ((each, {}, {}),), stores.get(name, ())))
            for name, each in nodes.items()
        ]

    def _topology(self, name: str, of: Part) -> tuple[Topology, list[Part]]:
        return Topology(PROJECT, name, "1", f"hash {self}", (of.subtopology,)), [of]


@dataclass
class FedProject:
    """Runs it, each time as it is defined by then. `fed`: what was appended and seeded, to do it again elsewhere."""

    path: Path
    shape: Shape = field(default_factory=Shape)
    fed: list[Callable[[FedProject], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        self.app = LocalApplication(self.path, [])

    def copy(self, path: Path) -> FedProject:
        """The same one in another folder."""
        return FedProject(Path(shutil.copytree(self.path, path)), self.shape, [*self.fed])

    @property
    def log(self) -> PlacedLog:
        return PlacedLog(self.app.log)

    def append(self, topic: str, rows: Sequence[tuple[str, Any, int]]) -> None:
        """Rows as (key, value or None, timestamp)."""
        column = "x" if topic == "words" else "name"
        given = [
            {"timestamp": time, "key": {"k": key}, "value": None if value is None else {column: value}}
            for key, value, time in rows
        ]
        self._feed(lambda project: append(project.log, SEEDS, getattr(project.shape, topic), given))

    def append_flat(self, rows: Sequence[dict[str, Any]]) -> None:
        """Rows with a field for each column, whichever of these are the key, and `time`."""
        times = [row["time"] for row in rows]
        self._feed(lambda project: append(project.log, SEEDS, project.shape.words, rows, times))

    def seed(self, rows: Sequence[tuple[str, Any, int]]) -> None:
        lines = "".join(f"{key},{value}\n" for key, value, _ in rows)
        self._feed(lambda project: project.seeded(f"k,x\n{lines}"))

    def seeded(self, content: str, **options: Any) -> SeedResult:
        (self.path / "words.csv").write_text(content)
        return seed(self.log, SEEDS, self.shape.words, SeedSpec("words.csv"), self.path, **options)

    def _feed(self, step: Callable[[FedProject], object]) -> None:
        step(self)
        self.fed.append(step)

    def run(
        self,
        max_records: int = 7,
        select: Sequence[str] = ("sums", "windows", "joins", "late"),
        stop: threading.Event | None = None,
        shape: Shape | None = None,
        until_caught_up: bool = True,
        **options: Any,
    ) -> RunResults:
        chosen = [each for each in (shape or self.shape).topologies() if each[0].name in select]
        settings = replace(
            self.app.settings(max_records, clients=2), file_delete_delay_ms=options.pop("delay_ms", 600_000)
        )
        return run_topologies(
            [topology for topology, _ in chosen],
            settings,
            LocalCluster(),
            until_caught_up=until_caught_up,
            stop=stop,
            **options,
        )

    def went_well(self, **options: Any) -> RunResults:
        results = self.run(**options)
        assert_caught_up(results)
        return results

    def fresh(self, select: Sequence[str] = ("sums", "windows", "joins", "late")) -> dict[str, Any]:
        """What it would be, had it been so from the start."""
        other = FedProject(self.path / f"fresh-{len(self.fed)}-{self.shape.partitions}", self.shape)
        for step in self.fed:
            step(other)
        other.went_well(select=select)
        return other.result()

    def result(self) -> dict[str, Any]:
        """All that anybody can see of it: topics in order with timestamps, and the stores."""
        topics = [topic for topology, _ in self.shape.topologies() for topic in topology.subtopologies[-1].sinks]
        read = LocalApplication(self.path, [])
        read.log = self.log
        hidden = ("lane", "_order")
        stores = {"totals": "sums", "windows": "windows", "known": "joins"}
        return {
            **{
                each.name: [{k: v for k, v in row.items() if k not in hidden} for row in read.read(each)]
                for each in topics
            },
            **{name: self.rows(self.shape.store(name), topology) for name, topology in stores.items()},
        }

    def rows(self, store: Store, topology: str) -> list[Any]:
        opened = ChosenPlugins(("", (), ())).backend(store).open_to_read
        found = StoreQuery(f"{PROJECT}-{topology}", topology, store, self.log, self.path / "state", opened).rows()
        return sorted(repr(row) for row in found)

    def state(self, application: str) -> LogState:
        return LogState.load(self.log.commits(f"{PROJECT}-{application}"))
