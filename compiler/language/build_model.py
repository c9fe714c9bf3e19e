"""From the positioned tree to the typed model.

The schemas have said what is wrong with shapes; so whatever has the wrong shape here is passed over in silence. Only
words reserved for later, and names that cannot be told apart, are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..diagnostics import Diagnostics, Position
from ..reading.load import LoadedProject, TopicDefinition, TopologyDocument
from ..reading.nodes import Mapping, Node, Scalar, Sequence
from ..types import canonical
from .model import (
    Action,
    AggregateStep,
    AssignmentModel,
    BranchCase,
    BranchStep,
    Column,
    ColumnsStep,
    DropStep,
    ExplodeStep,
    FilterStep,
    FlowModel,
    JoinStep,
    LaterStep,
    PluginUse,
    ProjectModel,
    RepartitionStep,
    Step,
    StoreModel,
    TableModel,
    TopicModel,
    TopologyModel,
    ToStreamStep,
    ToTableStep,
    WindowStep,
)
from .node_values import entries, flag, integer, mapping, milliseconds, named, pairs, scalar, scalars, text

_STEP_WORDS = frozenset(
    {
        "filter",
        "select",
        "with_columns",
        "drop",
        "explode",
        "key_by",
        "repartition",
        "join",
        "window",
        "aggregate",
        "to_table",
        "to_stream",
        "branch",
        "process",
        "suppress",
    }
)
_RESERVED = frozenset({"_key", "_timestamp", "_offset", "_partition", "_headers", "window_start", "window_end"})
_SEED = "seed"
_MOST_WINDOWS = 100_000
_OF_THE_PIPE = frozenset({"_kind", "_ts", "_order", "_meta", "_now"})


def build_model(loaded: LoadedProject, diagnostics: Diagnostics) -> ProjectModel:
    """The typed model of a loaded project."""
    builder = _Builder(diagnostics)
    topics = {topic.name.text: topic for topic in map(builder.topic, loaded.topics)}
    topologies = {topology.name.text: topology for topology in map(builder.topology, loaded.topologies)}
    return ProjectModel(loaded.name, loaded.version, topics, topologies)


def check_column_name(name: Scalar, diagnostics: Diagnostics) -> None:
    """Report a column that takes a reserved name."""
    if name.text in _RESERVED:
        diagnostics.add("HW508", name.position, f"The column name '{name.text}' is reserved.", "Rename the column.")
    elif name.text in _OF_THE_PIPE or name.text.startswith(("@", "key.")):
        message = f"The column name '{name.text}' is reserved for the rows on their way through a job."
        diagnostics.add("HW508", name.position, message, "Rename the column.")


class _Builder:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def topic(self, definition: TopicDefinition) -> TopicModel:
        node = definition.node
        on_error = scalar(node, "on_error")
        if on_error is not None and on_error.text in ("skip", "dead_letter"):
            self._later(on_error.position, f"on_error: {on_error.text} is")
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
            check_column_name(name, self._diagnostics)
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
        return TableModel(name, topic, scalar(node, "store"), flag(node, "global", False), self._emit(node))

    def _store(self, name: Scalar, node: Mapping) -> StoreModel:
        changelog = mapping(node, "changelog")
        retention = scalar(node, "retention")
        type_ = text(node, "type", None)
        if type_ == "session":
            position = cast(Scalar, node["type"]).position
            self._later(position, "Session stores are")
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
        return FlowModel(name, sources, tuple(self._steps(items)), scalar(node, "to"))

    def _steps(self, items: list[Mapping]) -> Iterator[Step]:
        for item in items:
            words = [entry for entry in item.entries if entry.name in _STEP_WORDS]
            if len(words) == 1:
                entry = words[0]
                yield Step(entry.key, scalar(item, "name"), self._action(entry.key, entry.node))

    def _action(self, word: Scalar, node: Node) -> Action | None:
        match word.text, node:
            case "filter", Scalar():
                return FilterStep(node)
            case "select" | "with_columns" | "key_by", Mapping():
                kind = word.text
                columns = tuple(entries(node))
                for name, _ in columns:
                    check_column_name(name, self._diagnostics)
                return ColumnsStep(kind, columns) if columns else None
            case "drop", _:
                return DropStep(tuple(scalars(node)))
            case "explode", Mapping():
                for name, array in entries(node):
                    check_column_name(name, self._diagnostics)
                    return ExplodeStep(name, array)
            case "repartition", Mapping():
                return RepartitionStep(integer(node, "partitions", None))
            case "repartition", Scalar(value=None, broken=False):
                return RepartitionStep(None)
            case "join", Mapping():
                return self._join(node)
            case "window", Mapping():
                return self._window(node)
            case "aggregate", Mapping():
                columns = tuple(pairs(node, "values"))
                for name, _ in columns:
                    check_column_name(name, self._diagnostics)
                return AggregateStep(scalar(node, "store"), self._emit(node), columns) if columns else None
            case "to_table", _:
                options = node if isinstance(node, Mapping) else None
                return ToTableStep(scalar(options, "store"), self._emit(options))
            case "to_stream", _:
                return ToStreamStep()
            case "branch", Sequence():
                return _branch(node)
            case ("process" | "suppress") as later, _:
                self._later(word.position, f"The step '{later}' is")
                return LaterStep()
        return None

    def _join(self, node: Mapping) -> Action | None:
        if "stream" in node:
            self._later(node.key_position("stream"), "The join of two streams is")
            return LaterStep()
        table = scalar(node, "table")
        if table is None:
            return None
        how = text(node, "type", "inner")
        by = mapping(node, "by")
        values = tuple(pairs(node, "values")) if "values" in node else None
        for name, _ in values or ():
            check_column_name(name, self._diagnostics)
        return JoinStep(
            table,
            "left" if how == "left" else "inner",
            None if by is None else tuple(entries(by)),
            node.key_position("by") if by is not None else None,
            values,
        )

    def _window(self, node: Mapping) -> Action | None:
        for kind in ("sliding", "session"):
            if kind in node:
                self._later(node.key_position(kind), f"The {kind} window is")
                return LaterStep()
        grace = milliseconds(scalar(node, "grace")) or 0
        size_node = scalar(node, "tumbling") or scalar(node, "hopping")
        size = milliseconds(size_node)
        if size is None or size_node is None:
            return None
        advance_node = scalar(node, "advance")
        advance = milliseconds(advance_node) if advance_node is not None else size
        if advance is None:
            return None
        if size == 0:
            self._diagnostics.add("HW515", size_node.position, "A window of no size holds no record.")
            return None
        if advance_node is not None and not 0 < advance <= size:
            message = f"The advance ({advance_node.text}) must be above zero and at most the size ({size_node.text})."
            self._diagnostics.add("HW515", advance_node.position, message)
            return None
        if advance_node is not None and size > advance * _MOST_WINDOWS:
            message = f"Each record would be in {size // advance:,} windows; the most is {_MOST_WINDOWS:,}."
            self._diagnostics.add("HW515", advance_node.position, message)
            return None
        return WindowStep(size, advance, grace)

    def _emit(self, node: Mapping | None) -> str:
        emit = scalar(node, "emit")
        if emit is None:
            return "per_epoch"
        if emit.text == "on_close":
            self._later(emit.position, "Emission at the close of a window is")
            return "per_epoch"
        return emit.text

    def _later(self, position: Position, what: str) -> None:
        self._diagnostics.add("HW502", position, f"{what} not there yet; the word is reserved for it.")


def _branch(node: Sequence) -> BranchStep | None:
    cases = []
    for item in node:
        if isinstance(item, Mapping):
            flow = scalar(item, "flow")
            if flow is not None:
                cases.append(BranchCase(flow, scalar(item, "when")))
    return BranchStep(tuple(cases)) if cases else None


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
    """A plugin named by itself, or with options: `{name: mine, options: {...}}`."""
    found = node.get(key) if node else None
    if isinstance(found, Scalar) and isinstance(found.value, str):
        return PluginUse(found)
    if isinstance(found, Mapping):
        name = scalar(found, "name") or scalar(found, "type")
        return PluginUse(name, mapping(found, "options")) if name else None
    return None
