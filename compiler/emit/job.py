"""Generates `job.py`: a topology's topics, stores and subtopologies as PySpark code.

All text is computed here; the template only puts it in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...runtime.operators.declarations import Flow
from ...runtime.stages.building import Pipe, untouched
from ...runtime.topology import Topology
from ..operations.base.site import SqlStep
from ..topology.graph import PythonStage, SubtopologyGraph, TopologyGraph
from .declarations import Declarations
from .names import Constants, Declared, function_names
from .python import Code, Expression, Items, call, one_a_line, quoted, statement, tuple_of
from .template import content_hash, docstring, import_from, render, title


@dataclass(frozen=True)
class FunctionText:
    """One subtopology: its decorator, name, docstring and indented statements."""

    registered: str
    name: str
    docstring: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class JobTemplate:
    """The input of `job.py.j2`: finished lines of code."""

    docstring: str
    imports: str
    file: str
    constants: tuple[str, ...]
    functions: tuple[FunctionText, ...]
    topology: str


def render_job(graph: TopologyGraph) -> str:
    """The text of `job.py`. The same graph gives the same text."""
    constants = Constants(graph)
    writer = Declarations(constants, graph.file)
    names = function_names([part.function for part in graph.subtopologies], ("subtopology",))
    everything: tuple[Declared, ...] = (*graph.topics, *graph.stores, *graph.global_tables)
    declared = {constants[each]: each for each in everything}
    lines = tuple(statement(f"{name} = ", writer.call(each)) for name, each in declared.items())
    functions = tuple(_function(part, name, writer) for part, name in zip(graph.subtopologies, names, strict=True))
    topology = statement("TOPOLOGY = ", _topology(graph, names, writer))
    template = JobTemplate(
        docstring=docstring(
            title(graph),
            graph.description,
            f"Made by `headwater compile` from {graph.file}: change that file, not this one.",
        ),
        imports=import_from("headwater.runtime", writer.classes | {"Pipe", "subtopology"}),
        file=f"FILE = {quoted(graph.file)}",
        constants=lines,
        functions=functions,
        topology=topology,
    )
    return render("job.py.j2", template)


def _topology(graph: TopologyGraph, names: list[str], writer: Declarations) -> Items:
    topology = Topology(
        project=graph.project,
        name=graph.name,
        version=graph.version,
        content_hash=content_hash(graph),
        subtopologies=(),
        assignment=graph.assignment,
        restore=graph.restore,
    )
    return writer.call(topology, subtopologies=tuple_of(Code(name) for name in names))


def _function(part: SubtopologyGraph, name: str, writer: Declarations) -> FunctionText:
    stages = _Stages(writer)
    last = len(part.stages) - 1
    statements = tuple(
        statement("return " if number == last else "rows = ", stages.call(stage), indent=4)
        for number, stage in enumerate(part.stages)
    )
    registered = f"@subtopology({part.number}, {quoted(part.name)}, file=FILE)"
    return FunctionText(registered, name, _summary(part), statements)


def _summary(part: SubtopologyGraph) -> str:
    """`4 tasks: flights -> hourly_delays.`, wrapped, with the stores below."""
    tasks = f"{part.partitions} task{'s' if part.partitions != 1 else ''}"
    read = ", ".join(topic.name for topic in part.sources)
    written = ", ".join(topic.name for topic in part.sinks) or "nothing"
    stores = f"Stores: {', '.join(store.name for store in part.stores)}." if part.stores else ""
    return docstring(f"{tasks}: {read} -> {written}.", stores, indent=4)


class _Stages:
    """Writes the calls of a subtopology's pipe. A pipe of its own tells it which arguments need not be written."""

    def __init__(self, writer: Declarations) -> None:
        self._writer = writer
        self._pipe = Pipe(None, _Nothing())

    def call(self, stage: PythonStage | SqlStep) -> Items:
        return self._process(stage) if isinstance(stage, PythonStage) else self._sql(stage)

    def _process(self, stage: PythonStage) -> Items:
        goes_on = untouched(stage.nodes, stage.reads)
        edges = {"reads": _beyond(self._pipe.edges, stage.reads), "yields": _beyond(goes_on, stage.yields)}
        edges = {name: flows for name, flows in edges.items() if flows}
        self._pipe = self._pipe.process(*stage.nodes, **edges)
        nodes = [self._writer.call(node) for node in stage.nodes]
        named = {name: self._writer.of(flows) for name, flows in edges.items()}
        return one_a_line(call("rows.process", *nodes, **named))

    def _sql(self, step: SqlStep) -> Items:
        plain, named = _arguments(step)
        self._pipe = getattr(self._pipe, step.kind)(*plain, **named)
        arguments: dict[str, Expression] = {name: self._writer.of(value) for name, value in named.items()}
        if step.at:
            arguments["at"] = self._writer.place(step.at)
        return call(f"rows.{step.kind}", *map(self._writer.of, plain), **arguments)


def _beyond(known: Mapping[str, Flow | None], flows: Mapping[str, Flow]) -> dict[str, Flow]:
    """The flows that the pipe does not know already. Each edge that the pipe knows must be among them."""
    assert known.keys() <= flows.keys(), f"{set(known) - set(flows)} would reach a stage that does not read it"
    return {name: flow for name, flow in flows.items() if known.get(name) != flow}


class _Nothing:
    """An engine for a pipe that is used only for its edges."""

    def process(self, *_: object) -> None:
        """Do nothing."""

    def sql(self, *_: object) -> None:
        """Do nothing."""


def _arguments(step: SqlStep) -> tuple[list[Any], dict[str, Any]]:
    """The positional and named arguments of the `Pipe` method, without those that are defaults."""
    plain: list[Any]
    named: dict[str, Any] = {}
    match step.kind:
        case "where":
            plain = [step.condition or ""]
            named["table"] = step.table or None
        case "key_by":
            plain = [step.key]
        case "branch":
            plain = [step.branches]
            named["into"] = None if step.into == tuple(edge for edge, _ in step.branches) else step.into
        case "fork":
            plain = [step.into]
        case "merge":
            plain = [step.flows, step.into[0]]
        case _:
            plain = [step.columns]
            named["key"] = step.key or None
            named["null_values"] = (step.null_values and bool(step.columns)) or None
    if step.kind != "where":
        named["keep"] = step.keep
    if step.kind != "merge":
        named["flow"] = step.flow
    return plain, {name: value for name, value in named.items() if value is not None}
