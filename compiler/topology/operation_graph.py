"""The graph of operations, and the names of its edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..operations.base.operation import Operation
from ..operations.base.site import Shape
from ..operations.process import Processing
from .connections import Forking, GlobalReading, Reading, Writing

# A topology as a graph of vertices and edges, before it is laid out.
#
# Vertices are the operations of all flows and the connections between flows: reading and writing topics, forks, merges.
# Each edge has one producer and one consumer. Joins that only look up rows in it (`lookups`) come on top.


@dataclass(frozen=True)
class Vertex:
    """One operation in the graph. `flow`: the flow or table to which it belongs. `lookups`: table edges of a join."""

    number: int
    operation: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flow: str
    at: str = ""
    name: str = ""
    lookups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wired:
    """The vertices, each after those that it reads, and the shapes of the edges."""

    vertices: tuple[Vertex, ...]
    shapes: Mapping[int, Shape] = field(default_factory=dict)

    @cached_property
    def producer(self) -> dict[int, Vertex]:
        """The vertex that makes each edge."""
        return {edge: vertex for vertex in self.vertices for edge in vertex.outputs}

    @cached_property
    def consumers(self) -> dict[int, list[Vertex]]:
        """The vertices that read each edge, including those that only look up rows in it."""
        found: dict[int, list[Vertex]] = {edge: [] for edge in self.shapes}
        for vertex in self.vertices:
            for edge in (*vertex.inputs, *vertex.lookups):
                found[edge].append(vertex)
        return found

    def components(self) -> list[list[Vertex]]:
        """The connected parts, in the order of `_along_the_flow`; the vertices of each part in order.

        A store that processors share connects them too, as in Kafka Streams.
        """
        parent = {vertex.number: vertex.number for vertex in self.vertices}

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        producer = self.producer
        for vertex in self.vertices:
            for edge in (*vertex.inputs, *vertex.lookups):
                parent[root(vertex.number)] = root(producer[edge].number)
        owner: dict[str, int] = {}
        for vertex in self.vertices:
            for store in vertex.operation.stores if isinstance(vertex.operation, Processing) else ():
                parent[root(vertex.number)] = root(owner.setdefault(store.name, vertex.number))
        parts: dict[int, list[Vertex]] = {}
        for vertex in self.vertices:
            parts.setdefault(root(vertex.number), []).append(vertex)
        return _along_the_flow(list(parts.values()))


def _along_the_flow(parts: Sequence[list[Vertex]]) -> list[list[Vertex]]:
    """Each part after those that write what it reads. Of parts that may come next, the one declared first.

    Kafka Streams follows the order of declaration alone. There a table declared above the flows can make the last part
    the first. In a circle of topics the order of declaration decides here, too.
    """
    left = sorted(parts, key=lambda part: min(_sources(part)))
    ordered: list[list[Vertex]] = []
    while left:
        ready = (part for part in left if not any(_feeds(other, part) for other in left if other is not part))
        ordered.append(next(ready, left[0]))
        left.remove(ordered[-1])
    return ordered


def _sources(part: Sequence[Vertex]) -> Iterator[int]:
    return (vertex.number for vertex in part if isinstance(vertex.operation, (Reading, GlobalReading)))


def _feeds(part: Sequence[Vertex], other: Sequence[Vertex]) -> bool:
    """Whether `part` writes a topic that `other` reads."""
    written = {vertex.operation.topic.name for vertex in part if isinstance(vertex.operation, Writing)}
    return any(_read(vertex.operation) in written for vertex in other)


def _read(operation: Operation) -> str | None:
    if isinstance(operation, GlobalReading):
        return operation.table.topic.name
    return operation.topic.name if isinstance(operation, Reading) else None


# Names the edges behind a repartition topic apart from those before it, where one subtopology has both.
#
# An edge is called as its flow. A flow goes on behind its repartition topic in another subtopology, under the same
# name; but the part behind it may be joined with what the part before it comes from, and then one pipe has both.


def with_edges_apart(wired: Wired) -> Wired:
    """The graph with names of their own for the edges behind repartition topics that their own subtopology writes."""
    names: dict[int, dict[str, str]] = {}
    taken: set[str] = set()
    for part in wired.components():
        written = {vertex.operation.topic.name for vertex in part if isinstance(vertex.operation, Writing)}
        for vertex in part:
            operation = vertex.operation
            if isinstance(operation, Reading) and operation.repartition and operation.topic.name in written:
                others = {name: _free(name, taken) for name in operation.into}
                taken |= set(others.values())
                for each in (vertex, *_behind(wired, vertex)):
                    names.setdefault(each.number, {}).update(others)
    return Wired(tuple(_named(vertex, names.get(vertex.number, {})) for vertex in wired.vertices), wired.shapes)


def _free(name: str, taken: set[str]) -> str:
    numbers = iter(range(2, len(taken) + 3))
    free = f"{name}.rekeyed"
    while free in taken:
        free = f"{name}.rekeyed{next(numbers)}"
    return free


def _behind(wired: Wired, vertex: Vertex) -> Iterator[Vertex]:
    """The vertices to which a vertex's rows come, within its subtopology."""
    found = {vertex.number}
    for each in wired.vertices:
        if any(wired.producer[edge].number in found for edge in each.inputs):
            found.add(each.number)
            yield each


def _named(vertex: Vertex, names: dict[str, str]) -> Vertex:
    """The vertex with other names for its outputs. All that are no forks keep the name of what they read."""
    operation = vertex.operation
    if isinstance(operation, Reading | Forking) and not names.keys().isdisjoint(operation.into):
        operation = replace(operation, into=tuple(names.get(name, name) for name in operation.into))
    return replace(vertex, operation=operation)
