"""What becomes of records that fail: of which steps a flow decides, and which topics have a topic of dead letters.

What a flow says (`on_error`) counts for its own steps; elsewhere the topic decides from which the record comes. A
repartition topic has the policy of the flow that writes it, or else the strictest of the topics behind it. A change of
a regrouped table is never left out, as the rows of one change go to several groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...runtime.ir.topology import OnError, dead_letter_topic
from ..entries import TopicModel, dead_letter_name
from ..model.build import kept_topics
from ..model.project import TopologyModel
from ..operations.base.operation import Lookup
from .connections import Forking, Merging, Reading, Writing
from .operation_graph import Vertex, Wired

_STRICT: Sequence[OnError] = ("skip", "dead_letter", "fail")
"""From the mildest on."""


def with_error_policies(
    wired: Wired, topology: TopologyModel, topics: Mapping[str, TopicModel], application: str
) -> Wired:
    """The graph in which repartition topics have a policy, and sources their topic of dead letters.

    `topics`: those that are declared.
    """
    of_topics = _of_repartition_topics(wired, topology)
    wired = Wired(tuple(_with_policy(vertex, of_topics) for vertex in wired.vertices), wired.shapes)
    repartitions = [v.operation.topic for v in wired.vertices if isinstance(v.operation, Reading)]
    kept = {topic.name for topic in repartitions if topic.name in of_topics and topic.on_error == "dead_letter"}
    kept |= {*kept_topics(topology, topics)}
    for vertex in wired.vertices:
        if _own(vertex, topology) == "dead_letter" and not _regrouped(wired, vertex):
            kept |= {reading.topic.name for reading in _sources(wired, vertex) if reading.repartition}
    vertices = (
        replace(vertex, operation=_with_letters(vertex.operation, topology, application))
        if isinstance(vertex.operation, Reading) and vertex.operation.topic.name in kept
        else vertex
        for vertex in wired.vertices
    )
    return Wired(tuple(vertices), wired.shapes)


def policies_of_steps(wired: Wired, part: Sequence[Vertex], topology: TopologyModel) -> dict[OnError, tuple[str, ...]]:
    """The places of the steps of a subtopology whose flow decides, by what it says."""
    found: dict[OnError, dict[str, None]] = {}
    for vertex in part:
        own = _own(vertex, topology)
        if own is None or not vertex.at or isinstance(vertex.operation, (Merging, Forking)):
            continue
        if isinstance(vertex.operation, Reading) and len(vertex.operation.into) > 1:
            continue
        if own == "fail" or not _regrouped(wired, vertex):
            found.setdefault(own, {})[vertex.at] = None
    return {policy: tuple(places) for policy, places in found.items()}


def _own(vertex: Vertex, topology: TopologyModel) -> OnError | None:
    """What the flow of an operation says."""
    flow = topology.flows.get(vertex.flow)
    return None if flow is None else flow.on_error


def _of_repartition_topics(wired: Wired, topology: TopologyModel) -> dict[str, OnError]:
    of_edges: dict[int, OnError] = {}
    of_topics: dict[str, OnError] = {}
    for vertex in wired.vertices:
        operation = vertex.operation
        if isinstance(operation, Reading):
            policy = of_topics[operation.topic.name] if operation.repartition else operation.topic.on_error
        else:
            policy = max((of_edges[edge] for edge in _read(vertex)), key=_STRICT.index, default="fail")
        if isinstance(operation, Writing) and operation.mode == "repartition":
            (edge,) = vertex.inputs
            of_table = wired.shapes[edge].is_table
            of_topics[operation.topic.name] = "fail" if of_table else _own(vertex, topology) or policy
        of_edges.update(dict.fromkeys(vertex.outputs, policy))
    return of_topics


def _with_policy(vertex: Vertex, of_topics: Mapping[str, OnError]) -> Vertex:
    operation = vertex.operation
    if isinstance(operation, (Reading, Writing)) and operation.topic.name in of_topics:
        topic = replace(operation.topic, on_error=of_topics[operation.topic.name])
        return replace(vertex, operation=replace(operation, topic=topic))
    return vertex


def _with_letters(reading: Reading, topology: TopologyModel, application: str) -> Reading:
    name = dead_letter_name(topology.name.text, reading.topic.name.removeprefix(f"{application}-"))
    return replace(reading, dead_letter=dead_letter_topic(name, reading.topic, application))


def _regrouped(wired: Wired, vertex: Vertex) -> bool:
    """Whether an operation gets the changes of a regrouped table."""
    return any(
        reading.repartition and wired.shapes[edge].is_table
        for each in _behind(wired, vertex)
        if isinstance(reading := each.operation, Reading)
        for edge in each.outputs
    )


def _sources(wired: Wired, vertex: Vertex) -> list[Reading]:
    """The sources whose records reach an operation."""
    return [each.operation for each in _behind(wired, vertex) if isinstance(each.operation, Reading)]


def _read(vertex: Vertex) -> tuple[int, ...]:
    """The edges whose records an operation takes, not those in which it only looks up rows."""
    operation = vertex.operation
    return (
        (*vertex.inputs, vertex.lookups[0]) if isinstance(operation, Lookup) and operation.triggered else vertex.inputs
    )


def _behind(wired: Wired, vertex: Vertex) -> list[Vertex]:
    """An operation and those whose output reaches it, in its subtopology."""
    found = {vertex.number: vertex}
    todo = [vertex]
    while todo:
        for edge in _read(todo.pop()):
            producer = wired.producer[edge]
            if producer.number not in found:
                found[producer.number] = producer
                todo.append(producer)
    return list(found.values())
