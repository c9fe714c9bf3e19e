"""A topology as a graph of operations, before its layout, and the names of its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..operations.base.operation import Operation
from ..operations.base.site import Shape
from ..operations.process import Processing
from .connections import Forking, GlobalReading, Reading, Routing, Writing

# The graph has the operations of all flows and the connections between flows: reading and writing topics, forks and
# merges. An edge has one producer and one consumer, besides joins that only look up rows in it (`lookups`).


@dataclass(frozen=True)
class GraphOperation:
    """One operation in the graph, with its edges. `flow`: its flow or table. `lookups`: table edges of a join."""

    number: int
    operation: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flow: str
    at: str = ""
    name: str = ""
    lookups: tuple[int, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """The names of the topics that it writes."""
        return tuple(t.name for t in self.operation.topics) if isinstance(self.operation, Writing | Routing) else ()


@dataclass(frozen=True)
class OperationGraph:
    """The operations, upstream ones first, and the shapes of the edges."""

    operations: tuple[GraphOperation, ...]
    shapes: Mapping[int, Shape] = field(default_factory=dict)

    def with_operations(self, change: Callable[[GraphOperation], Operation]) -> OperationGraph:
        """The graph with other operations on the same edges."""
        return replace(self, operations=tuple(replace(op, operation=change(op)) for op in self.operations))

    @cached_property
    def producer(self) -> dict[int, GraphOperation]:
        """The operation with each edge as output."""
        return {edge: op for op in self.operations for edge in op.outputs}

    @cached_property
    def consumers(self) -> dict[int, list[GraphOperation]]:
        """The operations that read each edge, including those that only look up rows in it."""
        consumers: dict[int, list[GraphOperation]] = {edge: [] for edge in self.shapes}
        for op in self.operations:
            for edge in (*op.inputs, *op.lookups):
                consumers[edge].append(op)
        return consumers

    def components(self) -> list[list[GraphOperation]]:
        """The connected parts, which become subtopologies, in the order of `_topic_order`.

        Processors that share a store are connected, too, as in Kafka Streams.
        """
        parent = {op.number: op.number for op in self.operations}

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        producer = self.producer
        for op in self.operations:
            for edge in (*op.inputs, *op.lookups):
                parent[root(op.number)] = root(producer[edge].number)
        owner: dict[str, int] = {}
        for op in self.operations:
            for store in op.operation.stores if isinstance(op.operation, Processing) else ():
                parent[root(op.number)] = root(owner.setdefault(store.name, op.number))
        parts: dict[int, list[GraphOperation]] = {}
        for op in self.operations:
            parts.setdefault(root(op.number), []).append(op)
        return _topic_order(list(parts.values()))


def _topic_order(parts: Sequence[list[GraphOperation]]) -> list[list[GraphOperation]]:
    """The parts, writers of a topic before its readers, otherwise in the order of declaration.

    Kafka Streams uses the order of declaration alone, so a table declared above the flows can make the last part the
    first. In a cycle of topics the order of declaration decides here, too.
    """
    left = sorted(parts, key=lambda part: min(_sources(part)))
    ordered: list[list[GraphOperation]] = []
    while left:
        ready = (part for part in left if not any(_writes_to(other, part) for other in left if other is not part))
        ordered.append(next(ready, left[0]))
        left.remove(ordered[-1])
    return ordered


def _sources(part: Sequence[GraphOperation]) -> Iterator[int]:
    return (op.number for op in part if isinstance(op.operation, (Reading, GlobalReading)))


def _writes_to(part: Sequence[GraphOperation], other: Sequence[GraphOperation]) -> bool:
    """Whether `part` writes a topic that `other` reads."""
    written = written_by(part)
    return any(_read(op.operation) in written for op in other)


def written_by(part: Sequence[GraphOperation]) -> frozenset[str]:
    """The names of the topics that operations write."""
    return frozenset(topic for op in part for topic in op.written)


def _read(operation: Operation) -> str | None:
    if isinstance(operation, GlobalReading):
        return operation.table.topic.name
    return operation.topic.name if isinstance(operation, Reading) else None


# Unique names of edges before and behind a repartition topic, in a subtopology with both.
#
# An edge has the name of its flow. Behind a repartition topic, a flow continues in another subtopology under the same
# name. If a join connects both parts, they are one subtopology, and both edges are in one pipe.


def with_unique_edges(wired: OperationGraph) -> OperationGraph:
    """The graph, with other names for edges behind repartition topics written by the same subtopology."""
    names: dict[int, dict[str, str]] = {}
    taken: set[str] = set()
    for part in wired.components():
        written = written_by(part)
        for op in part:
            operation = op.operation
            if isinstance(operation, Reading) and operation.repartition and operation.topic.name in written:
                others = {name: _free(name, taken) for name in operation.into}
                taken |= set(others.values())
                for renamed in (op, *_downstream(wired, op)):
                    names.setdefault(renamed.number, {}).update(others)
    return wired.with_operations(lambda op: _named(op.operation, names.get(op.number, {})))


def _free(name: str, taken: set[str]) -> str:
    numbers = iter(range(2, len(taken) + 3))
    free = f"{name}.rekeyed"
    while free in taken:
        free = f"{name}.rekeyed{next(numbers)}"
    return free


def _downstream(wired: OperationGraph, op: GraphOperation) -> Iterator[GraphOperation]:
    """The operations downstream of an operation, in its subtopology."""
    reached = {op.number}
    for other in wired.operations:
        if any(wired.producer[edge].number in reached for edge in other.inputs):
            reached.add(other.number)
            yield other


def _named(operation: Operation, names: dict[str, str]) -> Operation:
    """The operation with other names for its outputs. Only sources and forks name their outputs."""
    if isinstance(operation, Reading | Forking) and not names.keys().isdisjoint(operation.into):
        return replace(operation, into=tuple(names.get(name, name) for name in operation.into))
    return operation
