"""From checked flows to the graph: who reads whom, where copies are made, where repartition topics stand.

Flows read one another in place; only where several read the same, each gets its own copy, in the order of the file.
Joins on one re-keyed stream share its repartition topic. What leads nowhere is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...runtime.operators.declarations import SinkMode
from ...runtime.topology import Topic
from ..language.operations import (
    Aggregation,
    Branching,
    CheckedFlow,
    CheckedTable,
    CheckedTopology,
    Materialization,
    Operation,
    Repartition,
    Shape,
    Streaming,
    TableJoin,
    Tabling,
)
from ..language.stores import columns_ddl, declared_store
from .wired import Forking, GlobalReading, Merging, Reading, Splitting, Vertex, VertexAction, Wired, Writing


def wire(topology: CheckedTopology, application: str) -> Wired:
    """The graph of a checked topology."""
    return _without_dead_ends(_Wiring(topology, application).run())


class _Wiring:
    def __init__(self, topology: CheckedTopology, application: str) -> None:
        self._topology = topology
        self._application = application
        self._vertices: list[Vertex] = []
        self._shapes: dict[int, Shape] = {}
        self._given: dict[tuple[str, str], int] = {}
        """The edge that a reader (second) gets of a topic, table or flow (first)."""
        self._looked_at: dict[str, int] = {}
        self._topic_readers = self._readers_of_topics()

    def run(self) -> Wired:
        for table in self._topology.tables.values():
            self._table(table)
        for flow in self._topology.flows.values():
            self._flow(flow)
        return Wired(tuple(self._vertices), self._shapes)

    def _readers_of_topics(self) -> dict[str, list[tuple[str, bool]]]:
        """For each topic its readers' edges, and whether the reader is a table."""
        readers: dict[str, list[tuple[str, bool]]] = {}
        for table in self._topology.tables.values():
            if table.global_table is None:
                readers.setdefault(table.topic.name, []).append((table.name, True))
        for name in self._topology.declared:
            flow = self._topology.flows[name]
            for source in flow.sources:
                if source in self._topology.topics and not self._is_mine(source):
                    readers.setdefault(source, []).append((_edge_name(flow, source), False))
        return readers

    def _is_mine(self, name: str) -> bool:
        return name in self._topology.tables or name in self._topology.flows

    def _vertex(
        self,
        action: VertexAction,
        inputs: tuple[int, ...],
        shapes: tuple[Shape, ...],
        flow: str,
        at: str = "",
        name: str = "",
        lookups: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        """Add a vertex; gives its output edges, one for each shape."""
        outputs = tuple(range(len(self._shapes), len(self._shapes) + len(shapes)))
        self._shapes.update(zip(outputs, shapes, strict=True))
        self._vertices.append(Vertex(len(self._vertices), action, inputs, outputs, flow, at, name, lookups))
        return outputs

    def _table(self, table: CheckedTable) -> None:
        if table.global_table is not None:
            self._vertex(GlobalReading(table.global_table), (), (), table.name, table.at)
            return
        source = replace(table.shape, kind="stream", store=None)
        edge = self._read(table.topic, table.name, source, table.at)
        (end,) = self._vertex(Tabling(table.store, source=True), (edge,), (table.shape,), table.name, table.at)
        self._finish(table.name, end, table.at)

    def _read(self, topic: Topic, reader: str, shape: Shape, at: str) -> int:
        """The edge on which a reader gets a topic: all of its readers share one source."""
        if (topic.name, reader) not in self._given:
            readers = self._topic_readers[topic.name]
            names = tuple(name for name, _ in readers)
            rank = 0 if any(is_table for _, is_table in readers) else 1
            edges = self._vertex(Reading(topic, names, rank), (), (shape,) * len(names), reader, at)
            self._given.update({(topic.name, name): edge for name, edge in zip(names, edges, strict=True)})
        return self._given[topic.name, reader]

    def _flow(self, flow: CheckedFlow) -> None:
        edge = self._start(flow)
        for operation in flow.operations:
            if isinstance(operation.action, Branching):
                self._branch(flow, operation, operation.action, edge)
                return
            edge = self._operation(flow, operation, edge)
        self._finish(flow.name, edge, flow.at, flow.to, flow.to_at)

    def _start(self, flow: CheckedFlow) -> int:
        first = flow.operations[0].action if flow.operations else None
        if isinstance(first, Repartition) and first.of is not None:
            return self._given[first.of, flow.name]
        edges = []
        for source in flow.sources:
            name = _edge_name(flow, source)
            if source in self._topology.topics and (source, name) not in self._given:
                topic_shape = replace(flow.before, rekey=None, partitions=self._topology.topics[source].partitions)
                edges.append(self._read(self._topology.topics[source], name, topic_shape, flow.at))
            else:
                edges.append(self._given[source, name])
        if len(edges) == 1:
            return edges[0]
        return self._vertex(Merging(flow.name), tuple(edges), (flow.before,), flow.name, flow.at)[0]

    def _operation(self, flow: CheckedFlow, operation: Operation, edge: int) -> int:
        action = operation.action
        if isinstance(action, Repartition):
            if action.of is not None:
                return edge
            return self._repartition(action, operation, edge, flow.name, (flow.name,))[0]
        lookups = (self._looked_at[action.table],) if isinstance(action, TableJoin) else ()
        at, name = operation.at, operation.name
        return self._vertex(action, (edge,), (operation.after,), flow.name, at, name, lookups)[0]

    def _repartition(
        self, action: Repartition, operation: Operation, edge: int, flow: str, into: tuple[str, ...]
    ) -> tuple[int, ...]:
        shape = operation.after
        topic = Topic(
            action.topic,
            action.partitions,
            columns_ddl(shape.key),
            columns_ddl(shape.value),
            writer=self._application,
        )
        self._vertex(Writing(topic, "repartition"), (edge,), (), flow, operation.at, operation.name)
        reading = Reading(topic, into, 0 if shape.is_table else 1, repartition=True)
        return self._vertex(reading, (), (shape,) * len(into), into[0], operation.at)

    def _branch(self, flow: CheckedFlow, operation: Operation, action: Branching, edge: int) -> None:
        shapes = (operation.after,) * len(action.cases)
        splitting = Splitting(action.cases, tuple(name for name, _ in action.cases))
        edges = self._vertex(splitting, (edge,), shapes, flow.name, operation.at, operation.name)
        for (name, _), branch in zip(action.cases, edges, strict=True):
            self._finish(name, branch, operation.at)

    def _finish(self, name: str, edge: int, at: str, to: Topic | None = None, to_at: str = "") -> None:
        """Give the end of a flow or table to those who read it, and write it."""
        joined = any(
            isinstance(operation.action, TableJoin) and operation.action.table == name
            for flow in self._topology.flows.values()
            for operation in flow.operations
        )
        shape = self._shapes[edge]
        if joined and shape.store is None:
            edge = self._materialized(name, edge, at)
            shape = self._shapes[edge]
        sharing = [flow for flow in self._flows() if _shares(flow, name) is not None]
        readers = [flow for flow in self._flows() if name in flow.sources and _shares(flow, name) is None]
        names = [_edge_name(flow, name) for flow in readers]
        own = [name] if joined else []
        own += [f"{name}.to" if own else name] if to is not None else []
        own += [f"{name}.repartition" if own else name] if sharing else []
        into = (*own, *names)
        copies = (edge,) * len(into)
        if len(into) > 1:
            copies = self._vertex(Forking(into), (edge,), (shape,) * len(into), name, at)
        self._given.update({(name, reader): copy for reader, copy in zip(names, copies[len(own) :], strict=True)})
        mine = iter(copies)
        if joined:
            self._looked_at[name] = next(mine)
        if to is not None:
            self._vertex(Writing(to, _mode(shape)), (next(mine),), (), name, to_at)
        if sharing:
            operation = sharing[0].operations[0]
            action = _shares(sharing[0], name)
            assert action is not None
            into = tuple(flow.name for flow in sharing)
            edges = self._repartition(action, operation, next(mine), name, into)
            self._given.update({(name, flow.name): found for flow, found in zip(sharing, edges, strict=True)})

    def _flows(self) -> Iterator[CheckedFlow]:
        return (self._topology.flows[name] for name in self._topology.declared)

    def _materialized(self, name: str, edge: int, at: str) -> int:
        """A store for a table that has none of its own and that joins look rows up in."""
        shape = self._shapes[edge]
        store = declared_store(name, None, "key_value", shape.key, shape.value, shape.partitions)
        (stream,) = self._vertex(Streaming(), (edge,), (replace(shape, kind="stream"),), name, at)
        return self._vertex(Tabling(store), (stream,), (replace(shape, store=store),), name, at)[0]


def _edge_name(flow: CheckedFlow, source: str) -> str:
    """A reader's own name for what it reads; with the source's where it reads several."""
    return flow.name if len(flow.sources) == 1 else f"{flow.name}.{source}"


def _shares(flow: CheckedFlow, name: str) -> Repartition | None:
    """The repartition topic at the end of `name` that a flow begins with."""
    first = flow.operations[0].action if flow.operations else None
    return first if isinstance(first, Repartition) and first.of == name else None


def _mode(shape: Shape) -> SinkMode:
    if not shape.is_table:
        return "append"
    return "each" if shape.emit == "each_update" else "per_epoch"


def _without_dead_ends(wired: Wired) -> Wired:
    """The graph without what nobody sees: neither written nor kept in a store."""
    alive: set[int] = set()
    kept: list[Vertex] = []
    read: dict[str, bool] = {}
    for vertex in reversed(wired.vertices):
        action = vertex.action
        if isinstance(action, Writing) and action.mode == "repartition" and not read.get(action.topic.name):
            continue
        visible = isinstance(action, (Writing, Tabling, Aggregation, Materialization, GlobalReading))
        outputs = tuple(edge for edge in vertex.outputs if edge in alive)
        if not visible and not outputs:
            continue
        if isinstance(action, Reading):
            read[action.topic.name] = True
        alive.update((*vertex.inputs, *vertex.lookups))
        kept.append(_narrowed(vertex, outputs) if not visible else vertex)
    edges = {edge for vertex in kept for edge in vertex.outputs}
    return Wired(tuple(reversed(kept)), {edge: shape for edge, shape in wired.shapes.items() if edge in edges})


def _narrowed(vertex: Vertex, outputs: tuple[int, ...]) -> Vertex:
    """A vertex with only those of its outputs that somebody reads."""
    action = vertex.action
    if isinstance(action, (Reading, Forking, Splitting)):
        into = tuple(name for name, edge in zip(action.into, vertex.outputs, strict=True) if edge in outputs)
        action = replace(action, into=into)
    return replace(vertex, action=action, outputs=outputs)
