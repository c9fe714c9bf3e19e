"""A project as typed data: topics, and topologies with their tables, stores, flows and steps.

Names, durations and missing values are as in `entries.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...runtime.ir.topology import Assignment, OnError
from ..entries import PluginUse, StoreModel, TableModel, TopicModel
from ..operations.base.context import References, Step
from ..reading.source import ScalarNode


@dataclass(frozen=True)
class FlowModel:
    """An entry of `flows:`.

    `to`: the topics that it writes. `route`: the expression that chooses one of them for each record; None if it writes
    at most one. `on_error`: None if the policies of its topics apply. `on_error_at`: the scalar of `on_error`. `start`:
    where it starts in its topics; None: at the first records. `lost`: its `to` could not be read, which was reported.
    `was`: its former names, the latest first.
    """

    name: ScalarNode
    sources: tuple[ScalarNode, ...]
    steps: tuple[Step, ...]
    to: tuple[ScalarNode, ...] = ()
    route: ScalarNode | None = None
    description: str = ""
    on_error: OnError | None = None
    on_error_at: ScalarNode | None = None
    start: ScalarNode | None = None
    lost: bool = False
    was: tuple[ScalarNode, ...] = ()

    @property
    def reads(self) -> tuple[ScalarNode, ...]:
        """Its sources, and the streams that its steps join."""
        return (*self.sources, *(stream for step in self.references for stream in step.streams))

    @property
    def references(self) -> tuple[References, ...]:
        """The names in its steps, without steps that could not be read."""
        return tuple(step.action.references() for step in self.steps if step.action is not None)


@dataclass(frozen=True)
class AssignmentModel:
    """The `assignment:` section. `settings`: without the assignor. `rack_aware`: the scalar of the strategy."""

    assignor: PluginUse | None = None
    settings: Assignment = field(default_factory=Assignment)
    rack_aware: ScalarNode | None = None


@dataclass(frozen=True)
class TopologyModel:
    """A file of `topologies/`.

    `lost`: its sections that could not be read, which was reported. `was`: its former names, the latest first.
    """

    name: ScalarNode
    description: str
    tables: Mapping[str, TableModel]
    stores: Mapping[str, StoreModel]
    flows: Mapping[str, FlowModel]
    assignment: AssignmentModel = AssignmentModel()
    restore: PluginUse | None = None
    lost: frozenset[str] = frozenset()
    was: tuple[ScalarNode, ...] = ()

    @property
    def file(self) -> str:
        """Its file, relative to the project's root."""
        return self.name.position.file


FROM_KAFKA = "kafka"
"""The topology of the application that copies topics from Kafka. No file declares it."""

TO_KAFKA = "kafka-out"
"""The topology of the application that copies topics to Kafka. No file declares it."""


@dataclass(frozen=True)
class ProjectModel:
    """The whole project.

    `complete`: all topics are known, including those written by flows. Otherwise a part that may name a topic could not
    be read, which was reported. `clusters`: the names of the target's Kafka clusters. Without one, topics with `kafka:`
    are topics of the log only. `registries`: the clusters with a schema registry.
    """

    name: str
    version: str
    topics: Mapping[str, TopicModel] = field(default_factory=dict)
    topologies: Mapping[str, TopologyModel] = field(default_factory=dict)
    complete: bool = True
    clusters: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()

    def application(self, topology: str) -> str:
        """The application of a topology."""
        return f"{self.name}-{topology}"

    @property
    def external_in_kafka(self) -> tuple[TopicModel, ...]:
        """The topics with `kafka:` that no flow writes, for any target."""
        return tuple(topic for topic in self._in_kafka if topic.name.text not in self._written)

    @property
    def output_in_kafka(self) -> tuple[TopicModel, ...]:
        """The topics with `kafka:` that a flow writes, for any target."""
        return tuple(topic for topic in self._in_kafka if topic.name.text in self._written)

    @property
    def read_from_kafka(self) -> tuple[TopicModel, ...]:
        """The topics that are copied from Kafka in this target."""
        return self.external_in_kafka if self.clusters else ()

    @property
    def written_to_kafka(self) -> tuple[TopicModel, ...]:
        """The topics that are copied to Kafka in this target."""
        return self.output_in_kafka if self.clusters else ()

    @property
    def _in_kafka(self) -> Iterator[TopicModel]:
        return (topic for topic in self.topics.values() if topic.kafka is not None)

    @property
    def _written(self) -> set[str]:
        flows = (flow for topology in self.topologies.values() for flow in topology.flows.values())
        return {topic.text for flow in flows for topic in flow.to}
