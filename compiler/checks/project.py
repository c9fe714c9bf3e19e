"""Checks of a project: topics, tables and flows, former names, modules of plugins."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path

from ...runtime.expressions.types import holds_map
from ...runtime.ir.topology import DEAD_LETTER_COLUMNS, GlobalTable, Topic, dead_letter_topic
from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..entries import TableModel, TopicModel, check_no_processors, declared_store
from ..language.type_checker import TypeChecker
from ..language.udfs import ProjectFunctions, Udfs, report_outside
from ..model.project import FROM_KAFKA, ProjectModel, TopologyModel
from ..model.resolve import Resolution
from ..operations.base.context import Carried, CheckedTable, CheckedTopology, FlowContext, TopologyContext
from ..operations.base.site import UNKNOWN, WINDOW_COLUMNS, Shape
from ..reading.source import Node, ScalarNode, SequenceNode
from .flow import check_collapsed, check_flow, declared_topic
from .target import check_starts

# The whole project: topics, then flows, after the flows that they read.


@dataclass(frozen=True)
class Checked:
    """The result of the checks. `topics`: all topics of the project, declared or only written."""

    topologies: Mapping[str, CheckedTopology]
    topics: Mapping[str, Topic]


def check_project(
    model: ProjectModel,
    resolution: Resolution,
    checker: TypeChecker,
    functions: ProjectFunctions,
    diagnostics: Diagnostics,
    udfs: Udfs,
) -> Checked:
    """Check a resolved project. If the diagnostics have errors, the result is incomplete."""
    return _ProjectCheck(model, resolution, checker, functions, diagnostics, udfs).run()


@dataclass
class _ProjectCheck:
    model: ProjectModel
    resolution: Resolution
    checker: TypeChecker
    functions: ProjectFunctions
    diagnostics: Diagnostics
    udfs: Udfs
    topics: dict[str, Topic] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    contexts: dict[str, TopologyContext] = field(init=False)

    def __post_init__(self) -> None:
        carried = Carried()
        self.contexts = {
            name: TopologyContext(
                f"{self.model.name}-{name}",
                {*topology.tables, *topology.flows},
                topology.stores,
                carried,
                self.shapes,
                complete=topology.lost.isdisjoint(("tables", "flows")),
            )
            for name, topology in self.model.topologies.items()
        }

    def run(self) -> Checked:
        writers = {
            topic.text: f"{self.model.name}-{name}"
            for name, topology in self.model.topologies.items()
            for flow in topology.flows.values()
            for topic in flow.to
            if (name, flow.name.text) not in self.resolution.invalid_sinks
        }
        writers |= dict.fromkeys(
            (topic.name.text for topic in self.model.read_from_kafka), self.model.application(FROM_KAFKA)
        )
        for name, topic in self.model.topics.items():
            self._check_topic(topic)
            self.topics[name] = declared_topic(topic, writers.get(name))
            self.shapes[name] = _topic_shape(topic)
        self._add_letters()
        for name, flow in self.resolution.order:
            self._check_flow(name, flow)
        for name, topology in self.model.topologies.items():
            self._check_tables(name)
            check_starts(topology, self.resolution.names[name].sources, self.diagnostics)
        topologies = {name: self._topology(name, context) for name, context in self.contexts.items()}
        check_collapsed(self.model, self.resolution, topologies, self.diagnostics)
        return Checked(topologies, self.topics)

    def _check_topic(self, topic: TopicModel) -> None:
        for column in topic.key.values():
            if column.type is not None and holds_map(column.type):
                message = f"A key cannot contain a map; '{column.name.text}' has type {column.type}."
                self.diagnostics.add("HW412", column.name.position, message)
        if topic.timestamp is None:
            return
        name, column_model = topic.timestamp.text, topic.value.get(topic.timestamp.text)
        if column_model is None and topic.lost:
            return
        if column_model is None:
            message = f"The topic '{topic.name.text}' has no value column '{name}'."
            self.diagnostics.add("HW519", topic.timestamp.position, message, did_you_mean(name, topic.value))
        elif column_model.type not in (None, "timestamp", "bigint"):
            message = f"The column '{name}' has type {column_model.type}; it must be timestamp or bigint."
            self.diagnostics.add("HW519", topic.timestamp.position, message)

    def _check_tables(self, topology: str) -> None:
        for table in self.model.topologies[topology].tables.values():
            self._table(self.contexts[topology], table)

    def _check_flow(self, topology: str, name: str) -> None:
        context = self.contexts[topology]
        flow = self.model.topologies[topology].flows[name]
        # A flow may read a table of a topic that another flow writes, so tables are checked when their topic is known.
        self._check_tables(topology)
        sources = self.resolution.names[topology].sources.get(name)
        shapes = (
            None if sources is None else [(source, self._source(context, kind, source)) for kind, source in sources]
        )
        flow_context = FlowContext(context, flow.name, self.diagnostics, self.checker, self.functions, self.udfs)
        invalid_sink = (topology, name) in self.resolution.invalid_sinks
        checked = check_flow(flow_context, flow, shapes, self.model.topics, invalid_sink)
        context.flows[name] = checked
        if not invalid_sink:
            self.shapes |= {to.text: _stored_shape(checked.after) for to in flow.to if to.text not in self.shapes}
            self.topics |= {topic.name: topic for topic in checked.to if topic.name not in self.topics}
            self._add_letters()

    def _add_letters(self) -> None:
        """Add topics of dead letters for the topics known so far."""
        for name, letters in self.resolution.letters.items():
            source = self.topics.get(letters.topic)
            if name not in self.topics and source is not None:
                exists = self.model.clusters or letters.topology in self.model.topologies
                application = self.model.application(letters.topology) if exists else None
                self.topics[name] = dead_letter_topic(name, source, application)
                self.shapes[name] = Shape(key={}, value=dict(DEAD_LETTER_COLUMNS), partitions=source.partitions)

    def _source(self, context: TopologyContext, kind: str, name: str) -> Shape:
        shapes = self.shapes if kind == "topic" else context.shapes
        return shapes.get(name, UNKNOWN)

    def _table(self, context: TopologyContext, table: TableModel) -> None:
        """Check a table, if the columns of its topic are known."""
        name = table.name.text
        shape = self.shapes.get(table.topic.text)
        if name in context.shapes or shape is None:
            if shape is None and table.topic.text not in self.resolution.written:
                context.shapes.setdefault(name, UNKNOWN)
            return
        if not shape.key and not shape.open:
            message = f"A table needs a key, and the topic '{table.topic.text}' has no key."
            self.diagnostics.add("HW504", table.topic.position, message, "Give the topic a `key`.")
            context.shapes[name] = UNKNOWN
            return
        store_name = table.store.text if table.store else name
        model = context.stores.get(store_name) if table.store else None
        if table.store is None:
            if name in context.stores:
                message = f"The store '{name}', named after the table, is declared, but the table does not use it."
                self.diagnostics.add("HW309", table.name.position, message, f"Write `store: {name}`.")
            context.default_stores.add(name)
        elif model is not None and model.type not in (None, "key_value"):
            message = f"A table needs a key_value store; '{store_name}' is a {model.type} store."
            hint = f"Write `type: key_value` at '{store_name}', or name another store."
            self.diagnostics.add("HW506", table.store.position, message, hint)
        if model is not None:
            check_no_processors(model, "key_value", self.diagnostics)
        store = declared_store(store_name, model, "key_value", shape.key, shape.value, shape.partitions)
        table_shape = Shape(
            "table",
            shape.key,
            shape.value,
            shape.partitions,
            shape.windowed,
            emit=table.emit,
            store=store,
            open=shape.open,
        )
        context.shapes[name] = table_shape
        topic = self.topics.get(table.topic.text)
        if topic is not None:
            at = table.name.position.line_text
            global_table = GlobalTable(name, topic, store) if table.is_global else None
            context.tables[name] = CheckedTable(name, topic, table_shape, store, at, global_table)

    def _topology(self, name: str, context: TopologyContext) -> CheckedTopology:
        order: Sequence[str] = [flow for topology, flow in self.resolution.order if topology == name]
        model = self.model.topologies[name]
        tables = {table: context.tables[table] for table in model.tables if table in context.tables}
        flows = {flow: context.flows[flow] for flow in order if flow in context.flows}
        stores = frozenset({*model.stores, *context.default_stores})
        return CheckedTopology(name, model.file, tuple(model.flows), tables, flows, self.topics, stores)


def _topic_shape(topic: TopicModel) -> Shape:
    key = {name: column.type for name, column in topic.key.items()}
    return Shape(
        key={**key, **WINDOW_COLUMNS} if topic.windowed else key,
        value={name: column.type for name, column in topic.value.items()},
        partitions=topic.partitions,
        windowed=topic.windowed,
        open=topic.lost,
    )


def _stored_shape(shape: Shape) -> Shape:
    """The shape of an undeclared topic for its readers."""
    return Shape(
        key=shape.key, value=shape.value, partitions=shape.partitions, windowed=shape.windowed, open=shape.open
    )


# Former names (`was`): they must not be in use, and belong to one entry only.

Named = tuple[ScalarNode, tuple[ScalarNode, ...]]
"""A name, and its former names."""


def check_former_names(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Check the former names of topologies and of their parts."""
    topologies = model.topologies.values()
    _check("topology", ((topology.name, topology.was) for topology in topologies), diagnostics)
    for topology in topologies:
        for kind, named in named_in(topology).items():
            _check(kind, named, diagnostics)


def named_in(topology: TopologyModel) -> dict[str, list[Named]]:
    """The names and former names in a topology, by kind."""
    steps = (step for flow in topology.flows.values() for step in flow.steps)
    return {
        "store": [(store.name, store.was) for store in topology.stores.values()],
        "table": [(table.name, table.was) for table in topology.tables.values()],
        "flow": [(flow.name, flow.was) for flow in topology.flows.values()],
        "step": [(step.name, step.was) for step in steps if step.name is not None],
    }


def _check(kind: str, named: Iterable[Named], diagnostics: Diagnostics) -> None:
    """Check the former names of one kind."""
    current = {name.text: (name, was) for name, was in named}
    taken: dict[str, ScalarNode] = {}
    for name, was in current.values():
        for former in was:
            if former.text == name.text:
                message = f"'{name.text}' is the current name of this {kind}, so it cannot be a former one."
                diagnostics.add("HW740", former.position, message, "Remove it.")
            elif former.text in current:
                _in_use(kind, former, current, diagnostics)
            elif (first := taken.setdefault(former.text, name)) is not name:
                message = f"Both '{first.text}' and '{name.text}' have the former name '{former.text}' of a {kind}."
                diagnostics.add("HW741", former.position, message, "Keep it at the one that resumes the old one.")


def _in_use(kind: str, former: ScalarNode, current: Mapping[str, Named], diagnostics: Diagnostics) -> None:
    at = current[former.text][0].position
    message = f"'{former.text}' is the name of another {kind}: {at.file}, line {at.line}."
    hint = f"Remove the former name here if that is another {kind}; otherwise remove that {kind}."
    diagnostics.add("HW740", former.position, message, hint)


# Modules in `plugins:` of headwater.yml: they must exist, be Python, and be importable.

_MAX_BYTES = 500_000
"""A longer module is data written by a program. Only the import checks it."""

_WAY_OUT = "Fix it there, or disable the plugin with -p no:<name>."


def check_modules(
    plugins: Node | None,
    root: Path,
    without: Collection[str],
    failures: Callable[[], AbstractMapping[str, str]] | None,
    diagnostics: Diagnostics,
) -> bool:
    """Report modules that are missing or not Python and, with `failures`, those that cannot be imported.

    `without`: disabled modules. `failures`: imports the modules, and returns the reasons of failed imports. Returns
    whether all modules are valid.
    """
    items = plugins.items if isinstance(plugins, SequenceNode) else ()
    named = [item for item in items if isinstance(item, ScalarNode) and isinstance(item.value, str)]
    modules = [module for module in named if module.text not in without]
    invalid = [module for module in modules if not _is_python(module, root, diagnostics)]
    if invalid:
        return False
    failed = failures() if failures is not None and modules else {}
    for module in modules:
        if module.text in failed:
            message = f"The module '{module.text}' cannot be imported: {failed[module.text]}."
            diagnostics.add("HW604", module.position, message, _WAY_OUT)
    return not failed


def check_disabled(plugins: Node | None, without: Collection[str], diagnostics: Diagnostics) -> None:
    """Report plugins disabled on the command line that do not exist."""
    if not without:
        return
    from ...plugins.manager import BUILTINS, installed_plugins

    items = plugins.items if isinstance(plugins, SequenceNode) else ()
    names = [*BUILTINS, *(entry.name for entry in installed_plugins())]
    names += [item.text for item in items if isinstance(item, ScalarNode)]
    for name in without:
        if name not in names:
            hint = did_you_mean(name, names) or "Remove the option."
            diagnostics.add("HW040", Position.option("-p"), f"There is no plugin '{name}' to disable.", hint)


def _is_python(module: ScalarNode, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether a module of the project parses; otherwise reports it. Installed modules and namespace packages pass."""
    folder = root.joinpath(*module.text.split("."))
    file = next((path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.is_file()), None)
    if file is None:
        top = module.text.partition(".")[0]
        own = (root / top).is_dir() or (root / f"{top}.py").is_file()
        if folder.is_dir() or (not own and PathFinder.find_spec(top) is not None):
            return True
        modules = [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.glob("*/*.py"))]
        hint = did_you_mean(module.text, modules) or "Modules have dotted names: plugins.mine is plugins/mine.py."
        diagnostics.add("HW603", module.position, f"There is no module '{module.text}'.", hint)
        return False
    if is_outside(root, file):
        report_outside(file.relative_to(root).as_posix(), module.position, diagnostics)
        return False
    try:
        if file.stat().st_size <= _MAX_BYTES:
            ast.parse(file.read_bytes(), file.relative_to(root).as_posix())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason: object = error
        if isinstance(error, SyntaxError):
            reason = f"{error.msg} ({error.filename}:{error.lineno})"
        message = f"The module '{module.text}' cannot be read as Python: {reason}."
        diagnostics.add("HW604", module.position, message, _WAY_OUT)
        return False
    return True
