"""A topology as text, and its layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...runtime.engine.sql_step import SqlStep
from ...runtime.ir.declarations import Declaration
from ..operations.base.operation import EitherOperation, Lookup, Operation, Processor, PythonOperation, SqlOperation
from ..operations.base.site import NOW, Declared, LiveEdge, Output, PythonLayout, Site, SqlLayout
from . import graph
from .changes import Changes
from .connections import Reading
from .graph import Needed, ProcessorNode, TopologyGraph
from .operation_graph import Vertex, Wired
from .sharing import Group, side_by_side

# Describes a topology: as text in the format of Kafka Streams' `Topology.describe()`, and as a Mermaid chart.
#
# Processor names follow Kafka's builder: a role, and a number that counts over the whole topology.

_LONGEST = 100
"""The most characters shown of a step's text."""


def processor_nodes(wired: Wired) -> dict[int, tuple[ProcessorNode, ...]]:
    """The processor nodes of each vertex, connected."""
    return _Nodes(wired).run()


class _Nodes:
    def __init__(self, wired: Wired) -> None:
        self._wired = wired
        self._numbered = 0
        self._made: dict[int, list[ProcessorNode]] = {}
        self._end: dict[int, str] = {}
        """The node behind which each edge begins."""

    def run(self) -> dict[int, tuple[ProcessorNode, ...]]:
        for vertex in self._wired.vertices:
            self._made[vertex.number] = []
            last = self._vertex(vertex)
            for number, edge in enumerate(vertex.outputs):
                self._end[edge] = last[number] if len(last) == len(vertex.outputs) else last[0]
        return self._connected()

    def _vertex(self, vertex: Vertex) -> tuple[str, ...]:
        """Make the nodes of a vertex. Returns the last ones."""
        shapes = self._wired.shapes
        of_table = bool(vertex.inputs) and shapes[vertex.inputs[0]].is_table
        operation = vertex.operation
        both = isinstance(operation, Lookup) and operation.triggered
        looked_at = (*vertex.inputs, vertex.lookups[0]) if both else vertex.lookups[:1]
        found = operation.describe(of_table, [shapes[edge] for edge in looked_at])
        about = _about(vertex, found.text)
        last = tuple(self._end[edge] for edge in vertex.inputs)
        if found.keeps:
            self._keep(vertex, found.keeps)
        for row in found.inputs:
            each = zip(row, last, strict=True)
            last = tuple(self._node(vertex, processor, (before,), about) for processor, before in each)
        if found.sides:
            # Kafka's builder gives the merger a number before it does the sides.
            number, self._numbered = self._numbered, self._numbered + 1
            ends = [(self._end[edge],) for edge in looked_at]
            sides = zip(found.sides, ends, strict=True)
            last = tuple(self._node(vertex, processor, end, about) for processor, end in sides)
            last = (self._node(vertex, found.chain[0], last, about, number),)
        for processor in found.chain[len(found.sides) > 0 :]:
            last = (self._node(vertex, processor, last, about),)
        return tuple(self._node(vertex, processor, last, about) for processor in found.fan) or last

    def _keep(self, vertex: Vertex, stores: tuple[str, ...]) -> None:
        """Add the stores to the node behind which the vertex's input begins."""
        (edge,) = vertex.inputs
        for nodes in self._made.values():
            for place, node in enumerate(nodes):
                if node.name == self._end[edge]:
                    nodes[place] = replace(node, stores=(*node.stores, *stores))

    def _node(
        self, vertex: Vertex, processor: Processor, before: tuple[str, ...], about: str, number: int | None = None
    ) -> str:
        if number is None:
            number, self._numbered = self._numbered, self._numbered + 1
        name = f"{processor.role}-{number:010d}"
        before = tuple(dict.fromkeys(before))
        node = ProcessorNode(
            processor.kind, name, processor.topics, processor.stores, before, about=about, at=str(vertex.at)
        )
        self._made[vertex.number].append(node)
        return name

    def _connected(self) -> dict[int, tuple[ProcessorNode, ...]]:
        after: dict[str, list[str]] = {}
        for nodes in self._made.values():
            for node in nodes:
                for name in node.predecessors:
                    after.setdefault(name, []).append(node.name)
        return {
            number: tuple(replace(node, successors=tuple(after.get(node.name, ()))) for node in nodes)
            for number, nodes in self._made.items()
        }


def _about(vertex: Vertex, text: str) -> str:
    """`sales: filter quantity >= 1, topologies/sales.yml:13`."""
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    return f"{vertex.flow}: {text}{', ' if text and vertex.at else ''}{vertex.at}".rstrip(": ")


def describe(topology: TopologyGraph) -> str:
    """The topology in the format of Kafka Streams' `Topology.describe()`.

    After `#`: the node's step and place in the file, and what keeps its expressions with Spark SQL.
    """
    from .engines import step_engines  # loads Arrow, which `parse` does not need

    kept = {each.at: each.kept for each in step_engines(topology) if each.kept}
    parts = {part.number: _subtopology(part.number, part.nodes, kept) for part in topology.subtopologies}
    parts |= {number: _global(number, nodes) for number, nodes in topology.global_nodes.items()}
    return "Topologies:\n " + "".join(f"  {parts[number]}" for number in sorted(parts))


def _subtopology(number: int, nodes: Sequence[ProcessorNode], kept: Mapping[str, str]) -> str:
    by_size = _by_size(nodes)
    lines = "".join(f"    {_text(node, by_size, kept.get(node.at, ''))}\n" for node in by_size.values())
    return f"Sub-topology: {number}\n{lines}\n"


def _global(number: int, nodes: Sequence[ProcessorNode]) -> str:
    by_size = _by_size(nodes)
    lines = "".join(f"    {_text(node, by_size)}\n" for node in by_size.values())
    return f"Sub-topology: {number} for global store (will not generate tasks)\n{lines}\n"


def _by_size(nodes: Sequence[ProcessorNode]) -> dict[str, ProcessorNode]:
    """Nodes by name, in Kafka's order: those with more nodes after them first, then by name."""
    known = {node.name: node for node in nodes}
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            sizes[name] = 1 + sum(size(after) for after in known[name].successors)
        return sizes[name]

    return {node.name: node for node in sorted(nodes, key=lambda node: (-size(node.name), node.name))}


def _text(node: ProcessorNode, order: Mapping[str, ProcessorNode], kept: str = "") -> str:
    after = f"\n      --> {_names(node.successors, order)}"
    before = f"\n      <-- {_names(node.predecessors, order)}"
    about = f"\n      # {node.about}" if node.about else ""
    about += f"\n      # Spark SQL: {kept}" if kept else ""
    match node.kind:
        case "source":
            return f"Source: {node.name} (topics: [{', '.join(node.topics)}]){about}{after}"
        case "sink":
            return f"Sink: {node.name} (topic: {node.topics[0]}){about}{before}"
    return f"Processor: {node.name} (stores: [{', '.join(node.stores)}]){about}{after}{before}"


def _names(names: Iterable[str], order: Mapping[str, ProcessorNode]) -> str:
    return ", ".join(name for name in order if name in set(names)) or "none"


def mermaid(topology: TopologyGraph) -> str:
    """The topology as a Mermaid flowchart: a box for each subtopology; topics and stores by name."""
    lines = ["flowchart TD"]
    repartition = set(topology.repartition_topics)
    for topic in topology.topics:
        left, right = ("[(", ")]") if topic.name not in repartition else ("[/", "/]")
        lines.append(f'  {_id("topic", topic.name)}{left}"{topic.name}"{right}')
    for part in topology.subtopologies:
        lines.append(f'  subgraph {_id("subtopology", str(part.number))}["{part.number}: {part.name}"]')
        lines += [f'    {_id("node", node.name)}["{_label(node)}"]' for node in part.nodes if node.kind == "processor"]
        lines.append("  end")
    known = {node.name: node for part in topology.subtopologies for node in part.nodes}
    for node in known.values():
        for after in node.successors:
            lines.append(f"  {_end(node)} --> {_end(known[after])}")
    for table in topology.global_tables:
        lines.append(f'  {_id("topic", table.topic.name)} -.-> {_id("global", table.name)}["{table.name} (global)"]')
    return "\n".join(lines) + "\n"


def _label(node: ProcessorNode) -> str:
    role = node.name.rpartition("-")[0].lower()
    return "<br/>".join([role, *node.stores])


def _end(node: ProcessorNode) -> str:
    return _id("node", node.name) if node.kind == "processor" else _id("topic", node.topics[0])


def _id(kind: str, name: str) -> str:
    return f"{kind}_" + "".join(c if c.isalnum() else "_" for c in name)


# Lays out a subtopology as stages of one pipe: Python operators and SQL steps with physical names.
#
# It goes through the operations stage by stage. For each live edge it keeps the name in the pipe and the value columns
# that the edge carries at this point. Each operation lays itself out (`Site`).
#
# When a value column with the name of a key column appears or disappears, the physical name of the key column changes
# (see `graph`). The runtime finds the new names itself.


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
