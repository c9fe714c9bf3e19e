"""Builds the graph of a checked topology: cuts it into subtopologies and lays them out."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...runtime.engine.operators.operator import Operator
from ...runtime.engine.operators.topics import topics_written
from ...runtime.ir.topology import PluginRef
from ..entries import PluginUse, StoreModel, TableModel
from ..model.project import FlowModel, ProjectModel, TopologyModel
from ..operations.base.context import CheckedTopology, Step
from ..operations.base.site import Declared
from .changes import Changes, with_null_keys
from .connections import GlobalReading, Reading
from .description import Layout, processor_nodes
from .error_policies import step_policies, with_error_policies
from .graph import Note, ProcessorNode, PythonStage, SubtopologyGraph, TopologyGraph, live_columns
from .operation_graph import GraphOperation, OperationGraph, with_unique_edges
from .sharing import sharing
from .wiring import stage_numbers, wire


def build_graph(model: ProjectModel, topology: TopologyModel, checked: CheckedTopology) -> TopologyGraph:
    """The graph of a topology without errors."""
    application = f"{model.name}-{checked.name}"
    wired = with_unique_edges(with_null_keys(wire(checked, application)))
    wired = with_error_policies(wired, topology, model.topics, application)
    return _Build(model, topology, checked, wired).run()


@dataclass
class _Build:
    model: ProjectModel
    topology: TopologyModel
    checked: CheckedTopology
    wired: OperationGraph
    declared: Declared = field(default_factory=Declared)
    taken: set[str] = field(default_factory=set)

    def run(self) -> TopologyGraph:
        needed = live_columns(self.wired)
        groups = sharing(self.wired)
        stages = stage_numbers(self.wired, needed, groups)
        repartitions = [
            v.operation.topic.name
            for v in self.wired.operations
            if isinstance(v.operation, Reading) and v.operation.repartition
        ]
        nodes = processor_nodes(self.wired)
        changes = Changes(self.wired)
        parts: list[SubtopologyGraph] = []
        global_nodes: dict[int, tuple[ProcessorNode, ...]] = {}
        components = self.wired.components()
        names = self._names(components)
        for number, part in enumerate(components):
            of_part = tuple(node for op in part for node in nodes[op.number])
            # A global table has a number, as in Kafka Streams, but no tasks.
            if isinstance(part[0].operation, GlobalReading):
                global_nodes[number] = of_part
                continue
            layout = Layout(self.wired, part, needed, stages, changes, self.declared, groups)
            built = self._part(number, names[number], layout, of_part)
            parts.append(replace(built, step_policies=step_policies(self.wired, part, self.topology)))
        global_tables = tuple(table.global_table for table in self.checked.tables.values() if table.global_table)
        for table in global_tables:
            self.declared.topics.setdefault(table.topic.name, table.topic)
            self.declared.stores.setdefault(table.store.name, table.store)
        assignment = self.topology.assignment.settings
        assignor = _plugin(self.topology.assignment.assignor, assignment.assignor.name)
        return TopologyGraph(
            project=self.model.name,
            name=self.checked.name,
            version=self.model.version,
            description=self.topology.description,
            file=self.topology.file,
            topics=tuple(self.declared.topics.values()),
            stores=tuple(self.declared.stores.values()),
            global_tables=global_tables,
            subtopologies=tuple(parts),
            assignment=replace(assignment, assignor=assignor),
            restore=_plugin(self.topology.restore, "changelog"),
            repartition_topics=tuple(dict.fromkeys(repartitions)),
            global_nodes=global_nodes,
            notes=self._notes(),
            was=self._former_names(),
        )

    def _former_names(self) -> dict[str, tuple[str, ...]]:
        topology = self.topology
        steps = (step for flow in topology.flows.values() for step in flow.steps)
        parts: tuple[StoreModel | TableModel | FlowModel | Step, ...] = (
            *topology.stores.values(),
            *topology.tables.values(),
            *topology.flows.values(),
            *steps,
        )
        names = {part.name.text: tuple(former.text for former in part.was) for part in parts if part.name and part.was}
        return {**names, **self._former_owners(), **self._former_sides(names)}

    def _former_sides(self, former: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Former names of stores of one side of a join, which are named `<flow>-<step or table>`.

        If the flow `a` was `x`, and the step `b` was `y`, the store `a-b` was `a-y`, `x-b` or `x-y`.
        """
        former_sides: dict[str, tuple[str, ...]] = {}
        for store in self.declared.stores:
            flow, dash, part = store.partition("-")
            names = [f"{a}-{b}" for a in (flow, *former.get(flow, ())) for b in (part, *former.get(part, ()))]
            former_sides |= {store: tuple(names[1:])} if dash and len(names) > 1 else {}
        return former_sides

    def _former_owners(self) -> dict[str, tuple[str, ...]]:
        """Former names of topics and subtopologies behind a named step, which are named `<flow>-<step>`.

        The flow may have former names, too.
        """
        former_owners: dict[str, tuple[str, ...]] = {}
        for flow in self.topology.flows.values():
            flows = [flow.name.text, *(former.text for former in flow.was)]
            for name, was in ((step.name.text, step.was) for step in flow.steps if step.name):
                for link in "-_":
                    former = tuple(f"{owner}{link}{old.text}" for owner in flows for old in was)
                    former_owners |= {f"{flow.name.text}{link}{name}": former} if former else {}
        return former_owners

    def _notes(self) -> tuple[Note, ...]:
        """Descriptions of tables and flows, in the order of the file."""
        entries: tuple[TableModel | FlowModel, ...] = (
            *self.topology.tables.values(),
            *self.topology.flows.values(),
        )
        notes = (Note(entry.name.text, entry.name.position.line, entry.description) for entry in entries)
        return tuple(sorted(notes, key=lambda note: note.line))

    def _part(self, number: int, name: str, layout: Layout, nodes: tuple[ProcessorNode, ...]) -> SubtopologyGraph:
        stages = layout.stages()
        nodes_of_stages = (stage.nodes if isinstance(stage, PythonStage) else (stage,) for stage in stages)
        operators = [node for group in nodes_of_stages for node in group if isinstance(node, Operator)]
        sources = dict.fromkeys(topic.name for node in operators for topic in node.topics_read)
        sinks = [topic.name for topic in topics_written(operators)]
        stores = dict.fromkeys(store.name for node in operators for store in node.stores)
        global_tables = {table.name: table for node in operators for table in node.global_tables}
        return SubtopologyGraph(
            number=number,
            name=name,
            function=identifier(name),
            partitions=max(self.declared.topics[source].partitions for source in sources),
            sources=tuple(self.declared.topics[source] for source in sources),
            sinks=tuple(self.declared.topics[sink] for sink in sinks),
            stores=tuple(self.declared.stores[store] for store in stores),
            global_tables=tuple(global_tables.values()),
            stages=stages,
            nodes=nodes,
        )

    def _names(self, components: Sequence[Sequence[GraphOperation]]) -> dict[int, str]:
        """The names of the parts. A flow in several parts gives its name to the part in which it starts."""

        def start(number: int) -> int:
            part = components[number]
            return next((v.number for v in part if v.flow not in self.checked.tables), part[0].number)

        # In the order of their starts, so that the first part of a flow gets its name.
        return {number: self._name(components[number]) for number in sorted(range(len(components)), key=start)}

    def _name(self, part: Sequence[GraphOperation]) -> str:
        """The name of the part's first flow, or else its first table.

        If it is taken, the flow that changed the key of the part's input.
        """
        flows = [op.flow for op in part if op.flow not in self.checked.tables]
        first = [*flows, part[0].flow][0]
        candidates = [first]
        for op in part:
            if isinstance(op.operation, Reading) and op.operation.repartition:
                owner = op.operation.topic.name.removeprefix(f"{self.model.name}-{self.checked.name}-")
                candidates.append(owner.removesuffix("-repartition").replace("-", "_"))
        candidates.append(f"{first}_rekeyed")
        candidates += [f"{first}_{number}" for number in range(2, len(self.taken) + 3)]
        name = next(name for name in candidates if name not in self.taken)
        self.taken.add(name)
        return name


def identifier(name: str) -> str:
    """The name of a subtopology as that of a Python function."""
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain[:1].isdigit() else plain


def _plugin(use: PluginUse | None, default: str) -> PluginRef:
    if use is None:
        return PluginRef(default)
    options: Mapping[str, object] = use.options.to_python() if use.options else {}
    return PluginRef(use.name.text, options)
