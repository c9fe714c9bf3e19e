"""A project's topology in this process, as `headwater test` runs it: without Spark, in epochs of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.api.driver import DrivenProject
from headwater.api.files import CheckedFiles, Options
from headwater.runtime.ingest.incoming import from_python
from headwater.runtime.records.record_json import Record
from headwater.runtime.testing.driven import DrivenRunError, DrivenTopology, incoming_of

__all__ = ["DrivenRunError", "Feed", "InProcess", "NeedsSparkError", "Run"]

Feed = Mapping[str, Sequence[Mapping[str, Any]]]
"""Records in record form, by topic."""


class NeedsSparkError(AssertionError):
    """Something asked for Spark, where all has to be done without it."""


class _NoSpark:
    def __getattr__(self, name: str) -> Any:
        raise NeedsSparkError(f"asked Spark for {name}")


class InProcess:
    """The topologies of a project, compiled once. Raises InvalidProjectError, NeedsSparkError."""

    def __init__(self, root: Path) -> None:
        self._project = DrivenProject(CheckedFiles(root, Options(), _NoSpark), _NoSpark())  # type: ignore[arg-type]

    @contextmanager
    def driven(self, topology: str, max_records: int) -> Iterator[Run]:
        """A topology on a log of its own, with at most so many records of a task in an epoch."""
        if self._project.on_spark(topology, "task"):
            raise NeedsSparkError(f"{topology} has steps that only Spark does")
        driven = self._project.driven(topology, "task")
        driven.settings = replace(driven.settings, max_records=max_records)
        try:
            yield Run(driven)
        finally:
            driven.close()


class Run:
    """A topology that runs: what it is given, what it has written."""

    def __init__(self, driven: DrivenTopology) -> None:
        self._driven = driven
        self._topics = {
            topic.name: topic
            for part in driven.topology.subtopologies
            for topic in (*part.sources, *part.sinks, *(table.topic for table in part.global_tables))
        }

    def feed(self, given: Feed) -> None:
        """Give records that are all there before a task runs, and process them. Raises DrivenRunError."""
        for topic, records in given.items():
            self._driven._append(self._topics[topic], [incoming_of(self._topics[topic], records, 0, from_python)])
        self._driven.feed([])

    def records(self, topic: str) -> list[Record]:
        """All records of an output topic."""
        return self._driven.records(self._topics[topic])

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many records were dropped, by reason."""
        return self._driven.dropped
