"""Builds the typed model from the trees of a project's files.

Schema violations have been reported already, so values of the wrong shape are ignored silently. Only words reserved for
later and names that cannot be told apart are reported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..diagnostics import Diagnostics
from ..language.entries import Column, PluginUse, StoreModel, TableModel, TopicModel
from ..language.node_values import flag, integer, mapping, milliseconds, named, pairs, scalar, scalars, text
from ..language.reader import Reader
from ..operations import RESERVED, STEPS
from ..operations.base.step import Step, StepAction
from ..reading.load import LoadedProject, TopicDefinition, TopologyDocument
from ..reading.nodes import Mapping, Node, Scalar, Sequence
from ..types import canonical
from .project import AssignmentModel, FlowModel, ProjectModel, TopologyModel

_SEED = "seed"


def build_model(loaded: LoadedProject, diagnostics: Diagnostics) -> ProjectModel:
    """The typed model of a loaded project."""
    builder = _Builder(diagnostics)
    topics = {topic.name.text: topic for topic in map(builder.topic, loaded.topics)}
    topologies = {topology.name.text: topology for topology in map(builder.topology, loaded.topologies)}
    return ProjectModel(loaded.name, loaded.version, topics, topologies)


class _Builder:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._reader = Reader(diagnostics)

    def topic(self, definition: TopicDefinition) -> TopicModel:
        node = definition.node
        on_error = scalar(node, "on_error")
        if on_error is not None and on_error.text in ("skip", "dead_letter"):
            self._reader.later(on_error.position, f"on_error: {on_error.text} is")
        return TopicModel(
            name=definition.name,
            partitions=integer(node, "partitions", 1),
            key=self._declared(node, "key"),
            value=self._declared(node, "value"),
            windowed=flag(node, "windowed", False),
            timestamp=scalar(node, "timestamp"),
            cleanup=text(node, "cleanup", "delete"),
            retention_ms=milliseconds(scalar(node, "retention")),
            seed=mapping(node, "seed"),
            on_error=on_error.text if on_error is not None else "fail",
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
        )

    def _declared(self, node: Mapping, side: str) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        known: dict[str, str] = {}
        for name, type_ in pairs(node, side):
            self._reader.column_name(name)
            twin = known.setdefault(name.text.casefold(), name.text)
            if twin != name.text:
                message = f"'{name.text}' and '{twin}' are the same column to Spark SQL."
                self._diagnostics.add("HW516", name.position, message)
            try:
                columns[name.text] = Column(name, canonical(type_.text))
            except ValueError:
                columns[name.text] = Column(name, None)
        return columns

    def _table(self, name: Scalar, node: Mapping) -> TableModel:
        topic = scalar(node, "topic") or name
        return TableModel(
            name,
            topic,
            scalar(node, "store"),
            flag(node, "global", False),
            self._reader.emit(node),
            text(node, "description", ""),
        )

    def _store(self, name: Scalar, node: Mapping) -> StoreModel:
        changelog = mapping(node, "changelog")
        retention = scalar(node, "retention")
        type_ = text(node, "type", None)
        if type_ == "session":
            position = cast(Scalar, node["type"]).position
            self._reader.later(position, "Session stores are")
        if type_ == "key_value" and retention is not None:
            message = "A key_value store keeps each row until it is deleted; 'retention' is for window stores."
            self._diagnostics.add("HW210", retention.position, message, "Remove it.")
        return StoreModel(
            name=name,
            type=type_,
            backend=_plugin(node, "backend"),
            retention_ms=milliseconds(retention),
            retention=retention,
            changelog=flag(changelog, "enabled", True) if changelog else True,
            cleanup=text(changelog, "cleanup", None) if changelog else None,
        )

    def _flow(self, name: Scalar, node: Mapping) -> FlowModel:
        source = node.get("from")
        sources = tuple(scalars(source))
        steps = node.get("steps")
        items = [item for item in steps if isinstance(item, Mapping)] if isinstance(steps, Sequence) else []
        return FlowModel(name, sources, tuple(self._steps(items)), scalar(node, "to"), text(node, "description", ""))

    def _steps(self, items: list[Mapping]) -> Iterator[Step]:
        for item in items:
            words = [entry for entry in item.entries if entry.name in STEPS or entry.name in RESERVED]
            if len(words) == 1:
                entry = words[0]
                yield Step(entry.key, scalar(item, "name"), self._action(entry.key, entry.node))

    def _action(self, word: Scalar, node: Node) -> StepAction | None:
        if word.text in RESERVED:
            self._reader.later(word.position, f"The step '{word.text}' is")
            return None
        return STEPS[word.text].read(node, self._reader)


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
