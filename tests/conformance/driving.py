"""Projects of one topology, run in this process in epochs of any size: the real compiler, operators and loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwater.api.files import CheckedFiles, Options
from headwater.api.topology_test_driver import DrivenProject
from headwater.compiler.testing.checked import TestedTopology
from headwater.runtime.ingest.incoming import from_python
from headwater.runtime.ir.topology import MAX_BYTES
from headwater.runtime.records.record_json import Record
from headwater.runtime.testing.driven import DrivenTopology, incoming_of

WHOLE = 10**9
"""Most records of an epoch, where all that is there goes into one."""


class NoSpark:
    """In place of Spark, which no expression here may need."""

    def analyze(self, requests: Any) -> Any:
        raise AssertionError(f"only Spark knows the types of {requests}")


class Compiled:
    """A topology of the project in a folder, compiled once."""

    def __init__(self, root: Path, topology: str) -> None:
        spark: Any = NoSpark()
        self._name = topology
        self._project = DrivenProject(CheckedFiles(root, Options(None, None, {}, (), ()), lambda: spark), spark)
        self._surface = TestedTopology.from_graph(self._project.graphs[topology])
        assert not self._project.on_spark(topology, "task")

    @contextmanager
    def driven(self, max_records: int = WHOLE, max_bytes: int = MAX_BYTES) -> Iterator[Driven]:
        """A log and stores of their own, and epochs with so many records, and bytes of them, at most."""
        topology = self._project.driven(self._name, "task")
        topology.settings = replace(topology.settings, max_records=max_records, max_bytes=max_bytes)
        try:
            yield Driven(topology, self._surface)
        finally:
            topology.close()


@dataclass(frozen=True)
class Driven:
    """A topology with a log of its own. Records are in the form that `Project.append` takes."""

    topology: DrivenTopology
    surface: TestedTopology

    def together(self, records: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Have records processed that are all there at once, by topic."""
        for topic, each in records.items():
            self.topology.take(self._given(topic, each))
        self.topology.feed([])

    def one_by_one(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Have each record, with its topic, processed to the end before the next is there."""
        self.topology.feed([self._given(topic, [record]) for topic, record in records])

    def written(self, topic: str) -> list[Record]:
        """All records of a topic that the topology writes."""
        return self.topology.records(self.surface.written[topic])

    @property
    def dropped(self) -> Counter[str]:
        """How many records were dropped, by reason."""
        return self.topology.dropped

    def _given(self, name: str, records: Iterable[Mapping[str, Any]]) -> Any:
        topic = self.surface.read[name]
        return topic, [incoming_of(topic, [*records], 0, from_python)]
