"""Processors that share stores: they are of one subtopology, and take turns record by record, so they run as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..operations.base.operation import EitherOperation, SqlOperation
from ..operations.process import Processing
from .connections import Reading, Writing
from .operation_graph import Vertex, Wired

Group = tuple[Vertex, ...]
"""The processors that share stores, directly or by others, with the steps between them; in order."""


def sharing(wired: Wired) -> tuple[Group, ...]:
    """All groups of two processors or more."""
    groups: list[set[int]] = []
    names: list[set[str]] = []
    for vertex in wired.vertices:
        group, stores = {vertex.number}, set(shared_names(vertex))
        for number in reversed(range(len(groups))):
            if names[number] & stores:
                group |= groups.pop(number)
                stores |= names.pop(number)
        if stores:
            groups.append(group)
            names.append(stores)
    found = sorted((group for group in groups if len(group) > 1), key=min)
    return tuple(_with_steps_between(wired, group) for group in found)


def shared_names(vertex: Vertex) -> tuple[str, ...]:
    """The stores of a processor."""
    return tuple(store.name for store in vertex.operation.stores) if isinstance(vertex.operation, Processing) else ()


def _with_steps_between(wired: Wired, members: set[int]) -> Group:
    """The members, and the steps that look at single records and have those of one member on their way to others."""
    behind: set[int] = set()
    for vertex in wired.vertices:
        if _sources(vertex, wired) & (behind | members) and _looks_at_single_records(vertex):
            behind.add(vertex.number)
    between: set[int] = set()
    for vertex in reversed(wired.vertices):
        if vertex.number in members or vertex.number in between:
            between |= _sources(vertex, wired) & behind
    return tuple(vertex for vertex in wired.vertices if vertex.number in members or vertex.number in between)


def _looks_at_single_records(vertex: Vertex) -> bool:
    """Whether a step needs neither state nor a topic, and calls no function of a project."""
    return isinstance(vertex.operation, SqlOperation | EitherOperation)


def side_by_side(vertices: Sequence[Vertex], groups: Sequence[Group], wired: Wired) -> list[Vertex]:
    """The vertices of a stage, each after those that it reads, with those of a group next to one another."""
    if not groups:
        return list(vertices)
    units = [[vertex] for vertex in vertices]
    for group in groups:
        mine = [unit for unit in units if unit[0] in group]
        if mine:
            mine[0][:] = [vertex for unit in mine for vertex in unit]
            units = [unit for unit in units if unit not in mine[1:]]
    ordered: list[Vertex] = []
    waiting = {vertex.number for vertex in vertices}
    while units:
        ready = (unit for unit in units if not any(_sources(each, wired) & (waiting - _numbers(unit)) for each in unit))
        unit = next(ready)
        ordered += unit
        waiting -= _numbers(unit)
        units.remove(unit)
    return ordered


def ways_around(wired: Wired, group: Group) -> Iterator[tuple[Vertex, Vertex, Vertex]]:
    """A processor of a group, a vertex of it that gets records of this one through something else, and that."""
    numbers = _numbers(group)
    for vertex in group:
        for other in _before(wired, vertex):
            if other.number in numbers:
                continue
            reached = next((each for each in all_before(wired, other) if each.number in numbers), None)
            if reached is not None:
                yield reached, vertex, other


def circles(wired: Wired) -> Iterator[str]:
    """The repartition topics that one and the same subtopology writes and reads, if a store has made it one."""
    for part in wired.components():
        read = {v.operation.topic.name for v in part if isinstance(v.operation, Reading) and v.operation.repartition}
        written = {v.operation.topic.name for v in part if isinstance(v.operation, Writing)}
        yield from sorted(read & written)


def _numbers(vertices: Sequence[Vertex]) -> set[int]:
    return {vertex.number for vertex in vertices}


def _sources(vertex: Vertex, wired: Wired) -> set[int]:
    return {wired.producer[edge].number for edge in (*vertex.inputs, *vertex.lookups)}


def _before(wired: Wired, vertex: Vertex) -> list[Vertex]:
    """What a vertex reads; of a topic those that write it."""
    found = [wired.producer[edge] for edge in (*vertex.inputs, *vertex.lookups)]
    if isinstance(vertex.operation, Reading):
        topic = vertex.operation.topic.name
        found += [v for v in wired.vertices if isinstance(v.operation, Writing) and v.operation.topic.name == topic]
    return found


def all_before(wired: Wired, vertex: Vertex) -> Iterator[Vertex]:
    """A vertex, and all that its records come from."""
    seen: set[int] = set()
    left = [vertex]
    while left:
        each = left.pop()
        if each.number not in seen:
            seen.add(each.number)
            yield each
            left += _before(wired, each)
