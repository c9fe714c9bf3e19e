"""Operators that read and write topics in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.topology import KafkaTopic, PluginRef, Produced, Recomputed, Topic
from .operator import EdgeColumns, Lineage, OnFlow, Place, Touched, topic_columns

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch


@dataclass(frozen=True)
class Decode(OnFlow):
    """Decodes the records of `source`, a raw topic (`raw_topic`), into the columns of `topic`.

    A null value becomes a tombstone. The record gets the time of the topic's `timestamp` column, if it has one. Records
    that cannot be decoded fail, each with an error of its own.
    """

    flow: str
    source: Topic
    topic: Topic
    key: PluginRef
    value: PluginRef
    at: Place = ""

    @property
    def text(self) -> str:
        return f"decode {_formats(self.key, self.value)}{_headless(self.source.kafka)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The topic's columns. Each may depend on all bytes of its record."""
        return {self.flow: topic_columns(self.topic).with_inputs(edges[self.flow].of_python())}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.kafka import decode

        decode(self, edges, epoch)


@dataclass(frozen=True)
class Produce(OnFlow):
    """Writes the records of `topic` to a topic in Kafka, exactly once.

    The task's position in `topic`, and the result that it counts, are part of Kafka's transaction. `recomputed`: what
    happens at the first records of another result. So an epoch that is repeated after a crash produces
    only the records that its transaction lacks. The partition in Kafka is that of the written key, as Kafka's own
    clients choose it; records with a null key go to the partition with the number of theirs.
    """

    flow: str
    topic: Topic
    kafka: KafkaTopic
    key: PluginRef
    value: PluginRef
    recomputed: Recomputed = "refuse"
    at: Place = ""

    makes = ()

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What happens if the result is rebuilt."""
        return (("recomputed", self.recomputed),)

    @property
    def produced(self) -> Produced:
        """The topic in Kafka, and what is known of it."""
        is_table = bool(self.topic.key) and "compact" in self.topic.cleanup
        return Produced(self.kafka, self.recomputed, is_table, self.key, self.value)

    @property
    def touches(self) -> Touched:
        """All input: it is written."""
        return Touched(before=self.reads)

    @property
    def text(self) -> str:
        return f"to {self.kafka.name} in Kafka as {_formats(self.key, self.value)}{_headless(self.kafka)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """No edges."""
        return {}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.kafka import produce

        produce(self, edges, epoch)


def _headless(kafka: KafkaTopic | None) -> str:
    return "" if kafka is None or kafka.headers else ", without headers"


def _formats(key: PluginRef, value: PluginRef) -> str:
    return f"{key.name} keys and {value.name} values"
