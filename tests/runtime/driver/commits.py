"""Applications that commit segments without files behind them: all that plans are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.runtime.ir.topology import GlobalTable, Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.external_records import EXTERNAL_LANE, AppendRecord
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.log import Log
from headwater.runtime.log.segments.segment import Batch, Segment
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed

PROJECT = "p"


def topic(name: str, partitions: int = 2, writer: str | None = None) -> Topic:
    return Topic(name, partitions, "k string", "v bigint", writer=writer)


def part(
    name: str,
    sources: tuple[Topic, ...],
    sinks: tuple[Topic, ...] = (),
    stores: tuple[Store, ...] = (),
    tables: tuple[GlobalTable, ...] = (),
    number: int = 0,
) -> Subtopology:
    partitions = max(source.partitions for source in sources)
    return Subtopology(number, name, partitions, lambda tasks: tasks, sources, sinks, stores, tables)


def topology(name: str, *parts: Subtopology) -> Topology:
    return Topology(PROJECT, name, "1", "hash", parts)


def segment(topic: str, rows: int, partition: int = 0, lane: int = EXTERNAL_LANE) -> Segment:
    return Segment(topic, partition, lane, f"{topic}.seg", (Batch(0, 1, rows, 0, 0, 0, 0),))


class Applications:
    """Commits in the name of several applications, each of which is started once."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def feed(self, topic: str, *rows: int, partition: int = 0) -> None:
        """One append for each number of rows."""
        for count in rows:
            self._state(f"{PROJECT}-seed").commit(AppendRecord(0, (segment(topic, count, partition),)))

    def start(self, declared: Topology) -> Committed:
        state = self._state(declared.application)
        state.commit(GenerationRecord(state.generation + 1, 0, TopologyDescription.from_topology(declared)))
        return Committed(self.log, declared)

    def commit(
        self,
        name: str,
        part: str,
        partition: int = 0,
        positions: Mapping[str, Mapping[int, int]] | None = None,
        *segments: Segment,
        at: int = 0,
        sources: Mapping[str, tuple[int, int]] | None = None,
        **rest: Any,
    ) -> None:
        """One task's epoch of topology `name`."""
        state = self._state(f"{PROJECT}-{name}")
        task = TaskCommit(part, partition, positions or {}, rest.pop("stream_time", 0), segments=segments, **rest)
        state.commit(EpochRecord(state.generation, 1, at, (task,), sources=sources))

    def _state(self, application: str) -> LogState:
        return LogState.load(self.log.commits(application))
