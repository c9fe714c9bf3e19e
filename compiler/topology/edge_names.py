"""Names the edges behind a repartition topic apart from those before it, where one subtopology has both.

An edge is called as its flow. A flow goes on behind its repartition topic in another subtopology, under the same name;
but the part behind it may be joined with what the part before it comes from, and then one pipe has both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .connections import Forking, Reading, Writing
from .operation_graph import Vertex, Wired


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
