"""The named parts of a project (topics and topologies with their flows, tables and stores), and which of them feed
which.

It uses the loaded files only. So listing and selecting need no types, no Java and no compiled project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .reading.load import LoadedProject, TopologyDocument
from .reading.nodes import Mapping as MappingNode
from .reading.nodes import Node, Scalar, Sequence

Kind = Literal["topic", "topology", "table", "store", "flow"]


@dataclass(frozen=True)
class Resource:
    """One named part.


    `parents`: ids of what it reads, or for a topic, of what writes it. `topology`: the one it belongs to. `line` is
    None for a topic that is only named as an output. `implicit`: a store that no file declares; its line is that of the
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
    """All resources of a project by id, in order of declaration: topics, then each topology with its parts."""

    by_id: Mapping[str, Resource]

    def of(self, *kinds: Kind) -> tuple[Resource, ...]:
        """The resources of these kinds."""
        return tuple(resource for resource in self.by_id.values() if resource.kind in kinds)

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """Topics and topologies: id -> ids of those that feed it."""
        return {
            resource.id: tuple(parent for parent in resource.parents if parent in self.by_id)
            for resource in self.of("topic", "topology")
        }


def resources_of(loaded: LoadedProject) -> Resources:
    """The resources of a loaded project, whatever errors it has."""
    topologies = [_topology(document) for document in loaded.topologies]
    writers = {topic: name for topology, outputs, _ in topologies for topic in outputs for name in (topology.id,)}
    declared = {definition.name.text: definition for definition in loaded.topics}
    topics = [
        Resource(
            "topic",
            name,
            definition.file,
            definition.name.position.line,
            _text(definition.node.get("description")),
            _words(definition.node.get("tags")),
            (writers[name],) if name in writers else (),
            seeded="seed" in definition.node,
        )
        for name, definition in declared.items()
    ]
    topics += [
        Resource("topic", output, topology.file, None, parents=(topology.id,))
        for topology, outputs, _ in topologies
        for output in dict.fromkeys(outputs)
        if output not in declared
    ]
    parts = [part for topology, _, inner in topologies for part in (topology, *inner)]
    return Resources({resource.id: resource for resource in (*topics, *parts)})


def _topology(document: TopologyDocument) -> tuple[Resource, list[str], list[Resource]]:
    """A topology, the topics that it writes, and its parts."""
    node = document.node
    name = document.name.text
    tables = {table: _scalar(body, "topic") for table, body in _entries(node, "tables")}
    flows = dict(_entries(node, "flows"))
    branches = {branch for body in flows.values() for branch in _branches(body)}
    read = [topic for topic in tables.values() if topic]
    read += [source for body in flows.values() for source in _names(body.get("from"))]
    inner = set(flows) | set(tables) | branches
    parents = dict.fromkeys(f"topic.{topic}" for topic in read if topic not in inner or topic in tables.values())
    outputs = [output for body in flows.values() if (output := _scalar(body, "to"))]
    topology = Resource(
        "topology",
        name,
        document.file,
        document.name.position.line,
        _text(node.get("description")),
        _words(node.get("tags")),
        tuple(parents),
    )
    kinds: tuple[tuple[Kind, str], ...] = (("table", "tables"), ("store", "stores"), ("flow", "flows"))
    parts = [
        Resource(
            kind,
            part,
            document.file,
            _line(node, section, part),
            _text(body.get("description")),
            _words(body.get("tags")),
            topology=name,
        )
        for kind, section in kinds
        for part, body in _entries(node, section)
    ]
    declared = {part.name for part in parts if part.kind == "store"}
    implicit = [
        Resource("store", part, document.file, _line(node, section, part), topology=name, implicit=True)
        for section, part in _implicit_stores(node, flows)
        if part not in declared
    ]
    at = sum(part.kind != "flow" for part in parts)
    return topology, outputs, [*parts[:at], *implicit, *parts[at:]]


def _implicit_stores(node: MappingNode, flows: Mapping[str, MappingNode]) -> Iterator[tuple[str, str]]:
    """Stores named after a table or flow: it names no store, or a join looks up rows in the flow."""
    for table, body in _entries(node, "tables"):
        if "store" not in body:
            yield "tables", table
    looked_up = {
        joined
        for body in flows.values()
        for word, said in _steps(body)
        if word == "join" and isinstance(said, MappingNode) and (joined := _scalar(said, "table"))
    }
    for flow, body in flows.items():
        steps = _steps(body)
        storing = [word in ("aggregate", "to_table") for word, _ in steps]
        unnamed = any(stores and not _names_store(said) for stores, (_, said) in zip(storing, steps, strict=True))
        if unnamed or (flow in looked_up and steps and not storing[-1]):
            yield "flows", flow


def _names_store(said: Node) -> bool:
    return isinstance(said, MappingNode) and "store" in said


def _steps(flow: MappingNode) -> list[tuple[str, Node]]:
    """The word of each step with its contents. A `name` may stand beside the word."""
    steps = flow.get("steps")
    found = []
    for step in steps if isinstance(steps, Sequence) else ():
        if isinstance(step, MappingNode):
            found += [(word, said) for word, said in step.items() if word != "name"]
    return found


def _entries(node: MappingNode, section: str) -> Iterator[tuple[str, MappingNode]]:
    entries = node.get(section)
    if isinstance(entries, MappingNode):
        for name, body in entries.items():
            if isinstance(body, MappingNode):
                yield name, body


def _branches(flow: MappingNode) -> Iterator[str]:
    steps = flow.get("steps")
    for step in steps if isinstance(steps, Sequence) else ():
        cases = step.get("branch") if isinstance(step, MappingNode) else None
        for case in cases if isinstance(cases, Sequence) else ():
            if isinstance(case, MappingNode) and (name := _scalar(case, "flow")):
                yield name


def _line(node: MappingNode, section: str, part: str) -> int:
    entries = node[section]
    return entries.key_position(part).line if isinstance(entries, MappingNode) else node.position.line


def _scalar(node: MappingNode, key: str) -> str | None:
    found = node.get(key)
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else None


def _names(node: Node | None) -> tuple[str, ...]:
    if isinstance(node, Scalar):
        return (node.value,) if isinstance(node.value, str) else ()
    return _words(node)


def _words(node: Node | None) -> tuple[str, ...]:
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str))


def _text(node: Node | None) -> str:
    return " ".join(node.value.split()) if isinstance(node, Scalar) and isinstance(node.value, str) else ""
