"""Builds the typed model from the trees of a project's files.

Schema violations have been reported already, so values of the wrong shape are ignored silently. Only names that cannot
be told apart are reported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from ...runtime.topology import OnError
from ..diagnostics import Diagnostics
from ..entries.models import Columns, PluginUse, StoreModel, TableModel, TopicModel
from ..entries.node_values import flag, integer, mapping, milliseconds, named, scalar, scalars, text
from ..entries.reader import Reader
from ..operations import STEPS
from ..operations.base.step import Step, StepAction
from ..reading.load import LoadedProject, TopicDefinition, TopologyDocument
from ..reading.nodes import Mapping, Node, Scalar, Sequence
from ..reading.validate import is_lost
from .project import AssignmentModel, FlowModel, ProjectModel, TopologyModel

_SEED = "seed"
_SECTIONS = ("tables", "stores", "flows")


def build_model(loaded: LoadedProject, diagnostics: Diagnostics) -> ProjectModel:
    """The typed model of a loaded project."""
    builder = _Builder(diagnostics)
    topologies = {topology.name.text: topology for topology in map(builder.topology, loaded.topologies)}
    read = {f"{loaded.name}-{name}": _read(topologies[name]) for name in sorted(topologies)}
    topics = {
        topic.name.text: replace(topic, readers=tuple(name for name in read if topic.name.text in read[name]))
        for topic in map(builder.topic, loaded.topics)
    }
    every = (flow for topology in topologies.values() for flow in topology.flows.values())
    complete = loaded.complete and not any(flow.lost for flow in every)
    complete = complete and not any("flows" in topology.lost for topology in topologies.values())
    return ProjectModel(loaded.name, loaded.version, topics, topologies, complete)


def _read(topology: TopologyModel) -> set[str]:
    """What a topology's flows and tables read: topics, and names of its own, which no topic has."""
    sources = {source.text for flow in topology.flows.values() for source in flow.reads}
    return sources | {table.topic.text for table in topology.tables.values()}


class _Builder:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._reader = Reader(diagnostics)

    def topic(self, definition: TopicDefinition) -> TopicModel:
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
            lost=mapping(node, "value") is None or is_lost(node, "key", "topics", "topic"),
        )

    def topology(self, document: TopologyDocument) -> TopologyModel:
        node = document.node
        if document.name.text == _SEED:
            message = "'seed' is not allowed as a topology's name: the project's seeds are committed under it."
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

    def _table(self, name: Scalar, node: Mapping) -> TableModel:
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

    def _store(self, name: Scalar, node: Mapping) -> StoreModel:
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

    def _columns(self, node: Mapping, side: str) -> Columns | None:
        """The columns that a store declares; None if it does not."""
        return self._reader.declared(mapping(node, side)) if side in node else None

    def _flow(self, name: Scalar, node: Mapping) -> FlowModel:
        to = scalar(node, "to")
        return FlowModel(
            name,
            tuple(scalars(node.get("from"))),
            tuple(self._steps(name, node)),
            to,
            text(node, "description", ""),
            _on_error(node),
            scalar(node, "on_error"),
            scalar(node, "start"),
            lost=to is None and ("to" in node or is_lost(node, "to", "topology", "flow")),
            was=tuple(scalars(node.get("was"))),
        )

    def _steps(self, flow: Scalar, node: Mapping) -> Iterator[Step]:
        """The steps of a flow. One that could not be read has no action: nothing is known behind it."""
        steps = node.get("steps")
        if not isinstance(steps, Sequence):
            if steps is not None or is_lost(node, "steps", "topology", "flow"):
                yield Step(flow, None, None)
            return
        for item in steps:
            entries = item.entries if isinstance(item, Mapping) else ()
            words = [entry for entry in entries if entry.name in STEPS]
            if len(words) == 1 and isinstance(item, Mapping):
                entry = words[0]
                was = tuple(scalars(item.get("was")))
                yield Step(entry.key, scalar(item, "name"), self._action(entry.key, entry.node), was)
            else:
                yield Step(entries[0].key if entries else flow, None, None)

    def _action(self, word: Scalar, node: Node) -> StepAction | None:
        return STEPS[word.text].read(node, self._reader)


def _on_error(node: Mapping) -> OnError | None:
    return cast(OnError | None, text(node, "on_error", None))


def _assignment(node: Mapping | None) -> AssignmentModel:
    if node is None:
        return AssignmentModel()
    plain = AssignmentModel()
    rack = mapping(node, "rack_aware")
    tags = rack.get("tags") if rack else None
    probing = milliseconds(scalar(node, "probing_rebalance_interval"))
    return AssignmentModel(
        assignor=_plugin(node, "assignor"),
        standby_replicas=integer(node, "standby_replicas", plain.standby_replicas),
        max_warmup_replicas=integer(node, "max_warmup_replicas", plain.max_warmup_replicas),
        acceptable_recovery_lag=integer(node, "acceptable_recovery_lag", plain.acceptable_recovery_lag),
        probing_rebalance_interval_ms=plain.probing_rebalance_interval_ms if probing is None else probing,
        rack_aware_strategy=text(rack, "strategy", "none") if rack else "none",
        rack_aware_tags=tuple(tag.text for tag in scalars(tags)),
        rack_aware_traffic_cost=integer(rack, "traffic_cost", None),
        rack_aware_non_overlap_cost=integer(rack, "non_overlap_cost", None),
        rack_aware=scalar(rack, "strategy") if rack else None,
    )


def _plugin(node: Mapping | None, key: str) -> PluginUse | None:
    """A plugin by its name alone, or with options: `{name: mine, options: {...}}`."""
    found = node.get(key) if node else None
    if isinstance(found, Scalar) and isinstance(found.value, str):
        return PluginUse(found)
    if isinstance(found, Mapping):
        name = scalar(found, "name") or scalar(found, "type")
        return PluginUse(name, mapping(found, "options")) if name else None
    return None
