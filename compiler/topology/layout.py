"""Lays out a subtopology as stages of one pipe: Python operators and SQL steps with physical names.

It goes through the operations stage by stage. For each live edge it keeps the name in the pipe and the value columns
that the edge carries at this point. Each operation lays itself out (`Site`).

When a value column with the name of a key column appears or disappears, the physical name of the key column changes
(see `graph`). The runtime finds the new names itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...runtime.operators.declarations import Declaration
from ...runtime.stages.sql_step import SqlStep
from ..operations.base.edge import NOW, LiveEdge
from ..operations.base.operation import EitherOperation, Operation, PythonOperation, SqlOperation
from ..operations.base.site import Declared, Output, PythonLayout, Site, SqlLayout
from . import graph
from .changes import Changes
from .connections import Reading
from .liveness import Needed
from .operation_graph import Vertex, Wired
from .sharing.groups import Group, side_by_side


@dataclass
class Layout:
    """Lays out one subtopology. `declared` collects the final declarations of all subtopologies.

    `groups`: the processors that share stores.
    """

    wired: Wired
    part: Sequence[Vertex]
    needed: Needed
    stage_numbers: Mapping[int, int]
    changes: Changes
    declared: Declared
    groups: Sequence[Group] = ()
    _edges: dict[int, LiveEdge] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)

    def stages(self) -> tuple[graph.PythonStage | SqlStep, ...]:
        """The stages, of which the first and the last are Python."""
        for vertex in self.part:
            for edge in (*vertex.inputs, *vertex.lookups):
                self._last[edge] = max(self._last.get(edge, 0), self.stage_numbers[vertex.number])
        stages: list[graph.PythonStage | SqlStep] = []
        last = max(self.stage_numbers[vertex.number] for vertex in self.part)
        # If the last operation is in SQL, an empty Python stage follows: only a Python stage can give the commit row.
        for level in range(last + 1 + last % 2):
            vertices = [vertex for vertex in self.part if self.stage_numbers[vertex.number] == level]
            if level % 2 == 0:
                ordered = side_by_side(_tables_first(vertices), self.groups, self.wired)
                stages.append(self._python(level, ordered))
            else:
                stages += self._sql(vertices)
        return tuple(stages)

    def _live(self, level: int) -> dict[int, LiveEdge]:
        """The edges that are read at `level` or later."""
        return {number: edge for number, edge in self._edges.items() if self._last.get(number, -1) >= level}

    def _python(self, level: int, vertices: Sequence[Vertex]) -> graph.PythonStage:
        reads = {edge.name: edge.flow for edge in self._live(level).values()}
        nodes: list[Declaration | SqlStep] = []
        for vertex in vertices:
            laid = between(vertex.operation, self._site(vertex))
            nodes += laid.steps if isinstance(laid, SqlLayout) else laid.nodes
            self._edges.update(zip(vertex.outputs, laid.edges, strict=True))
        for number in self._live(level + 1):
            edge = self._edges[number]
            needed = self.needed[number]
            value = [name for name in edge.value if name in needed and name != NOW]
            self._edges[number] = replace(edge, value=(*value, *([NOW] if NOW in needed else [])))
        yields = {edge.name: edge.flow for edge in self._live(level + 1).values()}
        return graph.PythonStage(tuple(nodes), reads, yields)

    def _sql(self, vertices: Sequence[Vertex]) -> list[SqlStep]:
        steps: list[SqlStep] = []
        for vertex in vertices:
            assert isinstance(vertex.operation, SqlOperation | EitherOperation)
            laid = vertex.operation.in_sql(self._site(vertex))
            steps += laid.steps
            self._edges.update(zip(vertex.outputs, laid.edges, strict=True))
        return steps

    def _site(self, vertex: Vertex) -> Site:
        """What a vertex is given."""
        return Site(
            inputs=tuple(self._edges[number] for number in vertex.inputs),
            lookups=tuple(self._edges[number] for number in vertex.lookups),
            needed=self.needed[vertex.inputs[0]] if vertex.inputs else frozenset(),
            outputs=tuple(Output(self.needed[number], self.wired.shapes[number]) for number in vertex.outputs),
            at=vertex.at,
            declared=self.declared,
            changes=partial(self.changes.of, vertex.outputs[0] if vertex.outputs else -1),
        )


def between(operation: Operation, site: Site) -> PythonLayout | SqlLayout:
    """An operation in a Python stage. It has expressions only where it stands between processors that share a store."""
    if isinstance(operation, SqlOperation):
        return operation.in_sql(site)
    assert isinstance(operation, PythonOperation | EitherOperation)
    needed = frozenset[str]().union(*(output.needed for output in site.outputs))
    if isinstance(operation, EitherOperation) and operation.engine(needed) == "sql":
        return operation.in_sql(site)
    return operation.in_python(site)


def _tables_first(vertices: Sequence[Vertex]) -> list[Vertex]:
    """The vertices of a stage, with the topics of tables read before those of streams.

    Of records with equal timestamps those of a table come first; the order of sources is what says so.
    """
    ranks = [vertex.operation.rank if isinstance(vertex.operation, Reading) else None for vertex in vertices]
    if 1 not in ranks:
        return list(vertices)
    first = ranks.index(1)
    tables = [vertex for vertex, rank in zip(vertices[first:], ranks[first:], strict=True) if rank == 0]
    return [*vertices[:first], *tables, *(vertex for vertex in vertices[first:] if vertex not in tables)]
