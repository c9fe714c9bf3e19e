"""Builds the model of a project, with implicit stores and topics of dead letters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from ...runtime.ir.topology import Assignment, OnError
from ..diagnostics import Diagnostics, Position
from ..entries import (
    Columns,
    KafkaModel,
    PluginUse,
    Reader,
    StoreModel,
    TableModel,
    TopicModel,
    dead_letter_name,
    flag,
    integer,
    mapping,
    milliseconds,
    named,
    scalar,
    scalars,
    text,
)
from ..operations import STEPS
from ..operations.aggregate import AggregateStep
from ..operations.base.context import Step, StepAction
from ..operations.filter import FilterStep
from ..operations.joins.step import JoinStep
from ..operations.parts.tables import RESULT
from ..operations.reduce import ReduceStep
from ..operations.select import DropStep, SelectStep, WithColumnsStep
from ..operations.suppress import SuppressStep
from ..operations.to_table import ToTableStep
from ..operations.window import WindowStep
from ..reading.load import Definition, LoadedProject
from ..reading.source import NOTES, MappingNode, Node, ScalarNode, SequenceNode
from ..reading.validate import is_lost
from .project import FROM_KAFKA, TO_KAFKA, AssignmentModel, FlowModel, ProjectModel, TopologyModel

# Builds the typed model from the trees of a project's files. Schema violations are already reported, so values of the
# wrong shape are ignored.

_SEED = "seed"
_SECTIONS = ("tables", "stores", "flows")


def build_model(loaded: LoadedProject, diagnostics: Diagnostics) -> ProjectModel:
    """The typed model of a loaded project."""
    builder = _Builder(diagnostics)
    topologies = {topology.name.text: topology for topology in map(builder.topology, loaded.topologies)}
    sources = {f"{loaded.name}-{name}": _sources(topologies[name]) for name in sorted(topologies)}
    topics = {topic.name.text: topic for topic in map(builder.topic, loaded.topics)}
    flows = (flow for topology in topologies.values() for flow in topology.flows.values())
    complete = loaded.complete and not any(flow.lost for flow in flows)
    complete = complete and not any("flows" in topology.lost for topology in topologies.values())
    kafka = mapping(loaded.target, "kafka")
    clusters = tuple(kafka or ())
    registries = tuple(name for name in clusters if mapping(mapping(kafka, name), "registry") is not None)
    model = ProjectModel(loaded.name, loaded.version, topics, topologies, complete, clusters, registries)
    if model.written_to_kafka:
        sources[model.application(TO_KAFKA)] = {topic.name.text for topic in model.written_to_kafka}
    readers = {topic: tuple(sorted(name for name in sources if topic in sources[name])) for topic in topics}
    return replace(model, topics={name: replace(topic, readers=readers[name]) for name, topic in topics.items()})


def _sources(topology: TopologyModel) -> set[str]:
    """The sources of a topology's flows and tables: topics, and its own flows and tables."""
    sources = {source.text for flow in topology.flows.values() for source in flow.reads}
    return sources | {table.topic.text for table in topology.tables.values()}


class _Builder:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._reader = Reader(diagnostics)

    def topic(self, definition: Definition) -> TopicModel:
        node = definition.node
        return TopicModel(
            name=definition.name,
            partitions=integer(node, "partitions", 1),
            key=self._reader.declared(mapping(node, "key")),
            value=self._reader.declared(mapping(node, "value")),
            windowed=flag(node, "windowed", False),
            timestamp=scalar(node, "timestamp"),
            cleanup=text(node, "cleanup", "delete"),
            retention_ms=milliseconds(scalar(node, "retention")),
            seed=mapping(node, "seed"),
            on_error=_on_error(node) or "fail",
            kafka=_kafka(node),
            lost=mapping(node, "value") is None or is_lost(node, "key", "topics", "topic"),
        )

    def topology(self, document: Definition) -> TopologyModel:
        node = document.node
        if document.name.text == _SEED:
            message = "'seed' is not allowed as a topology's name, because seeds are committed under this name."
            self._diagnostics.add("HW209", document.name.position, message, "Rename the topology.")
        return TopologyModel(
            name=document.name,
            description=text(node, "description", ""),
            tables={name.text: self._table(name, body) for name, body in named(node, "tables")},
            stores={name.text: self._store(name, body) for name, body in named(node, "stores")},
            flows={name.text: self._flow(name, body) for name, body in named(node, "flows")},
            assignment=_assignment(mapping(node, "assignment")),
            restore=_plugin(mapping(node, "restore"), "strategy"),
            lost=frozenset(section for section in _SECTIONS if is_lost(node, section, "topology")),
            was=tuple(scalars(node.get("was"))),
        )

    def _table(self, name: ScalarNode, node: MappingNode) -> TableModel:
        topic = scalar(node, "topic") or name
        return TableModel(
            name,
            topic,
            scalar(node, "store"),
            flag(node, "global", False),
            self._reader.emit(node),
            text(node, "description", ""),
            tuple(scalars(node.get("was"))),
        )

    def _store(self, name: ScalarNode, node: MappingNode) -> StoreModel:
        changelog = mapping(node, "changelog")
        retention = scalar(node, "retention")
        type_ = text(node, "type", None)
        return StoreModel(
            name=name,
            type=type_,
            backend=_plugin(node, "backend"),
            retention_ms=milliseconds(retention),
            retention=retention,
            changelog=flag(changelog, "enabled", True) if changelog else True,
            cleanup=text(changelog, "cleanup", None) if changelog else None,
            was=tuple(scalars(node.get("was"))),
            key=self._columns(node, "key"),
            value=self._columns(node, "value"),
        )

    def _columns(self, node: MappingNode, side: str) -> Columns | None:
        """The declared columns of a store; None if it declares none."""
        return self._reader.declared(mapping(node, side)) if side in node else None

    def _flow(self, name: ScalarNode, node: MappingNode) -> FlowModel:
        to, route, lost = _to(node)
        return FlowModel(
            name,
            tuple(scalars(node.get("from"))),
            tuple(self._steps(name, node)),
            to,
            route,
            text(node, "description", ""),
            _on_error(node),
            scalar(node, "on_error"),
            scalar(node, "start"),
            lost=lost,
            was=tuple(scalars(node.get("was"))),
        )

    def _steps(self, flow: ScalarNode, node: MappingNode) -> Iterator[Step]:
        """The steps of a flow. A step that could not be read has no action."""
        steps = node.get("steps")
        if not isinstance(steps, SequenceNode):
            if steps is not None or is_lost(node, "steps", "topology", "flow"):
                yield Step(flow, None, None)
            return
        for item in steps:
            entries = item.entries if isinstance(item, MappingNode) else ()
            words = [entry for entry in entries if entry.name in STEPS]
            if len(words) == 1 and isinstance(item, MappingNode):
                entry = words[0]
                was = tuple(scalars(item.get("was")))
                yield Step(entry.key, scalar(item, "name"), self._action(entry.key, entry.node), was)
            else:
                yield Step(entries[0].key if entries else flow, None, None)

    def _action(self, word: ScalarNode, node: Node) -> StepAction | None:
        return STEPS[word.text].read(node, self._reader)


def _to(node: MappingNode) -> tuple[tuple[ScalarNode, ...], ScalarNode | None, bool]:
    """`to` of a flow: its topics, the expression that chooses one, and whether one of these could not be read."""
    if "to" not in node:
        return (), None, is_lost(node, "to", "topology", "flow")
    routed = mapping(node, "to")
    if routed is None:
        topic = scalar(node, "to")
        return (topic,) if topic is not None else (), None, topic is None
    listed, route = routed.get("topics"), scalar(routed, "route")
    topics = list(scalars(listed))
    lost = not isinstance(listed, SequenceNode) or len(topics) < len(listed.items) or route is None
    return tuple({topic.text: topic for topic in topics}.values()), route, lost


def _kafka(topic: MappingNode) -> KafkaModel | None:
    node = mapping(topic, "kafka")
    if node is None:
        return None
    key = mapping(node, "key")
    return KafkaModel(
        next(entry.key for entry in topic.entries if entry.name == "kafka"),
        scalar(node, "topic"),
        scalar(node, "cluster"),
        _format(node, "key"),
        _format(node, "value"),
        scalar(key, "windows"),
        scalar(key, "window_size"),
        scalar(node, "start"),
        scalar(node, "recomputed"),
        scalar(mapping(node, "start"), "group"),
        scalar(node, "headers"),
    )


def _format(node: MappingNode, side: str) -> PluginUse | None:
    """A format, as its name alone or with options beside it: `{format: avro, subject: orders}`."""
    written = node.get(side)
    if not isinstance(written, MappingNode):
        name = scalar(node, side)
        return None if name is None else PluginUse(name)
    name = scalar(written, "format")
    others = {"format", *NOTES, *(("windows", "window_size") if side == "key" else ())}
    options = tuple(entry for entry in written.entries if entry.name not in others)
    return None if name is None else PluginUse(name, MappingNode(options, written.position))


def _on_error(node: MappingNode) -> OnError | None:
    return cast(OnError | None, text(node, "on_error", None))


def _assignment(node: MappingNode | None) -> AssignmentModel:
    if node is None:
        return AssignmentModel()
    plain = Assignment()
    rack = mapping(node, "rack_aware")
    tags = rack.get("tags") if rack else None
    probing = milliseconds(scalar(node, "probing_rebalance_interval"))
    settings = Assignment(
        standby_replicas=integer(node, "standby_replicas", plain.standby_replicas),
        max_warmup_replicas=integer(node, "max_warmup_replicas", plain.max_warmup_replicas),
        acceptable_recovery_lag=integer(node, "acceptable_recovery_lag", plain.acceptable_recovery_lag),
        probing_rebalance_interval_ms=plain.probing_rebalance_interval_ms if probing is None else probing,
        rack_aware_strategy=text(rack, "strategy", "none") if rack else "none",
        rack_aware_tags=tuple(tag.text for tag in scalars(tags)),
        rack_aware_traffic_cost=integer(rack, "traffic_cost", None),
        rack_aware_non_overlap_cost=integer(rack, "non_overlap_cost", None),
    )
    return AssignmentModel(_plugin(node, "assignor"), settings, scalar(rack, "strategy"))


def _plugin(node: MappingNode | None, key: str) -> PluginUse | None:
    """A plugin, as its name alone or with options: `{name: mine, options: {...}}`."""
    value = node.get(key) if node else None
    if isinstance(value, ScalarNode) and isinstance(value.value, str):
        return PluginUse(value)
    if isinstance(value, MappingNode):
        name = scalar(value, "name") or scalar(value, "type")
        return PluginUse(name, mapping(value, "options")) if name else None
    return None


# Implicit stores: those of a topology that no file declares, found by its steps alone, without types.

Kind = Literal["stream", "stored", "bare"]
"""A stream, a table with its own store, or a table without one."""


@dataclass(frozen=True)
class _Point:
    """The state of a flow between two steps.

    `expires`: its rows have windows, and expire some time after them. Behind a `window` step: the rows of the table
    that the next step makes.
    """

    kind: Kind = "stream"
    expires: bool = False


def implicit_stores(model: TopologyModel) -> Iterator[tuple[str, Position]]:
    """The names and positions of stores that tables, steps or joins need, and that are not named."""
    yield from ((table.name.text, table.name.position) for table in model.tables.values() if table.store is None)
    looked_up = _looked_up(model)
    ends = _ends(model, looked_up)
    for flow in model.flows.values():
        steps = flow.references
        endings = dict.fromkeys(
            step.store_ending for step in steps if step.stores_result and not step.stores and not step.implied
        )
        points = _points(flow, ends)
        by_key = bool(steps) and _by_foreign_key(flow.steps[-1], points[-2])
        needs = bool(steps) and not by_key and (not steps[-1].stores_result or steps[-1].store_ending)
        if flow.name.text in looked_up and needs:
            endings[RESULT if "" in endings or flow.name.text in model.stores else ""] = None
        yield from ((flow.name.text + ending, flow.name.position) for ending in endings)
        for owner, ending in (store for step in steps for store in step.implied):
            yield (owner or flow.name).text + ending, (owner or flow.name).position
        for step, point in zip(flow.steps, points, strict=False):
            if not isinstance(step.action, JoinStep):
                continue
            if _by_foreign_key(step, point):
                label = "-".join([flow.name.text, *([step.name.text] if step.name else [])])
                for ending in step.action.foreign_key_stores(point.kind == "stored", point.expires):
                    yield f"{label}-{ending}", step.word.position
            elif point.kind == "bare":
                named = step.name or step.action.join.table
                yield f"{flow.name.text}-{named.text}", step.word.position


def joined_tables(model: TopologyModel) -> dict[str, list[ScalarNode]]:
    """Flow -> the tables that it joins as a table by key, whose changes reach it, too."""
    ends = _ends(model, _looked_up(model))
    return {
        name: [
            step.action.join.table
            for step, point in zip(flow.steps, _points(flow, ends), strict=False)
            if isinstance(step.action, JoinStep) and point.kind != "stream" and not _by_foreign_key(step, point)
        ]
        for name, flow in model.flows.items()
    }


def _looked_up(model: TopologyModel) -> set[str]:
    """The tables and flows in which joins look up rows."""
    return {table.text for flow in model.flows.values() for step in flow.references for table in step.tables}


def _ends(model: TopologyModel, looked_up: Container[str]) -> Mapping[str, _Point]:
    """The states of tables and flows at their ends. Flows of a branch are missing: they are streams."""
    ends: dict[str, _Point] = dict.fromkeys(model.tables, _Point("stored"))
    before: dict[str, _Point] | None = None
    # Flows are in any order, so a change may need several rounds to reach all flows downstream.
    while ends != before:
        before = dict(ends)
        for name, flow in model.flows.items():
            end = _points(flow, ends)[-1]
            # A table without a store gets one if a join looks up its rows.
            ends[name] = replace(end, kind="stored") if end.kind == "bare" and name in looked_up else end
    return ends


def _points(flow: FlowModel, ends: Mapping[str, _Point]) -> list[_Point]:
    """The states of a flow before each of its steps, and at its end."""
    points = [ends.get(flow.sources[0].text, _Point()) if len(flow.sources) == 1 else _Point()]
    for step in flow.steps:
        points.append(_after(step, points[-1], ends))
    return points


def _by_foreign_key(step: Step, before: _Point) -> bool:
    """Whether a step is a join of tables by a foreign key. `before`: the state before it."""
    return isinstance(step.action, JoinStep) and step.action.join.by is not None and before.kind != "stream"


def _after(step: Step, before: _Point, ends: Mapping[str, _Point]) -> _Point:
    match step.action:
        case ToTableStep():
            return _Point("stored")
        case WindowStep():
            return _Point(expires=True)
        case AggregateStep() | ReduceStep():
            return _Point("stored", before.expires) if step.action.on_close is None else _Point()
        case SuppressStep():
            return _Point() if step.action.wait_ms is None else _Point("bare", before.expires)
        case JoinStep() if _by_foreign_key(step, before):
            return _Point("stored")
        case FilterStep() | SelectStep() | WithColumnsStep() | DropStep() | JoinStep() if before.kind != "stream":
            other = ends.get(step.action.join.table.text, _Point()) if isinstance(step.action, JoinStep) else before
            return _Point("bare", before.expires and other.expires)
        case _:
            return _Point()


# Topics of dead letters. Those of repartition topics are only in the graph, because files cannot name them.


@dataclass(frozen=True)
class Letters:
    """A topic of dead letters: the topology that writes it, and the topic of the failed records."""

    topology: str
    topic: str


def letters_of(model: ProjectModel) -> dict[str, Letters]:
    """The topics of dead letters of a project, by name.

    Those of topics in Kafka exist in all targets, because flows may read them.
    """
    kept = [
        Letters(name, topic)
        for name, topology in model.topologies.items()
        for topic in kept_topics(topology, model.topics)
    ]
    kept += [
        Letters(copying, topic.name.text)
        for copying, topics in ((FROM_KAFKA, model.external_in_kafka), (TO_KAFKA, model.output_in_kafka))
        for topic in topics
        if topic.on_error == "dead_letter"
    ]
    return {dead_letter_name(letters.topology, letters.topic): letters for letters in kept}


def kept_topics(topology: TopologyModel, topics: Mapping[str, TopicModel]) -> tuple[str, ...]:
    """The topics with dead letters in a topology, by `on_error` of the topic, or of a flow that its records reach."""
    tables = [table.topic.text for table in topology.tables.values() if not table.is_global]
    read = dict.fromkeys([*tables, *_upstream_topics(topology, topology.flows)])
    dead_letters = [name for name, flow in topology.flows.items() if flow.on_error == "dead_letter"]
    by_flows = {*_upstream_topics(topology, dead_letters)} if dead_letters else set()
    return tuple(
        name for name in read if name in by_flows or (name in topics and topics[name].on_error == "dead_letter")
    )


def _upstream_topics(topology: TopologyModel, flows: Iterable[str]) -> list[str]:
    """The topics upstream of flows, through tables and other flows of the topology."""
    made = {
        branch.text: flow
        for flow, entry in topology.flows.items()
        for step in entry.references
        for branch in step.flows
    }
    upstream: dict[str, None] = {}
    joined = joined_tables(topology)
    seen: set[str] = set()
    for name in flows:
        todo = [] if name in seen else [name]
        seen.add(name)
        while todo:
            reading = todo.pop()
            for source in (*topology.flows[reading].reads, *joined.get(reading, ())):
                flow = made.get(source.text, source.text)
                if source.text in topology.tables:
                    upstream[topology.tables[source.text].topic.text] = None
                elif flow not in topology.flows:
                    upstream[source.text] = None
                elif flow not in seen:
                    seen.add(flow)
                    todo.append(flow)
    return list(upstream)
