"""Generates `job.py`: a topology's topics, stores and subtopologies as PySpark code.

The text is computed here; the template only inserts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from ...runtime.engine.operators.kafka import Produce
from ...runtime.engine.operators.operator import Flow, Operator
from ...runtime.engine.sql_step import SqlStep
from ...runtime.engine.steps import Columns, PythonStep, after, edges_of
from ...runtime.ir.topology import Topic
from ..entries import columns_ddl
from ..topology.engines import spark_reasons
from ..topology.graph import PythonStage, SubtopologyGraph, TopologyGraph
from .calls import Declarations, Notes, comment_lines, topology_of
from .literals import (
    FUNCTIONS,
    Code,
    Commented,
    Constants,
    Declared,
    Expression,
    Items,
    Text,
    call,
    dict_of,
    function_names,
    one_a_line,
    quoted,
    statement,
    tuple_of,
)
from .template import docstring, import_from, render, title


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
    code: str
    constants: tuple[str, ...]
    functions: tuple[FunctionText, ...]
    topology: str


def render_job(graph: TopologyGraph) -> str:
    """The text of `job.py`, which depends on the graph alone."""
    constants = Constants(graph)
    writer = Declarations(constants, graph.file)
    names = function_names([part.function for part in graph.subtopologies], ("subtopology",))
    groups: tuple[tuple[Declared, ...], ...] = (graph.topics, graph.stores, graph.global_tables, graph.udfs)
    declared = tuple("\n".join(_constants(group, constants, writer)) for group in groups if group)
    functions = tuple(
        _function(graph, part, name, writer) for part, name in zip(graph.subtopologies, names, strict=True)
    )
    written = writer.call(topology_of(graph), subtopologies=tuple_of(Code(name) for name in names))
    topology = statement("TOPOLOGY = ", written)
    template = JobTemplate(
        docstring=docstring(
            title(graph),
            graph.description,
            f"Made by `headwater compile` from {graph.file}: change that file, not this one.",
        ),
        imports=import_from("headwater.runtime", writer.classes | {"Pipe", "subtopology"}),
        file=f"FILE = {quoted(graph.file)}",
        code=f"{FUNCTIONS} = PythonCode.beside(__file__)\n" if "PythonCode" in writer.classes else "",
        constants=declared,
        functions=functions,
        topology=topology,
    )
    return render("job.py.j2", template)


def _constants(group: Sequence[Declared], constants: Constants, writer: Declarations) -> list[str]:
    by_name = {constants[declared]: declared for declared in group}
    return [statement(f"{name} = ", writer.declaration(declared)) for name, declared in by_name.items()]


def _function(graph: TopologyGraph, part: SubtopologyGraph, name: str, writer: Declarations) -> FunctionText:
    stages = _Stages(writer, Notes(graph))
    last = len(part.stages) - 1
    statements = tuple(
        stages.statement(stage, kept, "return " if number == last else "rows = ")
        for number, (stage, kept) in enumerate(zip(part.stages, spark_reasons(part), strict=True))
    )
    policies: dict[str, Expression] = {
        policy: tuple_of(map(writer.location, places)) for policy, places in part.step_policies.items()
    }
    named = {"on_error": dict_of(policies)} if policies else {}
    decorator = call("subtopology", Code(str(part.number)), Text(part.name), file=Code("FILE"), **named)
    registered = statement("@", decorator)
    return FunctionText(registered, name, _summary(part), statements)


def _summary(part: SubtopologyGraph) -> str:
    """`4 tasks: flights -> hourly_delays.`, wrapped, with the stores below it."""
    tasks = f"{part.partitions} task{'s' if part.partitions != 1 else ''}"
    if any(topic.kafka for topic in part.sources):
        tasks = "A task for each partition in Kafka"
    read = ", ".join(_shown(topic) for topic in part.sources)
    produced = [f"{node.kafka.name} in Kafka" for node in _operators(part) if isinstance(node, Produce)]
    written = ", ".join([*produced, *map(_shown, part.sinks)]) or "nothing"
    stores = f"Stores: {', '.join(store.name for store in part.stores)}." if part.stores else ""
    return docstring(f"{tasks}: {read} -> {written}.", stores, indent=4)


def _shown(topic: Topic) -> str:
    return topic.name if topic.kafka is None else f"{topic.kafka.name} in Kafka"


def _operators(part: SubtopologyGraph) -> Iterator[Operator | SqlStep]:
    return (node for stage in part.stages if isinstance(stage, PythonStage) for node in stage.nodes)


class _Stages:
    """Writes the calls of a subtopology's pipe, and tracks its edges to omit columns that the runtime derives."""

    def __init__(self, writer: Declarations, notes: Notes) -> None:
        self._writer = writer
        self._notes = notes
        self._edges: Columns = {}

    def statement(self, stage: PythonStage | SqlStep, kept: str, start: str) -> str:
        """A statement that begins with `start`. `kept`: why Spark SQL computes the stage.

        A SQL step has comments above it: the description of its flow, if it is the first step, and `kept`.
        """
        if isinstance(stage, PythonStage):
            return statement(start, self._process(stage), indent=4)
        notes = [
            *self._notes.at(str(stage.at), indent=4),
            *(comment_lines(f"Spark SQL: {kept}", indent=4) if kept else ()),
        ]
        return "".join(f"    {line}\n" for line in notes) + statement(start, self._sql(stage), indent=4)

    def _process(self, stage: PythonStage) -> Items:
        reads = {name: self._edges[name] for name in stage.reads}
        _check(reads, stage.reads)
        derived = PythonStep(stage.nodes).behind(reads, stage.yields)
        keep = {name: tuple(edge.value) for name, edge in edges_of(stage.yields).items() if edge != derived[name]}
        self._edges = PythonStep(stage.nodes, keep).behind(reads, stage.yields)
        _check(self._edges, stage.yields)
        nodes = [self._operator(node) for node in stage.nodes]
        named = {"keep": self._writer.expression(keep)} if keep else {}
        written = call("rows.process", *nodes, **named)
        return one_a_line(written) if len(nodes) > 1 else written

    def _operator(self, node: Operator | SqlStep) -> Expression:
        comment = self._notes.at(str(node.at), indent=8)
        call = self._sql_call(node, "Pipe()") if isinstance(node, SqlStep) else self._writer.call(node)
        return Commented(comment, call) if comment else call

    def _sql(self, step: SqlStep) -> Items:
        self._edges = after(step, self._edges)
        return self._sql_call(step, "rows")

    def _sql_call(self, step: SqlStep, pipe: str) -> Items:
        plain, named = _arguments(step)
        plain = [step.flows if step.kind == "merge" else step.flow, *plain]
        arguments = {name: self._writer.expression(value) for name, value in named.items()}
        if step.at:
            arguments["at"] = self._writer.location(str(step.at))
        return call(f"{pipe}.{step.kind}", *map(self._writer.expression, plain), **arguments)


def _check(edges: Columns, flows: Mapping[str, Flow]) -> None:
    """That the edges which generated code would have are those that the graph has."""
    wanted = edges_of(flows)
    assert edges == wanted, f"{edges} would be there in place of {wanted}"


def _arguments(step: SqlStep) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the keyword arguments of the method of `Pipe`, without the edge."""
    columns = {columns_ddl({name: step.types[name]}): sql for name, sql in step.columns.items()}
    keep = {} if step.keep is None else {"keep": step.keep}
    match step.kind:
        case "where":
            return [step.condition], {"table": True} if step.table else {}
        case "branch":
            return [step.branches], keep
        case "fork":
            return [], {"into": step.into, **keep}
        case "merge":
            return [], {"into": step.into[0]}
        case "select" if not step.keep:
            keep = {}
        case "select" | "with_columns" | "explode" | "key_by":
            pass
        case unknown:
            assert_never(unknown)
    return [columns] if columns else [], keep | ({"null_values": True} if step.null_values else {})
