"""Descriptions of topologies as text and charts, and the layout of subtopologies in stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...runtime.engine.operators.operator import Operator
from ...runtime.engine.sql_step import SqlStep
from ..operations.base.operation import EitherOperation, Lookup, Operation, Processor, PythonOperation, SqlOperation
from ..operations.base.site import NOW, Declared, LiveEdge, Output, PythonLayout, Site, SqlLayout
from . import graph
from .changes import Changes
from .connections import Reading
from .graph import Needed, ProcessorNode, TopologyGraph
from .operation_graph import GraphOperation, OperationGraph
from .sharing import Group, grouped_order

# Descriptions: text in the format of Kafka Streams' `Topology.describe()`, and a Mermaid chart.
#
# Processor names follow Kafka's StreamsBuilder: a role, and a number that counts over the whole topology.

_MAX_TEXT = 100
"""The maximal length of a step's text, in characters."""


def processor_nodes(wired: OperationGraph) -> dict[int, tuple[ProcessorNode, ...]]:
    """The connected processor nodes of each operation, by its number."""
    return _Nodes(wired).run()


class _Nodes:
    def __init__(self, wired: OperationGraph) -> None:
        self._wired = wired
        self._next_number = 0
        self._made: dict[int, list[ProcessorNode]] = {}
        self._end: dict[int, str] = {}
        """Edge -> the node that produces it."""

    def run(self) -> dict[int, tuple[ProcessorNode, ...]]:
        for op in self._wired.operations:
            self._made[op.number] = []
            last = self._add(op)
            for number, edge in enumerate(op.outputs):
                self._end[edge] = last[number] if len(last) == len(op.outputs) else last[0]
        return self._connected()

    def _add(self, op: GraphOperation) -> tuple[str, ...]:
        """Make the nodes of an operation. Returns the last ones."""
        shapes = self._wired.shapes
        of_table = bool(op.inputs) and shapes[op.inputs[0]].is_table
        operation = op.operation
        both = isinstance(operation, Lookup) and operation.triggered
        lookups = (*op.inputs, op.lookups[0]) if both else op.lookups[:1]
        description = operation.describe(of_table, [shapes[edge] for edge in lookups])
        about = _about(op, description.text)
        last = tuple(self._end[edge] for edge in op.inputs)
        if description.keeps:
            self._keep(op, description.keeps)
        for row in description.inputs:
            pairs = zip(row, last, strict=True)
            last = tuple(self._node(op, processor, (before,), about) for processor, before in pairs)
        if description.sides:
            # Kafka's StreamsBuilder numbers the merger before the sides.
            number, self._next_number = self._next_number, self._next_number + 1
            ends = [(self._end[edge],) for edge in lookups]
            sides = zip(description.sides, ends, strict=True)
            last = tuple(self._node(op, processor, end, about) for processor, end in sides)
            last = (self._node(op, description.chain[0], last, about, number),)
        for processor in description.chain[len(description.sides) > 0 :]:
            last = (self._node(op, processor, last, about),)
        return tuple(self._node(op, processor, last, about) for processor in description.fan) or last

    def _keep(self, op: GraphOperation, stores: tuple[str, ...]) -> None:
        """Add stores to the node that produces the operation's input."""
        (edge,) = op.inputs
        for nodes in self._made.values():
            for index, node in enumerate(nodes):
                if node.name == self._end[edge]:
                    nodes[index] = replace(node, stores=(*node.stores, *stores))

    def _node(
        self, op: GraphOperation, processor: Processor, before: tuple[str, ...], about: str, number: int | None = None
    ) -> str:
        if number is None:
            number, self._next_number = self._next_number, self._next_number + 1
        name = f"{processor.role}-{number:010d}"
        before = tuple(dict.fromkeys(before))
        node = ProcessorNode(
            processor.kind, name, processor.topics, processor.stores, before, about=about, at=str(op.at)
        )
        self._made[op.number].append(node)
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


def _about(op: GraphOperation, text: str) -> str:
    """`sales: filter quantity >= 1, topologies/sales.yml:13`."""
    text = " ".join(text.split())
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT - 3]}..."
    return f"{op.flow}: {text}{', ' if text and op.at else ''}{op.at}".rstrip(": ")


def describe(topology: TopologyGraph) -> str:
    """The topology in the format of Kafka Streams' `Topology.describe()`.

    After `#`: the node's step and its location, and why Spark SQL computes its expressions.
    """
    from .engines import step_engines  # loads Arrow, which `parse` does not need

    kept = {step.at: step.kept for step in step_engines(topology) if step.kept}
    parts = {part.number: _subtopology(part.number, part.nodes, kept) for part in topology.subtopologies}
    ending = " for global store (will not generate tasks)"
    parts |= {number: _subtopology(number, nodes, {}, ending) for number, nodes in topology.global_nodes.items()}
    return "Topologies:\n " + "".join(f"  {parts[number]}" for number in sorted(parts))


def _subtopology(number: int, nodes: Sequence[ProcessorNode], kept: Mapping[str, str], ending: str = "") -> str:
    by_size = _by_size(nodes)
    lines = "".join(f"    {_text(node, by_size, kept.get(node.at, ''))}\n" for node in by_size.values())
    return f"Sub-topology: {number}{ending}\n{lines}\n"


def _by_size(nodes: Sequence[ProcessorNode]) -> dict[str, ProcessorNode]:
    """Nodes by name, in Kafka's order: by the number of nodes downstream, descending, then by name."""
    by_name = {node.name: node for node in nodes}
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            sizes[name] = 1 + sum(size(after) for after in by_name[name].successors)
        return sizes[name]

    return {node.name: node for node in sorted(nodes, key=lambda node: (-size(node.name), node.name))}


def _text(node: ProcessorNode, order: Mapping[str, ProcessorNode], kept: str) -> str:
    after = f"\n      --> {_names(node.successors, order)}"
    before = f"\n      <-- {_names(node.predecessors, order)}"
    about = f"\n      # {node.about}" if node.about else ""
    about += f"\n      # Spark SQL: {kept}" if kept else ""
    match node.kind:
        case "source":
            return f"Source: {node.name} (topics: [{', '.join(node.topics)}]){about}{after}"
        case "sink":
            written = f"topic: {node.topics[0]}" if len(node.topics) == 1 else f"topics: [{', '.join(node.topics)}]"
            return f"Sink: {node.name} ({written}){about}{before}"
    return f"Processor: {node.name} (stores: [{', '.join(node.stores)}]){about}{after}{before}"


def _names(names: Iterable[str], order: Mapping[str, ProcessorNode]) -> str:
    return ", ".join(name for name in order if name in set(names)) or "none"


def mermaid(topology: TopologyGraph) -> str:
    """The topology as a Mermaid flowchart: a box per subtopology, with topics and stores by name."""
    lines = ["flowchart TD"]
    repartition = set(topology.repartition_topics)
    for topic in topology.topics:
        left, right = ("[(", ")]") if topic.name not in repartition else ("[/", "/]")
        lines.append(f'  {_id("topic", topic.name)}{left}"{topic.name}"{right}')
    for part in topology.subtopologies:
        lines.append(f'  subgraph {_id("subtopology", str(part.number))}["{part.number}: {part.name}"]')
        lines += [f'    {_id("node", node.name)}["{_label(node)}"]' for node in part.nodes if node.kind == "processor"]
        lines.append("  end")
    nodes = {node.name: node for part in topology.subtopologies for node in part.nodes}
    for node in nodes.values():
        for after in node.successors:
            lines += [f"  {start} --> {end}" for start in _ends(node) for end in _ends(nodes[after])]
    for table in topology.global_tables:
        lines.append(f'  {_id("topic", table.topic.name)} -.-> {_id("global", table.name)}["{table.name} (global)"]')
    return "\n".join(lines) + "\n"


def _label(node: ProcessorNode) -> str:
    role = node.name.rpartition("-")[0].lower()
    return "<br/>".join([role, *node.stores])


def _ends(node: ProcessorNode) -> list[str]:
    return [_id("node", node.name)] if node.kind == "processor" else [_id("topic", topic) for topic in node.topics]


def _id(kind: str, name: str) -> str:
    return f"{kind}_" + "".join(c if c.isalnum() else "_" for c in name)


# Layout: a subtopology as stages of one pipe, with Python operators and SQL steps with physical names.
#
# The layout visits the operations stage by stage. For each live edge it keeps the name in the pipe and the value
# columns at this point. An operation lays itself out (`Site`).
#
# When a value column with the name of a key column is added or dropped, the physical name of the key column changes
# (see `graph`). The runtime derives the new names itself.


@dataclass
class Layout:
    """Lays out one subtopology. `declared` collects the final declarations of all subtopologies.

    `groups`: the processors that share stores.
    """

    wired: OperationGraph
    part: Sequence[GraphOperation]
    needed: Needed
    stage_numbers: Mapping[int, int]
    changes: Changes
    declared: Declared
    groups: Sequence[Group] = ()
    _edges: dict[int, LiveEdge] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)

    def stages(self) -> tuple[graph.PythonStage | SqlStep, ...]:
        """The stages. The first and the last are Python."""
        for op in self.part:
            for edge in (*op.inputs, *op.lookups):
                self._last[edge] = max(self._last.get(edge, 0), self.stage_numbers[op.number])
        stages: list[graph.PythonStage | SqlStep] = []
        last = max(self.stage_numbers[op.number] for op in self.part)
        # If the last operation is in SQL, an empty Python stage follows: only Python stages return the commit row.
        for level in range(last + 1 + last % 2):
            operations = [op for op in self.part if self.stage_numbers[op.number] == level]
            if level % 2 == 0:
                ordered = grouped_order(_tables_first(operations), self.groups, self.wired)
                stages.append(self._python(level, ordered))
            else:
                stages += self._sql(operations)
        return tuple(stages)

    def _live(self, level: int) -> dict[int, LiveEdge]:
        """The edges read at `level` or later."""
        return {number: edge for number, edge in self._edges.items() if self._last.get(number, -1) >= level}

    def _python(self, level: int, operations: Sequence[GraphOperation]) -> graph.PythonStage:
        reads = {edge.name: edge.flow for edge in self._live(level).values()}
        nodes: list[Operator | SqlStep] = []
        for op in operations:
            layout = in_python_stage(op.operation, self._site(op))
            nodes += layout.steps if isinstance(layout, SqlLayout) else layout.nodes
            self._edges.update(zip(op.outputs, layout.edges, strict=True))
        for number in self._live(level + 1):
            edge = self._edges[number]
            needed = self.needed[number]
            value = [name for name in edge.value if name in needed and name != NOW]
            self._edges[number] = replace(edge, value=(*value, *([NOW] if NOW in needed else [])))
        yields = {edge.name: edge.flow for edge in self._live(level + 1).values()}
        return graph.PythonStage(tuple(nodes), reads, yields)

    def _sql(self, operations: Sequence[GraphOperation]) -> list[SqlStep]:
        steps: list[SqlStep] = []
        for op in operations:
            assert isinstance(op.operation, SqlOperation | EitherOperation)
            layout = op.operation.in_sql(self._site(op))
            steps += layout.steps
            self._edges.update(zip(op.outputs, layout.edges, strict=True))
        return steps

    def _site(self, op: GraphOperation) -> Site:
        return Site(
            inputs=tuple(self._edges[number] for number in op.inputs),
            lookups=tuple(self._edges[number] for number in op.lookups),
            needed=self.needed[op.inputs[0]] if op.inputs else frozenset(),
            outputs=tuple(Output(self.needed[number], self.wired.shapes[number]) for number in op.outputs),
            at=op.at,
            declared=self.declared,
            changes=partial(self.changes.emitted, op.outputs[0] if op.outputs else -1),
        )


def in_python_stage(operation: Operation, site: Site) -> PythonLayout | SqlLayout:
    """The layout of an operation in a Python stage. It is SQL only between processors that share a store."""
    if isinstance(operation, SqlOperation):
        return operation.in_sql(site)
    assert isinstance(operation, PythonOperation | EitherOperation)
    needed = frozenset[str]().union(*(output.needed for output in site.outputs))
    if isinstance(operation, EitherOperation) and operation.engine(needed) == "sql":
        return operation.in_sql(site)
    return operation.in_python(site)


def _tables_first(operations: Sequence[GraphOperation]) -> list[GraphOperation]:
    """The operations of a stage, with sources of tables before sources of streams.

    A task takes records with equal timestamps in the order of the sources, so records of tables come first.
    """
    ranks = [op.operation.rank if isinstance(op.operation, Reading) else None for op in operations]
    if 1 not in ranks:
        return list(operations)
    first = ranks.index(1)
    tables = [op for op, rank in zip(operations[first:], ranks[first:], strict=True) if rank == 0]
    return [*operations[:first], *tables, *(op for op in operations[first:] if op not in tables)]
