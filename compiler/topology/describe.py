"""A topology in words and pictures: the text of Kafka Streams' `Topology.describe()`, and a Mermaid chart.

Processor names are made as Kafka's builder makes them: a role and a running number over the topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..language.expressions import Expression
from ..language.operations import (
    Aggregation,
    Explosion,
    Filter,
    GlobalTableJoin,
    Projection,
    Rekeying,
    Streaming,
    TableJoin,
    Tabling,
)
from .graph import ProcessorNode, TopologyGraph
from .wired import Forking, GlobalReading, Merging, Reading, Splitting, Vertex, Wired, Writing

_LONGEST = 100
"""Characters that are shown of what a step says."""


def processor_nodes(wired: Wired, null_keys: Mapping[str, bool]) -> dict[int, tuple[ProcessorNode, ...]]:
    """The processor nodes of each vertex, connected. `null_keys`: repartition topics that keep records without key."""
    return _Nodes(wired, null_keys).run()


class _Nodes:
    def __init__(self, wired: Wired, null_keys: Mapping[str, bool]) -> None:
        self._wired = wired
        self._null_keys = null_keys
        self._numbered = 0
        self._made: dict[int, list[ProcessorNode]] = {}
        self._end: dict[int, str] = {}
        """The node behind which each edge begins."""

    def run(self) -> dict[int, tuple[ProcessorNode, ...]]:
        for vertex in self._wired.vertices:
            self._made[vertex.number] = []
            before = tuple(self._end[edge] for edge in vertex.inputs)
            last = self._vertex(vertex, before)
            for number, edge in enumerate(vertex.outputs):
                self._end[edge] = last[number] if len(last) == len(vertex.outputs) else last[0]
        return self._connected()

    def _vertex(self, vertex: Vertex, before: tuple[str, ...]) -> tuple[str, ...]:
        """Make the nodes of a vertex; gives the last ones."""
        of_table = bool(vertex.inputs) and self._wired.shapes[vertex.inputs[0]].is_table
        side = "KTABLE" if of_table else "KSTREAM"
        match vertex.action:
            case Reading(topic=topic):
                return (self._node(vertex, "source", "KSTREAM-SOURCE", topics=(topic.name,)),)
            case GlobalReading(table=table):
                source = self._node(vertex, "source", "KSTREAM-SOURCE", topics=(table.topic.name,))
                return (self._node(vertex, "processor", "KTABLE-SOURCE", (source,), stores=(table.store.name,)),)
            case Writing(topic=topic, mode="repartition"):
                if not self._null_keys.get(topic.name):
                    before = (self._node(vertex, "processor", f"{side}-FILTER", before),)
                return (self._node(vertex, "sink", "KSTREAM-SINK", before, topics=(topic.name,)),)
            case Writing(topic=topic):
                if of_table:
                    before = (self._node(vertex, "processor", "KTABLE-TOSTREAM", before),)
                return (self._node(vertex, "sink", "KSTREAM-SINK", before, topics=(topic.name,)),)
            case Splitting(into=into):
                branch = self._node(vertex, "processor", "KSTREAM-BRANCH", before)
                return tuple(self._node(vertex, "processor", f"KSTREAM-BRANCH-{name}", (branch,)) for name in into)
            case Projection(word=""):
                return before
            case action:
                role = _role(action, side)
                return (
                    (self._node(vertex, "processor", role, before, stores=_stores(self._wired, vertex)),)
                    if role
                    else before
                )

    def _node(
        self,
        vertex: Vertex,
        kind: str,
        role: str,
        before: tuple[str, ...] = (),
        topics: tuple[str, ...] = (),
        stores: tuple[str, ...] = (),
    ) -> str:
        name = f"{role}-{self._numbered:010d}"
        self._numbered += 1
        assert kind in ("source", "processor", "sink")
        node = ProcessorNode(kind, name, topics, stores, tuple(dict.fromkeys(before)), about=_about(vertex))  # type: ignore[arg-type]
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


def _role(action: object, side: str) -> str | None:
    match action:
        case Filter():
            return f"{side}-FILTER"
        case Projection():
            return f"{side}-MAPVALUES"
        case Rekeying():
            return f"{side}-SELECT" if side == "KTABLE" else "KSTREAM-KEY-SELECT"
        case Explosion():
            return "KSTREAM-FLATMAPVALUES"
        case TableJoin(how=how) | GlobalTableJoin(how=how):
            return "KSTREAM-LEFTJOIN" if how == "left" else "KSTREAM-JOIN"
        case Aggregation():
            return f"{side}-AGGREGATE"
        case Tabling(source=source):
            return "KTABLE-SOURCE" if source else "KSTREAM-TOTABLE"
        case Streaming():
            return "KTABLE-TOSTREAM"
        case Merging():
            return "KSTREAM-MERGE"
        case Forking():
            return None
    return None


def _about(vertex: Vertex) -> str:
    """`sales: filter quantity >= 1, topologies/sales.yml:13`."""
    said = " ".join(_said(vertex.action).split())
    if len(said) > _LONGEST:
        said = f"{said[: _LONGEST - 3]}..."
    return f"{vertex.flow}: {said}{', ' if said and vertex.at else ''}{vertex.at}".rstrip(": ")


def _said(action: object) -> str:
    """The step as the user wrote it, with what its templates gave."""
    match action:
        case Filter(predicate=predicate):
            return f"filter {predicate.sql.text}"
        case Projection(columns=columns, word=word):
            return f"{word} {_columns(columns, word)}" if word not in ("", "drop") else word
        case Rekeying(columns=columns):
            return f"key_by {_columns(columns, 'key_by')}"
        case Explosion(array=array):
            return f"explode {array.sql.text}"
        case TableJoin(table=table, how=how):
            return f"{how} join {table}"
        case GlobalTableJoin(table=table, how=how):
            return f"{how} join {table.name}"
        case Aggregation(store=store):
            return f"aggregate into {store.name}"
        case Splitting(into=into):
            return f"branch {', '.join(into)}"
        case Merging():
            return "merge"
        case Tabling(source=False):
            return "to_table"
        case Streaming():
            return "to_stream"
    return ""


def _columns(columns: Mapping[str, Expression], word: str) -> str:
    """Columns with what they are; without those that `with_columns` leaves as they are."""
    told = {name: each.sql.text for name, each in columns.items() if word != "with_columns" or each.sql.text != name}
    return ", ".join(name if name == text else f"{name}: {text}" for name, text in told.items())


def _stores(wired: Wired, vertex: Vertex) -> tuple[str, ...]:
    match vertex.action:
        case Aggregation(store=store) | Tabling(store=store):
            return (store.name,)
        case TableJoin():
            found = wired.shapes[vertex.lookups[0]].store
            return (found.name,) if found else ()
    return ()


def describe(topology: TopologyGraph) -> str:
    """The topology in the format of Kafka Streams' `Topology.describe()`; after `#`, what of the file a node is."""
    parts = {part.number: _subtopology(part.number, part.nodes) for part in topology.subtopologies}
    parts |= {number: _global(number, nodes) for number, nodes in topology.global_nodes.items()}
    return "Topologies:\n " + "".join(f"  {parts[number]}" for number in sorted(parts))


def _subtopology(number: int, nodes: Sequence[ProcessorNode]) -> str:
    by_size = _by_size(nodes)
    return f"Sub-topology: {number}\n" + "".join(f"    {_text(node, by_size)}\n" for node in by_size.values()) + "\n"


def _global(number: int, nodes: Sequence[ProcessorNode]) -> str:
    by_size = _by_size(nodes)
    lines = "".join(f"    {_text(node, by_size)}\n" for node in by_size.values())
    return f"Sub-topology: {number} for global store (will not generate tasks)\n{lines}\n"


def _by_size(nodes: Sequence[ProcessorNode]) -> dict[str, ProcessorNode]:
    """Nodes by name, in Kafka's order: those with more nodes behind them first, then by name."""
    known = {node.name: node for node in nodes}
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            sizes[name] = 1 + sum(size(after) for after in known[name].successors)
        return sizes[name]

    return {node.name: node for node in sorted(nodes, key=lambda node: (-size(node.name), node.name))}


def _text(node: ProcessorNode, order: Mapping[str, ProcessorNode]) -> str:
    after = f"\n      --> {_names(node.successors, order)}"
    before = f"\n      <-- {_names(node.predecessors, order)}"
    about = f"\n      # {node.about}" if node.about else ""
    match node.kind:
        case "source":
            return f"Source: {node.name} (topics: [{', '.join(node.topics)}]){about}{after}"
        case "sink":
            return f"Sink: {node.name} (topic: {node.topics[0]}){about}{before}"
    return f"Processor: {node.name} (stores: [{', '.join(node.stores)}]){about}{after}{before}"


def _names(names: Iterable[str], order: Mapping[str, ProcessorNode]) -> str:
    return ", ".join(name for name in order if name in set(names)) or "none"


def mermaid(topology: TopologyGraph) -> str:
    """The topology as a Mermaid flowchart: a box for each subtopology, topics and stores by name."""
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
