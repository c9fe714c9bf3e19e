"""Checks of what a project declares: names, former names, modules of plugins."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from ...runtime.ir.topology import DEAD_LETTER_COLUMNS, GlobalTable, Topic, dead_letter_topic
from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..entries import TableModel, TopicModel, check_no_processors, declared_store
from ..language.type_checker import TypeChecker
from ..language.udfs import ProjectFunctions, Udfs, report_outside
from ..model.project import ProjectModel, TopologyModel
from ..model.resolve import Resolution
from ..operations.base.context import Carried, CheckedTable, CheckedTopology, FlowContext, TopologyContext
from ..operations.base.site import UNKNOWN, WINDOW_COLUMNS, Shape
from ..reading.source import Node, ScalarNode, SequenceNode
from ..types import holds_map
from .flow import check_collapsed, check_flow, declared_topic
from .target import check_starts

# Checks the whole project: topics, then every flow after those that it reads.


@dataclass(frozen=True)
class Checked:
    """The result of the checks. `topics`: all topics of the project, declared or not, with their columns."""

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


class _ProjectCheck:
    def __init__(
        self,
        model: ProjectModel,
        resolution: Resolution,
        checker: TypeChecker,
        functions: ProjectFunctions,
        diagnostics: Diagnostics,
        udfs: Udfs,
    ) -> None:
        self._model = model
        self._resolution = resolution
        self._checker = checker
        self._functions = functions
        self._diagnostics = diagnostics
        self._udfs = udfs
        self._topics: dict[str, Topic] = {}
        self._shapes: dict[str, Shape] = {}
        carried = Carried()
        self._contexts = {
            name: TopologyContext(
                f"{model.name}-{name}",
                {*topology.tables, *topology.flows},
                topology.stores,
                carried,
                self._shapes,
                complete=topology.lost.isdisjoint(("tables", "flows")),
            )
            for name, topology in model.topologies.items()
        }

    def run(self) -> Checked:
        writers = {
            flow.to.text: f"{self._model.name}-{name}"
            for name, topology in self._model.topologies.items()
            for flow in topology.flows.values()
            if flow.to is not None and (name, flow.name.text) not in self._resolution.refused
        }
        for name, topic in self._model.topics.items():
            self._check_topic(topic)
            self._topics[name] = declared_topic(topic, writers.get(name))
            self._shapes[name] = _topic_shape(topic)
        self._add_letters()
        for name, flow in self._resolution.order:
            self._check_flow(name, flow)
        for name, topology in self._model.topologies.items():
            self._check_tables(name)
            check_starts(topology, self._resolution.names[name].sources, self._diagnostics)
        topologies = {name: self._topology(name, context) for name, context in self._contexts.items()}
        check_collapsed(self._model, self._resolution, topologies, self._diagnostics)
        return Checked(topologies, self._topics)

    def _check_topic(self, topic: TopicModel) -> None:
        for column in topic.key.values():
            if column.type is not None and holds_map(column.type):
                message = f"A key cannot hold a map; '{column.name.text}' is of type {column.type}."
                self._diagnostics.add("HW412", column.name.position, message)
        if topic.timestamp is None:
            return
        name, found = topic.timestamp.text, topic.value.get(topic.timestamp.text)
        if found is None and topic.lost:
            return
        if found is None:
            message = f"The topic '{topic.name.text}' has no value column '{name}'."
            self._diagnostics.add("HW519", topic.timestamp.position, message, did_you_mean(name, topic.value))
        elif found.type not in (None, "timestamp", "bigint"):
            message = f"The column '{name}' is of type {found.type}, not a timestamp."
            self._diagnostics.add("HW519", topic.timestamp.position, message)

    def _check_tables(self, topology: str) -> None:
        for table in self._model.topologies[topology].tables.values():
            self._table(self._contexts[topology], table)

    def _check_flow(self, topology: str, name: str) -> None:
        context = self._contexts[topology]
        flow = self._model.topologies[topology].flows[name]
        # A flow may read a table whose topic another flow writes, so tables are checked as soon as their topics are
        # known.
        self._check_tables(topology)
        sources = self._resolution.names[topology].sources.get(name)
        shapes = (
            None if sources is None else [(source, self._source(context, kind, source)) for kind, source in sources]
        )
        flow_context = FlowContext(context, flow.name, self._diagnostics, self._checker, self._functions, self._udfs)
        declared = self._model.topics.get(flow.to.text) if flow.to else None
        refused = (topology, name) in self._resolution.refused
        checked = check_flow(flow_context, flow, shapes, declared, refused)
        context.flows[name] = checked
        if flow.to is not None and declared is None and not refused:
            self._shapes[flow.to.text] = _stored_shape(checked.after)
            if checked.to is not None:
                self._topics[flow.to.text] = checked.to
                self._add_letters()

    def _add_letters(self) -> None:
        """Add the topics of dead letters of topics that are known by now."""
        for name, letters in self._resolution.letters.items():
            source = self._topics.get(letters.topic)
            if name not in self._topics and source is not None:
                application = self._contexts[letters.topology].application
                self._topics[name] = dead_letter_topic(name, source, application)
                self._shapes[name] = Shape(key={}, value=dict(DEAD_LETTER_COLUMNS), partitions=source.partitions)

    def _source(self, context: TopologyContext, kind: str, name: str) -> Shape:
        shapes = self._shapes if kind == "topic" else context.shapes
        return shapes.get(name, UNKNOWN)

    def _table(self, context: TopologyContext, table: TableModel) -> None:
        """Check a table, as soon as the columns of its topic are known."""
        name = table.name.text
        shape = self._shapes.get(table.topic.text)
        if name in context.shapes or shape is None:
            if shape is None and table.topic.text not in self._resolution.written:
                context.shapes.setdefault(name, UNKNOWN)
            return
        if not shape.key and not shape.open:
            message = f"A table needs a key, and the topic '{table.topic.text}' has none."
            self._diagnostics.add("HW504", table.topic.position, message, "Give the topic a `key`.")
            context.shapes[name] = UNKNOWN
            return
        store_name = table.store.text if table.store else name
        model = context.stores.get(store_name) if table.store else None
        if table.store is None:
            if name in context.stores:
                message = f"The store '{name}', named after the table, is declared, but the table does not name it."
                self._diagnostics.add("HW309", table.name.position, message, f"Write `store: {name}`.")
            context.default_stores.add(name)
        elif model is not None and model.type not in (None, "key_value"):
            message = f"A table needs a key_value store; '{store_name}' is a {model.type} store."
            hint = f"Write `type: key_value` at '{store_name}', or name another store."
            self._diagnostics.add("HW506", table.store.position, message, hint)
        if model is not None:
            check_no_processors(model, "key_value", self._diagnostics)
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
        topic = self._topics.get(table.topic.text)
        if topic is not None:
            place = table.name.position.line_text
            found = GlobalTable(name, topic, store) if table.is_global else None
            context.tables[name] = CheckedTable(name, topic, table_shape, store, place, found)

    def _topology(self, name: str, context: TopologyContext) -> CheckedTopology:
        order: Sequence[str] = [flow for topology, flow in self._resolution.order if topology == name]
        model = self._model.topologies[name]
        tables = {table: context.tables[table] for table in model.tables if table in context.tables}
        flows = {flow: context.flows[flow] for flow in order if flow in context.flows}
        stores = frozenset({*model.stores, *context.default_stores})
        return CheckedTopology(name, model.file, tuple(model.flows), tables, flows, self._topics, stores)


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
    """The shape that readers of an undeclared topic get."""
    return Shape(
        key=shape.key, value=shape.value, partitions=shape.partitions, windowed=shape.windowed, open=shape.open
    )


# Checks `was`: a former name is nobody's name now, and one thing's only.

Named = tuple[ScalarNode, tuple[ScalarNode, ...]]
"""A name, and the names before it."""


def check_former_names(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Check the former names of all that may have some."""
    topologies = model.topologies.values()
    _check("topology", ((each.name, each.was) for each in topologies), diagnostics)
    for topology in topologies:
        for kind, named in named_in(topology).items():
            _check(kind, named, diagnostics)


def named_in(topology: TopologyModel) -> dict[str, list[Named]]:
    """What has a name in a topology, by kind, each with the names before it."""
    steps = (step for flow in topology.flows.values() for step in flow.steps)
    return {
        "store": [(each.name, each.was) for each in topology.stores.values()],
        "table": [(each.name, each.was) for each in topology.tables.values()],
        "flow": [(each.name, each.was) for each in topology.flows.values()],
        "step": [(each.name, each.was) for each in steps if each.name is not None],
    }


def _check(kind: str, named: Iterable[Named], diagnostics: Diagnostics) -> None:
    """Check those of one kind, of which no two have one name."""
    known = {name.text: (name, was) for name, was in named}
    taken: dict[str, ScalarNode] = {}
    for name, was in known.values():
        for former in was:
            if former.text == name.text:
                message = f"The {kind} '{name.text}' cannot have been '{name.text}' before: that is its name."
                diagnostics.add("HW740", former.position, message, "Remove it.")
            elif former.text in known:
                _in_use(kind, former, known, diagnostics)
            elif (first := taken.setdefault(former.text, name)) is not name:
                message = f"Both '{first.text}' and '{name.text}' are said to have been the {kind} '{former.text}'."
                diagnostics.add("HW741", former.position, message, "Leave it at the one that goes on.")


def _in_use(kind: str, former: ScalarNode, known: Mapping[str, Named], diagnostics: Diagnostics) -> None:
    at = known[former.text][0].position
    message = f"There is a {kind} '{former.text}' now: {at.file}, line {at.line}."
    hint = f"Remove the name here if that {kind} is another one; else remove that {kind}."
    diagnostics.add("HW740", former.position, message, hint)


# Checks the modules that `plugins:` of headwater.yml names: they exist, are Python, and can be imported.

_MOST_BYTES = 500_000
"""A longer module is data written by a program; only the import checks it."""

_WAY_OUT = "Fix it there, or leave the plugin out with -p no:<name>."


def check_modules(
    plugins: Node | None,
    root: Path,
    without: Collection[str],
    failures: Callable[[], AbstractMapping[str, str]] | None,
    diagnostics: Diagnostics,
) -> bool:
    """Report modules that are missing or are no Python and, with `failures`, those that cannot be imported.

    `without`: modules that are left out. Returns whether all are fine. Without `failures` nothing is imported.
    """
    items = plugins.items if isinstance(plugins, SequenceNode) else ()
    named = [each for each in items if isinstance(each, ScalarNode) and isinstance(each.value, str)]
    named = [each for each in named if each.text not in without]
    faulty = [each for each in named if not _is_python(each, root, diagnostics)]
    if faulty:
        return False
    failed = failures() if failures is not None and named else {}
    for each in named:
        if each.text in failed:
            message = f"The module '{each.text}' cannot be imported: {failed[each.text]}."
            diagnostics.add("HW604", each.position, message, _WAY_OUT)
    return not failed


def check_left_out(plugins: Node | None, without: Collection[str], diagnostics: Diagnostics) -> None:
    """Report plugins that the command line leaves out, and that nobody would have used."""
    if not without:
        return
    from ...plugins.manager import BUILTINS, ENTRY_POINTS

    items = plugins.items if isinstance(plugins, SequenceNode) else ()
    known = [*BUILTINS, *(each.name for each in entry_points(group=ENTRY_POINTS))]
    known += [each.text for each in items if isinstance(each, ScalarNode)]
    for name in without:
        if name not in known:
            hint = did_you_mean(name, known) or "Leave the option out."
            diagnostics.add("HW040", Position.option("-p"), f"There is no plugin '{name}' to leave out.", hint)


def _is_python(module: ScalarNode, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether a module of the project parses; reports it if not. Installed modules and packages without a file pass."""
    place = root.joinpath(*module.text.split("."))
    file = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    if file is None:
        top = module.text.partition(".")[0]
        own = (root / top).is_dir() or (root / f"{top}.py").is_file()
        if place.is_dir() or (not own and PathFinder.find_spec(top) is not None):
            return True
        known = [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.glob("*/*.py"))]
        hint = did_you_mean(module.text, known) or "Modules have dotted names: plugins.mine is plugins/mine.py."
        diagnostics.add("HW603", module.position, f"There is no module '{module.text}'.", hint)
        return False
    if is_outside(root, file):
        report_outside(file.relative_to(root).as_posix(), module.position, diagnostics)
        return False
    try:
        if file.stat().st_size <= _MOST_BYTES:
            ast.parse(file.read_bytes(), file.relative_to(root).as_posix())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason: object = error
        if isinstance(error, SyntaxError):
            reason = f"{error.msg} ({error.filename}:{error.lineno})"
        message = f"The module '{module.text}' cannot be read as Python: {reason}."
        diagnostics.add("HW604", module.position, message, _WAY_OUT)
        return False
    return True
