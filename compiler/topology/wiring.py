"""The wiring: connects the operations of checked flows to a graph, and numbers their stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...runtime.engine.operators.topics import SinkMode
from ...runtime.ir.topology import Topic
from ..entries import columns_ddl
from ..operations.base.context import (
    CheckedFlow,
    CheckedTable,
    CheckedTopology,
    OtherStream,
    PlacedOperation,
    Repartition,
    StreamPair,
    second_streams,
)
from ..operations.base.operation import Engine, Lookup, Operation, Splitting
from ..operations.base.site import Shape
from ..operations.branch import Branching
from ..operations.joins.tables import JoinOfTables
from ..operations.parts.joins import ResponseJoin, SubscriptionSend, TableJoin
from ..operations.parts.tables import RESULT, TableMaterialization, ToTable, rows_store
from .connections import Forking, GlobalReading, Merging, Reading, Routing, Writing
from .operation_graph import GraphOperation, OperationGraph
from .related_tables import RelatedTables
from .sharing import Group

# A flow continues the flow that it reads. If several flows read the same one, each gets its own copy, in the order of
# the file. Joins of the same stream with a changed key share its repartition topic. Operations without an effect are
# removed.


def wire(topology: CheckedTopology, application: str) -> OperationGraph:
    """The graph of a checked topology."""
    return _without_dead_ends(_Wiring(topology, application).run())


class _Wiring:
    def __init__(self, topology: CheckedTopology, application: str) -> None:
        self._topology = topology
        self._application = application
        self._operations: list[GraphOperation] = []
        self._shapes: dict[int, Shape] = {}
        self._given: dict[tuple[str, str], int] = {}
        """(topic, table or flow; reader) -> the edge of this reader."""
        self._looked_up: dict[str, int] = {}
        """Table -> the edge in which joins look up its rows."""
        self._left_rows: dict[str, int] = {}
        """Flow -> its rows in a join by a foreign key, before the responses come back."""
        self._topic_readers = self._readers_of_topics()
        self._flows_of = self._flows_by_what_they_read()
        self._related = RelatedTables(topology)

    def run(self) -> OperationGraph:
        for table in self._topology.tables.values():
            self._table(table)
        for flow in self._topology.flows.values():
            self._flow(flow)
        return OperationGraph(tuple(self._operations), self._shapes)

    def _readers_of_topics(self) -> dict[str, list[tuple[str, bool]]]:
        """Topic -> the edges of its readers, and whether the reader is a table."""
        readers: dict[str, list[tuple[str, bool]]] = {}
        for table in self._topology.tables.values():
            if table.global_table is None:
                readers.setdefault(table.topic.name, []).append((table.name, True))
        for name in self._topology.declared:
            flow = self._topology.flows[name]
            for source in flow.sources:
                if source in self._topology.topics and not self._is_mine(source):
                    readers.setdefault(source, []).append((_edge_name(flow, source), False))
            for stream in second_streams(flow):
                if stream.name in self._topology.topics and not self._is_mine(stream.name):
                    readers.setdefault(stream.name, []).append((stream.reader, False))
        return readers

    def _flows_by_what_they_read(self) -> dict[str, list[CheckedFlow]]:
        """Flow, table or topic -> the flows that read it or look up its rows, in the order of the file."""
        found: dict[str, list[CheckedFlow]] = {}
        for name in self._topology.declared:
            flow = self._topology.flows[name]
            operations = [placed.operation for placed in flow.operations]
            read = [*flow.sources, *(stream.name for stream in second_streams(flow))]
            read += [each.looks_at() for each in operations if isinstance(each, Lookup)]
            read += [each.of for each in operations[:1] if isinstance(each, Repartition) and each.of]
            for each in dict.fromkeys(read):
                found.setdefault(each, []).append(flow)
        return found

    def _is_mine(self, name: str) -> bool:
        return name in self._topology.tables or name in self._topology.flows

    def _add(
        self,
        operation: Operation,
        inputs: tuple[int, ...],
        shapes: tuple[Shape, ...],
        flow: str,
        at: str = "",
        name: str = "",
        lookups: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        """Add an operation. Returns its output edges, one per shape."""
        outputs = tuple(range(len(self._shapes), len(self._shapes) + len(shapes)))
        self._shapes.update(zip(outputs, shapes, strict=True))
        self._operations.append(
            GraphOperation(len(self._operations), operation, inputs, outputs, flow, at, name, lookups)
        )
        return outputs

    def _table(self, table: CheckedTable) -> None:
        if table.global_table is not None:
            self._add(GlobalReading(table.global_table), (), (), table.name, table.at)
            return
        # A topic has plain records. `ToTable` makes them changes of rows, with the replaced rows.
        source = replace(table.shape, kind="stream", store=None)
        edge = self._read(table.topic, table.name, source, table.at)
        (end,) = self._add(ToTable(table.store, source=True), (edge,), (table.shape,), table.name, table.at)
        self._finish(table.name, end, table.at)

    def _read(self, topic: Topic, reader: str, shape: Shape, at: str) -> int:
        """The edge of a reader of a topic. All readers of a topic share one source."""
        if (topic.name, reader) not in self._given:
            readers = self._topic_readers[topic.name]
            names = tuple(name for name, _ in readers)
            # Of records with equal timestamps, a task takes those of a table first, so that a join finds its row.
            rank = 0 if any(is_table for _, is_table in readers) else 1
            reading = Reading(topic, names, rank, start=self._start_in(topic.name))
            edges = self._add(reading, (), (shape,) * len(names), reader, at)
            self._given.update({(topic.name, name): edge for name, edge in zip(names, edges, strict=True)})
        return self._given[topic.name, reader]

    def _start_in(self, topic: str) -> str | None:
        """Where a new reader of a topic starts. All flows that read the topic have the same `start`."""
        flows = (flow for flow in self._topology.flows.values() if topic in flow.sources)
        return next((flow.start for flow in flows if flow.start is not None), None)

    def _flow(self, flow: CheckedFlow) -> None:
        edge = self._start(flow)
        for placed in flow.operations:
            # A branch ends the flow, and its branches are other flows.
            if isinstance(placed.operation, Branching):
                self._branch(flow, placed, placed.operation, (placed.after,) * len(placed.operation.into), edge)
                return
            if isinstance(placed.operation, Splitting) and placed.operation.into:
                self._branch(flow, placed, placed.operation, placed.operation.shapes, edge)
                return
            edge = self._operation(flow, placed, edge)
        self._finish(flow.name, edge, flow.at, flow)

    def _start(self, flow: CheckedFlow) -> int:
        first = flow.operations[0].operation if flow.operations else None
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
        return self._add(Merging(flow.name), tuple(edges), (flow.before,), flow.name, flow.at)[0]

    def _operation(self, flow: CheckedFlow, placed: PlacedOperation, edge: int) -> int:
        operation = placed.operation
        if isinstance(operation, Repartition):
            if operation.of is not None:
                return edge
            return self._repartition(operation, placed, edge, flow.name, (operation.edge or flow.name,))[0]
        if isinstance(operation, SubscriptionSend):
            shapes = (placed.before, placed.after)
            rows, subscriptions = self._add(operation, (edge,), shapes, flow.name, placed.at, placed.name)
            self._left_rows[flow.name] = rows
            return subscriptions
        lookups: tuple[int, ...] = ()
        if isinstance(operation, ResponseJoin):
            lookups = (self._left_rows.pop(flow.name),)
        elif isinstance(operation, Lookup):
            table = operation.looks_at()
            lookups = (self._given[table, _side_name(flow, placed)] if operation.triggered else self._looked_up[table],)
            if isinstance(operation, JoinOfTables | TableJoin):
                related = self._related.find(flow, placed)
                lookups += tuple(self._looked_up[name] for name in related.names)
                if isinstance(operation, JoinOfTables):
                    operation = replace(operation, made_of=(len(related.this), len(related.other)))
            if operation.triggered and self._shapes[edge].store is None:
                edge = self._materialized(f"{flow.name}-{placed.name or table}", edge, placed.at, flow.name)
        second = (self._second(flow, operation.second, placed.at),) if isinstance(operation, StreamPair) else ()
        return self._add(operation, (edge, *second), (placed.after,), flow.name, placed.at, placed.name, lookups)[0]

    def _second(self, flow: CheckedFlow, stream: OtherStream, at: str) -> int:
        """The edge of the second input stream of an operation."""
        if stream.name in self._topology.topics and not self._is_mine(stream.name):
            return self._read(self._topology.topics[stream.name], stream.reader, stream.before, at)
        edge = self._given[stream.name, stream.reader]
        if stream.repartition is None or stream.shared is not None:
            return edge
        topic = stream.repartition.operation
        assert isinstance(topic, Repartition)
        return self._repartition(topic, stream.repartition, edge, flow.name, (stream.reader,))[0]

    def _repartition(
        self, repartition: Repartition, placed: PlacedOperation, edge: int, flow: str, into: tuple[str, ...]
    ) -> tuple[int, ...]:
        shape = placed.after
        exchanged = repartition.edge is not None
        # Responses for windowed rows go to their partition: the partition of the key without the window.
        windowed = exchanged and shape.windowed
        topic = Topic(
            repartition.topic,
            repartition.partitions,
            columns_ddl(shape.plain_key if windowed else shape.key),
            columns_ddl(shape.value),
            windowed=windowed,
            writer=self._application,
        )
        self._add(Writing(topic, "repartition"), (edge,), (), flow, placed.at, placed.name)
        rank = 0 if shape.is_table and not exchanged else 1
        reading = Reading(topic, into, rank, repartition=True)
        return self._add(reading, (), (shape,) * len(into), flow if exchanged else into[0], placed.at)

    def _branch(
        self,
        flow: CheckedFlow,
        placed: PlacedOperation,
        branching: Branching | Splitting,
        shapes: tuple[Shape, ...],
        edge: int,
    ) -> None:
        edges = self._add(branching, (edge,), shapes, flow.name, placed.at, placed.name)
        for name, branch in zip(branching.into, edges, strict=True):
            self._finish(name, branch, placed.at)

    def _finish(self, name: str, edge: int, at: str, ended: CheckedFlow | None = None) -> None:
        """Connect the end of a flow or table to its readers and its sink. `ended`: the flow, if it may write topics."""
        writes = ended is not None and bool(ended.to)
        flows = self._flows_of.get(name, ())
        lookups = [lookup for flow in flows for _, lookup in _lookups(flow, name)]
        joined = any(not lookup.triggered for lookup in lookups) or name in self._related.names
        shape = self._shapes[edge]
        # A join looks up rows by key, so the table needs a store, as in Kafka Streams.
        if lookups and shape.store is None:
            edge = self._materialized(self._free(name), edge, at, name)
            shape = self._shapes[edge]
        sharing = [reader for flow in flows for reader in _sharing(flow, name)]
        names = list(self._readers_of(name))
        own = [name] if joined else []
        own += [f"{name}.to" if own else name] if writes else []
        own += [f"{name}.repartition" if own else name] if sharing else []
        into = (*own, *names)
        copies = (edge,) * len(into)
        # An operator replaces the rows of its edge, so each reader gets its own edge.
        if len(into) > 1:
            copies = self._add(Forking(into), (edge,), (shape,) * len(into), name, at)
        self._given.update({(name, reader): copy for reader, copy in zip(names, copies[len(own) :], strict=True)})
        mine = iter(copies)
        if joined:
            self._looked_up[name] = next(mine)
        if ended is not None and writes:
            self._write(ended, next(mine))
        if sharing:
            placed = sharing[0][1]
            assert isinstance(placed.operation, Repartition)
            into = tuple(reader for reader, _ in sharing)
            edges = self._repartition(placed.operation, placed, next(mine), name, into)
            self._given.update({(name, reader): shared for reader, shared in zip(into, edges, strict=True)})

    def _write(self, flow: CheckedFlow, edge: int) -> None:
        """Add the sink of a flow."""
        shape = self._shapes[edge]
        if flow.route is None:
            self._add(Writing(flow.to[0], _mode(shape)), (edge,), (), flow.name, flow.to_at)
            return
        for placed in flow.route.operations:
            edge = self._operation(flow, placed, edge)
        self._add(Routing(flow.to, flow.route.by, frozenset(shape.value)), (edge,), (), flow.name, flow.to_at)

    def _readers_of(self, name: str) -> Iterator[str]:
        """The edges of the readers of a flow or table, in the order of the file."""
        for flow in self._flows_of.get(name, ()):
            if name in flow.sources and _shares(flow, name) is None:
                yield _edge_name(flow, name)
            yield from (_side_name(flow, placed) for placed, lookup in _lookups(flow, name) if lookup.triggered)
            for stream in second_streams(flow):
                if stream.name == name and stream.shared is None:
                    yield stream.reader

    def _free(self, name: str) -> str:
        """The name of the store of a flow's result. A step of the flow may have a store with the flow's name."""
        return f"{name}{RESULT}" if name in self._topology.stores else name

    def _materialized(self, name: str, edge: int, at: str, flow: str) -> int:
        """Add a store to a table without one, for lookups of joins. `flow`: of the table."""
        shape = self._shapes[edge]
        store = rows_store(name, shape)
        return self._add(TableMaterialization(store), (edge,), (replace(shape, store=store),), flow, at)[0]


def _edge_name(flow: CheckedFlow, source: str) -> str:
    """The name of the edge from a source to a flow: the flow's, with the source's if it has several sources."""
    return flow.name if len(flow.sources) == 1 else f"{flow.name}.{source}"


def _lookups(flow: CheckedFlow, table: str) -> Iterator[tuple[PlacedOperation, Lookup]]:
    """The operations of a flow that look up rows of a table."""
    for placed in flow.operations:
        if isinstance(placed.operation, Lookup) and placed.operation.looks_at() == table:
            yield placed, placed.operation


def _side_name(flow: CheckedFlow, placed: PlacedOperation) -> str:
    """The name of the edge with the changes of the other table, for a join of two tables."""
    assert isinstance(placed.operation, Lookup)
    table = placed.operation.looks_at()
    same = [join for join, lookup in _lookups(flow, table) if lookup.triggered]
    number = next(number for number, join in enumerate(same) if join is placed)
    return f"{flow.name}.{table}" if number == 0 else f"{flow.name}.{number + 1}.{table}"


def _shares(flow: CheckedFlow, name: str) -> Repartition | None:
    """The repartition topic with which the flow begins, if the flow `name` ends with it."""
    first = flow.operations[0].operation if flow.operations else None
    return first if isinstance(first, Repartition) and first.of == name else None


def _sharing(flow: CheckedFlow, name: str) -> Iterator[tuple[str, PlacedOperation]]:
    """The edges of a flow that read the repartition topic at the end of `name`, with that topic."""
    if _shares(flow, name) is not None:
        yield flow.name, flow.operations[0]
    for stream in second_streams(flow):
        if stream.name == name and stream.shared is not None and stream.repartition is not None:
            yield stream.reader, stream.repartition


def _mode(shape: Shape) -> SinkMode:
    return shape.emit if shape.is_table else "append"


def _without_dead_ends(wired: OperationGraph) -> OperationGraph:
    """The graph without operations that lead to no sink and no store."""
    alive: set[int] = set()
    kept: list[GraphOperation] = []
    read: dict[str, bool] = {}
    # From the end, because the readers of an edge come after its writer.
    for op in reversed(wired.operations):
        operation = op.operation
        if isinstance(operation, Writing) and operation.mode == "repartition" and not read.get(operation.topic.name):
            continue
        outputs = tuple(edge for edge in op.outputs if edge in alive)
        if not operation.has_effect and not outputs:
            continue
        if isinstance(operation, Reading):
            read[operation.topic.name] = True
        alive.update((*op.inputs, *op.lookups))
        kept.append(op if operation.has_effect else _narrowed(op, outputs))
    edges = {edge for op in kept for edge in op.outputs}
    return OperationGraph(tuple(reversed(kept)), {edge: shape for edge, shape in wired.shapes.items() if edge in edges})


def _narrowed(op: GraphOperation, outputs: tuple[int, ...]) -> GraphOperation:
    """The operation with only those outputs that are read."""
    operation = op.operation
    if isinstance(operation, (Reading, Forking, Branching)):
        into = tuple(name for name, edge in zip(operation.into, op.outputs, strict=True) if edge in outputs)
        operation = replace(operation, into=into)
    return replace(op, operation=operation, outputs=outputs)


# Stages. Only this module assigns them.
#
# State, topics and order need Python. Expressions need Spark SQL. Renaming and selecting columns costs nothing in
# Arrow, and copying and merging edges is possible in both. A hop between the two engines costs about 0.4 s for a
# million rows. So an operation that can run in both runs in the engine of its rows, and in SQL only if a later step
# needs SQL, too.


def stage_numbers(
    wired: OperationGraph, needed: Mapping[int, frozenset[str]], groups: Sequence[Group] = ()
) -> dict[int, int]:
    """The stage of each operation, as early as possible. Even numbers are Python stages, odd ones SQL between them.

    Operations of a group are in the same Python stage, the first possible one, including the expressions between its
    processors. A table that only joins read moves to the stage of the first join. Then the rows of its source cross SQL
    instead of the rows of the table.
    """
    producer, consumers = wired.producer, wired.consumers
    in_python = {op.number for group in groups for op in group}
    engines: dict[int, Engine] = {
        op.number: "python"
        if op.number in in_python
        else op.operation.engine(frozenset().union(*(needed[edge] for edge in op.outputs)))
        for op in wired.operations
    }

    def leads_to_sql(op: GraphOperation) -> bool:
        following = [reader for edge in op.outputs for reader in consumers[edge]]
        return any(
            engines[reader.number] == "sql" or (engines[reader.number] == "either" and leads_to_sql(reader))
            for reader in following
        )

    stages: dict[int, int] = {}
    earliest = dict.fromkeys((op.number for op in wired.operations), 0)

    def assign(op: GraphOperation) -> None:
        before = max((stages[producer[edge].number] for edge in (*op.inputs, *op.lookups)), default=0)
        engine = engines[op.number]
        in_sql = engine == "sql" or (engine == "either" and before % 2 == 1 and leads_to_sql(op))
        stages[op.number] = max(before if (before % 2 == 1) == in_sql else before + 1, earliest[op.number])

    while True:
        for op in wired.operations:
            assign(op)
        latest = {op.number: max(stages[other.number] for other in group) for group in groups for op in group}
        if all(stages[number] == stage for number, stage in latest.items()):
            break
        earliest |= latest
    for op in wired.operations:
        readers = [reader for edge in op.outputs for reader in consumers[edge]]
        only_lookups = all(edge in reader.lookups for reader in readers for edge in op.outputs)
        if isinstance(op.operation, ToTable) and readers and only_lookups:
            stages[op.number] = min(stages[reader.number] for reader in readers)
    return stages
