"""`job.py`: a topology's topics, stores and subtopologies as PySpark code. Python computes, the template lays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..operations.base.site import SqlStep
from ..topology.graph import PythonStage, SubtopologyGraph, TopologyGraph
from .declarations import Declarations
from .names import Constants, Declared, function_names
from .python import Code, Expression, Items, Text, call, dict_of, one_a_line, statement, tuple_of
from .template import content_hash, docstring, import_from, render, title

_SQL_FUNCTIONS = ("where", "select", "with_columns", "explode", "branch", "fork", "merge", "key_by")


@dataclass(frozen=True)
class FunctionText:
    """One subtopology: its name, its docstring and its statements, indented."""

    name: str
    docstring: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class JobTemplate:
    """What `job.py.j2` lays out: finished lines of code."""

    docstring: str
    imports: tuple[str, ...]
    constants: tuple[str, ...]
    functions: tuple[FunctionText, ...]
    subtopologies: str


def render_job(graph: TopologyGraph) -> str:
    """The text of `job.py`, the same for the same graph."""
    constants = Constants(graph)
    writer = Declarations(constants)
    names = function_names([part.function for part in graph.subtopologies], ("process", *_SQL_FUNCTIONS))
    everything: tuple[Declared, ...] = (*graph.topics, *graph.stores, *graph.global_tables)
    declared = {constants[each]: each for each in everything}
    lines = tuple(statement(f"{name} = ", writer.call(each)) for name, each in declared.items())
    functions = tuple(_function(part, name, writer) for part, name in zip(graph.subtopologies, names, strict=True))
    subtopologies = statement("SUBTOPOLOGIES = ", _subtopologies(graph, names, writer))
    used = {step.kind for part in graph.subtopologies for step in part.stages if isinstance(step, SqlStep)}
    template = JobTemplate(
        docstring=docstring(
            title(graph),
            graph.description,
            f"Made by `headwater compile` from {graph.file}: change that file, not this one.\n"
            f"Content: {content_hash(graph)}",
        ),
        imports=(
            import_from("headwater.runtime", writer.classes | used | {"process"}),
            import_from("pyspark.sql", {"DataFrame"}),
        ),
        constants=lines,
        functions=functions,
        subtopologies=subtopologies,
    )
    return render("job.py.j2", template)


def _function(part: SubtopologyGraph, name: str, writer: Declarations) -> FunctionText:
    last = len(part.stages) - 1
    statements = tuple(
        statement(
            "return " if number == last else "rows = ",
            _stage(stage, "tasks" if number == 0 else "rows", writer),
            indent=4,
        )
        for number, stage in enumerate(part.stages)
    )
    return FunctionText(name, _summary(part), statements)


def _summary(part: SubtopologyGraph) -> str:
    """`Subtopology 0, 4 tasks: flights -> hourly_delays.`, wrapped, with the stores below."""
    tasks = f"{part.partitions} task{'s' if part.partitions != 1 else ''}"
    read = ", ".join(topic.name for topic in part.sources)
    written = ", ".join(topic.name for topic in part.sinks) or "nothing"
    head = f"Subtopology {part.number}, {tasks}: {read} -> {written}."
    stores = f"Stores: {', '.join(store.name for store in part.stores)}." if part.stores else ""
    return docstring(head, stores, indent=4)


def _stage(stage: PythonStage | SqlStep, rows: str, writer: Declarations) -> Items:
    return _process(stage, rows, writer) if isinstance(stage, PythonStage) else _sql(stage, rows)


def _process(stage: PythonStage, rows: str, writer: Declarations) -> Items:
    nodes = [writer.call(node) for node in stage.nodes]
    edges = {
        name: dict_of({edge: writer.call(flow) for edge, flow in flows.items()})
        for name, flows in (("reads", stage.reads), ("yields", stage.yields))
        if flows
    }
    return one_a_line(call("process", Code(rows), *nodes, **edges))


def _sql(step: SqlStep, rows: str) -> Items:
    """The call of the step's function; `flow` and `keep` where they say something."""
    named: dict[str, Expression] = {}
    plain: list[Expression] = [Code(rows)]
    if step.kind == "where":
        plain.append(Text(step.condition or ""))
        if step.table:
            named["table"] = Code("True")
    elif step.kind == "key_by":
        plain.append(_texts(step.key))
    elif step.kind == "branch":
        cases = (tuple_of([Text(edge), Text(sql) if sql is not None else Code("None")]) for edge, sql in step.branches)
        plain.append(tuple_of(cases))
        if step.into != tuple(edge for edge, _ in step.branches):
            named["into"] = _names(step.into)
    elif step.kind == "fork":
        plain.append(_names(step.into))
    elif step.kind == "merge":
        plain += [_names(step.flows), Text(step.into[0])]
    else:
        plain.append(_texts(step.columns))
        if step.key:
            named["key"] = _texts(step.key)
        if step.null_values and step.columns:
            named["null_values"] = Code("True")
    if step.keep is not None and step.kind != "where":
        named["keep"] = _names(step.keep)
    if step.flow is not None and step.kind != "merge":
        named["flow"] = Text(step.flow)
    if step.at:
        named["at"] = Text(step.at)
    return call(step.kind, *plain, **named)


def _subtopologies(graph: TopologyGraph, names: list[str], writer: Declarations) -> Items:
    """`SUBTOPOLOGIES`: the runtime's view of each part."""
    writer.classes.add("Subtopology")
    calls = []
    for part, name in zip(graph.subtopologies, names, strict=True):
        named: dict[str, Expression] = {"partitions": writer.of(part.partitions), "build": Code(name)}
        for field, declared in (
            ("sources", part.sources),
            ("sinks", part.sinks),
            ("stores", part.stores),
            ("global_tables", part.global_tables),
        ):
            if declared or field in ("sources", "sinks"):
                named[field] = writer.of(declared)
        calls.append(call("Subtopology", writer.of(part.number), Text(part.name), **named))
    return one_a_line(tuple_of(calls))


def _texts(texts: Mapping[str, str]) -> Items:
    return dict_of({name: Text(text) for name, text in texts.items()})


def _names(names: tuple[str, ...]) -> Items:
    return tuple_of(Text(name) for name in names)
