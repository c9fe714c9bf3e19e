"""A part of the graph as stages of one pipe: Python operators and SQL steps with physical names.

Walks the operations stage by stage and keeps, for each live edge, its name in the pipe and the value columns that it
really carries at this point. Where a value column comes or goes that a key column shares its name with, the key
column's physical name changes (`graph`): only projections do that here, and Python operators do it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...runtime.operators import declarations
from ...runtime.topology import Store, Topic
from ..language.expressions import Expression
from ..language.operations import (
    Aggregation,
    GlobalTableJoin,
    Materialization,
    Projection,
    Rekeying,
    Settling,
    Shape,
    Streaming,
    TableJoin,
    Tabling,
)
from ..language.stores import columns_ddl
from . import graph
from .changes import Changes
from .layout_sql import sql_steps
from .live_edge import LiveEdge
from .liveness import NOW, Needed
from .wired import Forking, Merging, Reading, Vertex, Wired, Writing


@dataclass
class Layout:
    """Lays out one subtopology. `stores` and `topics` collect their final declarations, by name."""

    wired: Wired
    part: Sequence[Vertex]
    needed: Needed
    levels: Mapping[int, int]
    changes: Changes
    keeps_null_keys: Callable[[str], bool]
    stores: dict[str, Store] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    _edges: dict[int, LiveEdge] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)

    def stages(self) -> tuple[graph.PythonStage | graph.SqlStep, ...]:
        """The stages, Python first and last."""
        for vertex in self.part:
            for edge in (*vertex.inputs, *vertex.lookups):
                self._last[edge] = max(self._last.get(edge, 0), self.levels[vertex.number])
        stages: list[graph.PythonStage | graph.SqlStep] = []
        last = max(self.levels[vertex.number] for vertex in self.part)
        for level in range(last + 1 + last % 2):
            vertices = [vertex for vertex in self.part if self.levels[vertex.number] == level]
            if level % 2 == 0:
                stages.append(self._python(level, vertices))
            else:
                stages += self._sql(level, vertices)
        return tuple(stages)

    def _live(self, level: int) -> dict[int, LiveEdge]:
        """The edges that are read at `level` or later."""
        return {number: edge for number, edge in self._edges.items() if self._last.get(number, -1) >= level}

    def _python(self, level: int, vertices: Sequence[Vertex]) -> graph.PythonStage:
        reads = {edge.name: edge.flow for edge in self._live(level).values()}
        nodes: list[declarations.Declaration] = []
        for vertex in vertices:
            nodes += self._nodes(vertex)
        for number in self._live(level + 1):
            edge = self._edges[number]
            needed = self.needed[number]
            value = [name for name in edge.value if name in needed and name != NOW]
            self._edges[number] = replace(edge, value=(*value, *([NOW] if NOW in needed else [])))
        yields = {edge.name: edge.flow for edge in self._live(level + 1).values()}
        return graph.PythonStage(tuple(nodes), reads, yields)

    def _sql(self, level: int, vertices: Sequence[Vertex]) -> list[graph.SqlStep]:
        live = self._live(level)
        steps: list[graph.SqlStep] = []
        for vertex in vertices:
            inputs = [live.pop(number) for number in vertex.inputs]
            outputs = [(number, self.needed[number], self.wired.shapes[number]) for number in vertex.outputs]
            tagged = bool(live) or len(inputs) > 1
            made, edges = sql_steps(vertex, inputs, outputs, tagged)
            steps += made
            live.update(edges)
            self._edges.update(edges)
        return steps

    def _nodes(self, vertex: Vertex) -> list[declarations.Declaration]:
        """The operators of a vertex; its outputs become known."""
        action, at = vertex.action, vertex.at
        if isinstance(action, Reading):
            return [self._source(vertex, action)]
        if isinstance(action, Merging):
            return self._merge(vertex, action)
        edge = self._edges[vertex.inputs[0]]
        if isinstance(action, Writing):
            return [self._sink(vertex, action, edge)]
        if isinstance(action, Forking):
            return self._fork(vertex, action, edge)
        after = self.wired.shapes[vertex.outputs[0]]
        out = replace(edge, shape=after)
        node: declarations.Declaration
        match action:
            case Projection(columns=columns):
                wanted = self._wanted(vertex, columns)
                out = replace(out, value=tuple(wanted))
                if out.value == edge.value and all(
                    (e.refs[0].role, e.refs[0].name) == ("value", name) for name, e in wanted.items()
                ):
                    self._edges[vertex.outputs[0]] = out
                    return []
                node = declarations.Project(
                    edge.name, value={name: edge.physical(e.refs[0]) for name, e in wanted.items()}, at=at
                )
            case Rekeying(columns=columns):
                node = declarations.Project(
                    edge.name, key={name: edge.physical(e.refs[0]) for name, e in columns.items()}, at=at
                )
            case TableJoin(table=table, how=how, values=values):
                wanted_values = {new: old for new, old in values.items() if new in self.needed[vertex.outputs[0]]}
                out = replace(out, value=_added(edge.value, wanted_values))
                looked_at = self._edges[vertex.lookups[0]]
                store = looked_at.shape.store
                assert store is not None, f"{table} has been given a store"
                node = declarations.StreamTableJoin(
                    edge.name, looked_at.name, self.stores[store.name], how, wanted_values, at
                )
            case GlobalTableJoin(table=global_table, how=how, by=by, values=values):
                wanted_values = {new: old for new, old in values.items() if new in self.needed[vertex.outputs[0]]}
                out = replace(out, value=_added(edge.value, wanted_values))
                self.stores.setdefault(global_table.store.name, global_table.store)
                keys = {name: edge.physical(e.as_column) for name, e in by.items()}
                node = declarations.GlobalJoin(edge.name, global_table, how, keys, wanted_values, at)
            case Aggregation():
                store = self._aggregates(action, edge)
                out = replace(out, value=tuple(after.value))
                emit, old = self.changes.of(vertex.outputs[0])
                node = declarations.Aggregate(edge.name, store, emit, old, action.of, action.name, at)
            case Materialization(store=store):
                node = declarations.Materialize(edge.name, self.stores[store.name], at)
            case Tabling(store=store):
                self.stores[store.name] = store
                out = replace(out, value=tuple(after.value))
                emit, old = self.changes.of(vertex.outputs[0])
                node = declarations.Table(edge.name, store, emit, old, at)
            case Settling():
                node = declarations.Settle(edge.name, at)
            case Streaming():
                node = declarations.ToStream(edge.name, at)
            case _:
                raise AssertionError(f"{action} is not for Python")
        self._edges[vertex.outputs[0]] = out
        return [node]

    def _source(self, vertex: Vertex, action: Reading) -> declarations.Declaration:
        shape = self.wired.shapes[vertex.outputs[0]]
        needed = frozenset[str]().union(*(self.needed[edge] for edge in vertex.outputs))
        value = tuple(name for name in shape.value if name in needed)
        topic = action.topic
        if action.repartition:
            shape = replace(shape, value={name: shape.value[name] for name in value})
            topic = self._repartition_topic(action.topic, shape)
        self.topics.setdefault(topic.name, topic)
        for name, number in zip(action.into, vertex.outputs, strict=True):
            self._edges[number] = LiveEdge(name, self.wired.shapes[number], value)
        everything = len(value) == len(shape.value)
        columns = None if everything else self._edges[vertex.outputs[0]].flow
        return declarations.Source(topic, action.into, columns, action.rank, vertex.at)

    def _repartition_topic(self, topic: Topic, shape: Shape) -> Topic:
        """The topic with only the columns that its readers need."""
        if topic.name not in self.topics:
            self.topics[topic.name] = replace(topic, value=columns_ddl(shape.value))
        return self.topics[topic.name]

    def _sink(self, vertex: Vertex, action: Writing, edge: LiveEdge) -> declarations.Declaration:
        if action.mode == "repartition":
            columns = {n: t for n, t in edge.shape.value.items() if n in self.needed[vertex.inputs[0]]}
            topic = self._repartition_topic(action.topic, replace(edge.shape, value=columns))
        else:
            topic = self.topics.setdefault(action.topic.name, action.topic)
        keeps = action.mode == "repartition" and self.keeps_null_keys(topic.name)
        regroups = action.mode == "repartition" and edge.shape.is_table
        return declarations.Sink(edge.name, topic, action.mode, keeps, "table" if regroups else "stream", vertex.at)

    def _fork(self, vertex: Vertex, action: Forking, edge: LiveEdge) -> list[declarations.Declaration]:
        outputs = list(zip(action.into, vertex.outputs, strict=True))
        if len(outputs) == 1:
            self._edges[outputs[0][1]] = edge
            return []
        for name, number in outputs:
            self._edges[number] = replace(edge, name=name)
        return [declarations.Fork(edge.name, action.into, vertex.at)]

    def _merge(self, vertex: Vertex, action: Merging) -> list[declarations.Declaration]:
        needed = self.needed[vertex.outputs[0]]
        value = tuple(name for name in self.wired.shapes[vertex.outputs[0]].value if name in needed)
        nodes: list[declarations.Declaration] = []
        names = []
        for number in vertex.inputs:
            edge = self._edges[number]
            names.append(edge.name)
            if edge.value != value:
                nodes.append(declarations.Project(edge.name, value={name: name for name in value}, at=vertex.at))
        self._edges[vertex.outputs[0]] = LiveEdge(action.into, self.wired.shapes[vertex.outputs[0]], value)
        return [*nodes, declarations.Merge(tuple(names), action.into, vertex.at)]

    def _wanted(self, vertex: Vertex, columns: Mapping[str, Expression]) -> dict[str, Expression]:
        needed = self.needed[vertex.outputs[0]]
        return {name: expression for name, expression in columns.items() if name in needed}

    def _aggregates(self, action: Aggregation, edge: LiveEdge) -> Store:
        """The store with its aggregates, their columns by physical name."""

        aggregates = tuple(
            replace(each.aggregate, column=edge.physical(each.column.as_column)) if each.column else each.aggregate
            for each in action.arguments
        )
        self.stores[action.store.name] = replace(action.store, aggregates=aggregates)
        return self.stores[action.store.name]


def _added(value: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    """Value columns with those that a join adds or replaces."""
    return (*value, *(name for name in names if name not in value))
