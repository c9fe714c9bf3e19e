"""A checked topology as the graph that is rendered: cut into subtopologies, each laid out in stages."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...runtime.operators.declarations import Sink, Source
from ...runtime.topology import Assignment, GlobalTable, PluginRef, Store, Topic
from ..language.model import AssignmentModel, PluginUse, ProjectModel, TopologyModel
from ..language.operations import CheckedTopology, GlobalTableJoin
from .changes import Changes, null_keys_matter
from .describe import processor_nodes
from .engines import levels
from .graph import ProcessorNode, PythonStage, SubtopologyGraph, TopologyGraph
from .layout import Layout
from .liveness import live_columns
from .wired import GlobalReading, Reading, Vertex, Wired
from .wiring import wire


def build_graph(model: ProjectModel, topology: TopologyModel, checked: CheckedTopology) -> TopologyGraph:
    """The graph of a topology without errors."""
    wired = wire(checked, f"{model.name}-{checked.name}")
    return _Build(model, topology, checked, wired).run()


@dataclass
class _Build:
    model: ProjectModel
    topology: TopologyModel
    checked: CheckedTopology
    wired: Wired
    stores: dict[str, Store] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def run(self) -> TopologyGraph:
        needed = live_columns(self.wired)
        stages = levels(self.wired, needed)
        repartitions = [
            v.action.topic.name for v in self.wired.vertices if isinstance(v.action, Reading) and v.action.repartition
        ]
        null_keys = {topic: null_keys_matter(self.wired, topic) for topic in repartitions}
        nodes = processor_nodes(self.wired, null_keys)
        changes = Changes(self.wired)
        parts: list[SubtopologyGraph] = []
        global_nodes: dict[int, tuple[ProcessorNode, ...]] = {}
        components = self.wired.components()
        names = self._names(components)
        for number, part in enumerate(components):
            of_part = tuple(node for vertex in part for node in nodes[vertex.number])
            if isinstance(part[0].action, GlobalReading):
                global_nodes[number] = of_part
                continue
            layout = Layout(self.wired, part, needed, stages, changes, null_keys.__getitem__, self.stores, self.topics)
            parts.append(self._part(number, names[number], part, layout, of_part))
        global_tables = tuple(table.global_table for table in self.checked.tables.values() if table.global_table)
        for table in global_tables:
            self.topics.setdefault(table.topic.name, table.topic)
            self.stores.setdefault(table.store.name, table.store)
        assignment = self.topology.assignment
        return TopologyGraph(
            project=self.model.name,
            name=self.checked.name,
            version=self.model.version,
            description=self.topology.description,
            file=self.topology.file,
            topics=tuple(self.topics.values()),
            stores=tuple(self.stores.values()),
            global_tables=global_tables,
            subtopologies=tuple(parts),
            assignment=_assignment(assignment),
            restore=_plugin(self.topology.restore, "changelog"),
            repartition_topics=tuple(dict.fromkeys(repartitions)),
            global_nodes=global_nodes,
        )

    def _part(
        self, number: int, name: str, part: Sequence[Vertex], layout: Layout, nodes: tuple[ProcessorNode, ...]
    ) -> SubtopologyGraph:
        stages = layout.stages()
        operators = [node for stage in stages if isinstance(stage, PythonStage) for node in stage.nodes]
        sources = tuple(dict.fromkeys(node.topic.name for node in operators if isinstance(node, Source)))
        sinks = tuple(dict.fromkeys(node.topic.name for node in operators if isinstance(node, Sink)))
        stores = dict.fromkeys(
            store.name for node in operators if isinstance(store := getattr(node, "store", None), Store)
        )
        return SubtopologyGraph(
            number=number,
            name=name,
            function=_identifier(name),
            partitions=max(self.topics[source].partitions for source in sources),
            sources=tuple(self.topics[source] for source in sources),
            sinks=tuple(self.topics[sink] for sink in sinks),
            stores=tuple(self.stores[store] for store in stores),
            global_tables=_global_tables(part),
            stages=stages,
            nodes=nodes,
        )

    def _names(self, components: Sequence[Sequence[Vertex]]) -> dict[int, str]:
        """A name for each part; where a flow goes through several, the one it starts in has its name."""

        def start(number: int) -> int:
            part = components[number]
            return next((v.number for v in part if v.flow not in self.checked.tables), part[0].number)

        return {number: self._name(components[number]) for number in sorted(range(len(components)), key=start)}

    def _name(self, part: Sequence[Vertex]) -> str:
        """That of the first flow (or else table) in it; with what re-keyed it where that has been taken."""
        flows = [vertex.flow for vertex in part if vertex.flow not in self.checked.tables]
        first = [*flows, part[0].flow][0]
        candidates = [first]
        for vertex in part:
            if isinstance(vertex.action, Reading) and vertex.action.repartition:
                owner = vertex.action.topic.name.removeprefix(f"{self.model.name}-{self.checked.name}-")
                candidates.append(owner.removesuffix("-repartition").replace("-", "_"))
        candidates.append(f"{first}_rekeyed")
        candidates += [f"{first}_{number}" for number in range(2, len(self.taken) + 3)]
        name = next(name for name in candidates if name not in self.taken)
        self.taken.add(name)
        return name


def _global_tables(part: Sequence[Vertex]) -> tuple[GlobalTable, ...]:
    found = [vertex.action.table for vertex in part if isinstance(vertex.action, GlobalTableJoin)]
    return tuple({table.name: table for table in found}.values())


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain[:1].isdigit() else plain


def _plugin(use: PluginUse | None, default: str) -> PluginRef:
    if use is None:
        return PluginRef(default)
    options: Mapping[str, object] = use.options.to_python() if use.options else {}
    return PluginRef(use.name.text, options)


def _assignment(model: AssignmentModel) -> Assignment:
    return Assignment(
        assignor=_plugin(model.assignor, Assignment().assignor.name),
        standby_replicas=model.standby_replicas,
        max_warmup_replicas=model.max_warmup_replicas,
        acceptable_recovery_lag=model.acceptable_recovery_lag,
        probing_rebalance_interval_ms=model.probing_rebalance_interval_ms,
        rack_aware_strategy=model.rack_aware_strategy,
        rack_aware_tags=model.rack_aware_tags,
        rack_aware_traffic_cost=model.rack_aware_traffic_cost,
        rack_aware_non_overlap_cost=model.rack_aware_non_overlap_cost,
    )
