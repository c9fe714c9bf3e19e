"""The named parts of a project, topics and topologies with their flows, tables and stores, and their dependencies.

They come from the loaded files and their model only. So listing and selecting need no types, no Java and no compiled
project.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .entries import TopicModel, named, scalars, text
from .model.build import implicit_stores, letters_of
from .model.project import FROM_KAFKA, TO_KAFKA, ProjectModel, TopologyModel
from .reading.load import Definition, LoadedProject
from .reading.source import MappingNode

Kind = Literal["topic", "topology", "table", "store", "flow"]


@dataclass(frozen=True)
class Resource:
    """One named part.

    `parents`: ids of its sources, or of the writers of a topic. `topology`: its topology, for a part of one. `line`:
    None for a topic that is only named as an output. `implicit`: a store that no file declares, with the line of the
    table or flow after which it is named.
    """

    kind: Kind
    name: str
    file: str
    line: int | None
    description: str = ""
    tags: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    topology: str | None = None
    seeded: bool = False
    implicit: bool = False

    @property
    def id(self) -> str:
        """`topic.flights`, `topology.carrier_delays`, `flow.carrier_delays.late`."""
        return f"{self.kind}.{self.name}" if self.topology is None else f"{self.kind}.{self.topology}.{self.name}"


@dataclass(frozen=True)
class Resources:
    """All resources of a project by id, in order of declaration: topics, then topologies with their parts."""

    by_id: AbstractMapping[str, Resource]

    def of_kinds(self, *kinds: Kind) -> tuple[Resource, ...]:
        """The resources of these kinds."""
        return tuple(resource for resource in self.by_id.values() if resource.kind in kinds)

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """Topics and topologies: id -> ids of its parents."""
        return {
            resource.id: tuple(parent for parent in resource.parents if parent in self.by_id)
            for resource in self.of_kinds("topic", "topology")
        }


def resources_of(loaded: LoadedProject, model: ProjectModel) -> Resources:
    """The resources of a project, which may have errors."""
    topologies = [_topology(document, model.topologies[document.name.text]) for document in loaded.topologies]
    from_kafka, to_kafka = _copying(FROM_KAFKA, model.read_from_kafka), _copying(TO_KAFKA, model.written_to_kafka)
    topologies = [*from_kafka, *topologies, *to_kafka]
    writers = {topic: topology.id for topology, outputs, _ in topologies for topic in outputs}
    declared = {definition.name.text: definition for definition in loaded.topics}
    topics = [
        Resource(
            "topic",
            name,
            definition.file,
            definition.name.position.line,
            _text(definition.node),
            _tags(definition.node),
            (writers[name],) if name in writers else (),
            seeded="seed" in definition.node and model.topics[name] not in model.read_from_kafka,
        )
        for name, definition in declared.items()
    ]
    topics += [
        Resource("topic", output, topology.file, None, parents=(topology.id,))
        for topology, outputs, _ in topologies
        for output in dict.fromkeys(outputs)
        if output not in declared
    ]
    by_name = {topology.name: topology for topology, _, _ in topologies}
    topics += [
        Resource("topic", name, writer.file, None, parents=(writer.id,))
        if (writer := by_name.get(letters.topology))
        else Resource("topic", name, declared[letters.topic].file, None)
        for name, letters in letters_of(model).items()
        if name not in declared
    ]
    parts = [part for topology, _, inner in topologies for part in (topology, *inner)]
    return Resources({resource.id: resource for resource in (*topics, *parts)})


def _copying(name: str, topics: Sequence[TopicModel]) -> list[tuple[Resource, list[str], list[Resource]]]:
    """The topology that copies topics from Kafka or to Kafka, the topics it writes, and its parts; none without topics.

    Its place is that of the first topic's `kafka:`.
    """
    words = [topic.kafka.word.position for topic in topics if topic.kafka is not None]
    names = [topic.name.text for topic in topics]
    if not words:
        return []
    if name == FROM_KAFKA:
        description, parents, written = "Copies topics from Kafka.", [], names
    else:
        description, parents, written = "Copies topics to Kafka.", names, []
    file, line = words[0].file, words[0].line
    read = tuple(f"topic.{topic}" for topic in parents)
    return [(Resource("topology", name, file, line, description, parents=read), written, [])]


def _topology(document: Definition, model: TopologyModel) -> tuple[Resource, list[str], list[Resource]]:
    """A topology, the topics it writes, and its parts."""
    node = document.node
    name = document.name.text
    tables = [table.topic.text for table in model.tables.values()]
    made = {new.text for flow in model.flows.values() for step in flow.references for new in step.flows}
    inner = {*model.flows, *model.tables, *made}
    read = [source.text for flow in model.flows.values() for source in flow.reads]
    parents = [*tables, *(source for source in read if source not in inner or source in tables)]
    topology = Resource(
        "topology",
        name,
        document.file,
        document.name.position.line,
        _text(node),
        _tags(node),
        tuple(dict.fromkeys(f"topic.{topic}" for topic in parents)),
    )
    sections: tuple[tuple[Kind, str], ...] = (("table", "tables"), ("store", "stores"), ("flow", "flows"))
    parts = {
        kind: [
            Resource(kind, key.text, document.file, key.position.line, _text(body), _tags(body), topology=name)
            for key, body in named(node, section)
        ]
        for kind, section in sections
    }
    parts["store"] += [
        Resource("store", store, document.file, position.line, topology=name, implicit=True)
        for store, position in implicit_stores(model)
        if store not in model.stores
    ]
    outputs = [topic.text for flow in model.flows.values() for topic in flow.to]
    return topology, outputs, [part for kind, _ in sections for part in parts[kind]]


def _tags(node: MappingNode) -> tuple[str, ...]:
    return tuple(tag.text for tag in scalars(node.get("tags")))


def _text(node: MappingNode) -> str:
    return " ".join(text(node, "description", "").split())
