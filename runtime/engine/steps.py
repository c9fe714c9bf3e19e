"""The steps of a subtopology: their columns, their execution by an engine, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from ..ir.topology import StepText, Subtopology
from .operators.operator import UNTRACED, Column, EdgeColumns, Flow, Lineage, Node, Operator, flow_of
from .operators.process import Process
from .operators.stateless import Call
from .operators.topics import RoutedSink, Sink, Source
from .sql_step import SqlStep

# The stateless stages of a subtopology: they process each record independently.
#
# After an operator with a store, the rows of a record also depend on earlier records. So if a step fails, an earlier
# record may be the cause.


def stateless_stages(part: Subtopology) -> list[bool]:
    """For each Python stage, in order, whether neither it nor an earlier stage is stateful."""
    stages = _Stages()
    part.build(None, stages)
    return [not any(stages.stores[: number + 1]) for number in range(len(stages.stores))]


@dataclass
class _Stages:
    """An Engine that only inspects the operators."""

    stores: list[bool] = field(default_factory=list)

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """False: stages are counted as if all SQL steps run in Spark SQL."""
        return False

    def process(
        self,
        rows: Any,
        nodes: tuple[Node, ...],
        reads: Mapping[str, Flow],  # noqa: ARG002
        yields: Mapping[str, Flow],  # noqa: ARG002
    ) -> Any:
        """Note whether an operator of the stage is stateful."""
        self.stores.append(any(node.is_stateful for node in nodes))
        return rows

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Nothing: a step in SQL has no store."""
        return rows


# The columns of each edge after each step. They follow from the steps, so generated code does not list them.

NOW = "_now"
"""The epoch's planned time: a column that a Python stage adds to an edge for SQL steps that use it."""

Columns = Mapping[str, EdgeColumns]
"""The columns of edges, by name."""


def after(step: Operator | SqlStep, edges: Columns, lineage: Lineage = UNTRACED) -> Columns:
    """The columns of all edges after a step. A step in SQL removes its input edges."""
    kept = {name: edge for name, edge in edges.items() if not (isinstance(step, SqlStep) and name in step.reads)}
    return {**kept, **step.output_columns(edges, lineage)}


def narrowed(edge: EdgeColumns, keep: Iterable[str]) -> EdgeColumns:
    """The edge with only the value columns in `keep`. `keep` may include `NOW`."""
    value = {**edge.value, NOW: Column("timestamp")}
    return replace(edge, value={name: value[name] for name in keep})


def edges_of(flows: Mapping[str, Flow]) -> Columns:
    """The columns of edges, from DDL."""
    return {name: EdgeColumns.from_flow(flow) for name, flow in flows.items()}


def flows(edges: Columns) -> dict[str, Flow]:
    """The columns of edges as DDL."""
    return {name: edge.flow for name, edge in edges.items()}


# Runs the steps of a subtopology with an engine: Spark's, or the one in this process.
#
# A step only has its operation and its edges. The engine also needs the columns of each edge, the edges that later
# steps read, and the physical names of columns. These follow from the steps around it.


class Engine(Protocol):
    """Runs single steps. `rows`: the result of the step before. The first step gets the argument of `Steps`."""

    def in_task(self, step: SqlStep, alone: bool) -> bool:
        """Whether a step runs within a Python stage, provided that the type checker accepts it.

        `alone`: whether all its neighbours are steps in Spark SQL, so that it would need an additional stage.
        """

    def process(self, rows: Any, nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> Any:
        """Run operators in one Python stage (`stage.Stage`). The first stage has no `reads`, the last no `yields`."""

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:
        """Run a step in SQL. `step`: its kind. `arguments`: of its function in `cluster/spark/sql_steps.py`."""


@dataclass(frozen=True)
class PythonStep:
    """Operators that run one after the other in one Python stage.

    Steps in SQL among them stand between processors that share a store. Tasks compute them, with every engine. `keep`:
    edge -> the value columns that are passed on, for edges with more columns than later steps need.
    """

    nodes: tuple[Operator | SqlStep, ...]
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def makes(self, edges: Columns, lineage: Lineage = UNTRACED) -> Columns:
        """The columns of all edges after the operators."""
        for node in self.nodes:
            edges = after(node, edges, lineage)
        return edges

    def operators(self, edges: Columns) -> tuple[Node, ...]:
        """The operators, including those of steps in SQL. `edges`: the columns before them. Raises UnprovenError."""
        operators: list[Node] = []
        for node in self.nodes:
            if isinstance(node, SqlStep):
                from .execution.computing import computing

                operators.append(computing(node, edges[node.flow].flow, node.makes))
            else:
                operators.append(node)
            edges = after(node, edges)
        return tuple(operators)

    def behind(self, edges: Columns, later: Iterable[str], lineage: Lineage = UNTRACED) -> Columns:
        """The columns of the edges that are passed on. `later`: the edges that later steps read."""
        going = {name: edge for name, edge in self.makes(edges, lineage).items() if name in later}
        return going | {name: narrowed(going[name], columns) for name, columns in self.keep.items()}


Step = PythonStep | SqlStep


@dataclass(frozen=True)
class Steps:
    """The steps of a subtopology, as its `build`."""

    steps: tuple[Step, ...]

    def __call__(self, rows: Any, engine: Engine) -> Any:
        """The engine's result of all steps on `rows`. Raises ValueError if a step reads an edge that no step makes."""
        stage: _Stage | None = None
        kept = False
        sources = tuple(node for node in nodes_of(self.steps) if isinstance(node, Source))
        for each in _placed(self.steps, engine):
            before = each.before
            if isinstance(each.step, PythonStep):
                stage = _Stage.going_on(stage, before, each.step.operators(before), each.step.makes(before))
            elif each.operators:
                stage = _Stage.going_on(stage, before, each.operators, each.behind)
            else:
                if stage is not None:
                    rows = engine.process(rows, stage.complete(sources, kept), flows(stage.reads), flows(before))
                    kept = kept or any(node.is_stateful for node in stage.nodes)
                stage, rows = None, engine.sql(rows, each.step.kind, sql_arguments(each.step, before, each.behind))
        return rows if stage is None else engine.process(rows, stage.complete(sources, kept), flows(stage.reads), {})


def steps_of(part: Subtopology) -> tuple[Step, ...]:
    """The steps of a subtopology that a pipe has built."""
    assert isinstance(part.build, Steps)
    return part.build.steps


@dataclass(frozen=True)
class _Placed:
    """A step with the edges before and after it. `operators`: of a step in SQL that runs in a Python stage."""

    step: Step
    before: Columns
    behind: Columns
    operators: tuple[Node, ...] = ()


def _placed(steps: Sequence[Step], engine: Engine) -> Iterator[_Placed]:
    """The steps in order. A run of steps in SQL between two Python stages is decided as a whole."""
    between: list[_Placed] = []
    for step, before, behind in columns_between(steps):
        if isinstance(step, PythonStep):
            yield from _some_in_tasks(between, engine)
            between = []
            yield _Placed(step, before, behind)
        else:
            between.append(_Placed(step, before, behind, _in_task(step, before, behind, engine)))
    yield from _some_in_tasks(between, engine)


def columns_between(steps: Sequence[Step], lineage: Lineage = UNTRACED) -> Iterator[tuple[Step, Columns, Columns]]:
    """(Step, the edges before it, the edges after it that a later step reads)."""
    before: Columns = {}
    for step, later in zip(steps, read_later(steps), strict=True):
        if isinstance(step, PythonStep):
            behind = step.behind(before, later, lineage)
        else:
            behind = {name: edge for name, edge in after(step, before, lineage).items() if name in later}
        yield step, before, behind
        before = behind


def _in_task(step: SqlStep, before: Columns, behind: Columns, engine: Engine) -> tuple[Node, ...]:
    # Imported here, because operators load pandas, and the compiler only collects steps.
    from ..expressions.promotion import UnprovenError
    from .execution.computing import operators_of

    try:
        return operators_of(step, flows(before), flows(behind)) if engine.in_task(step, alone=False) else ()
    except UnprovenError:
        return ()


def _some_in_tasks(between: Sequence[_Placed], engine: Engine) -> Iterator[_Placed]:
    from .execution.computing import alone_in_sql

    alone = alone_in_sql([not each.operators for each in between])
    for number, each in enumerate(between):
        stays = number in alone and isinstance(each.step, SqlStep) and not engine.in_task(each.step, alone=True)
        yield replace(each, operators=()) if stays else each


@dataclass(frozen=True)
class _Stage:
    """A Python stage so far: its input edges, its operators, and their output edges."""

    reads: Columns
    nodes: tuple[Node, ...]
    made: Columns

    def complete(self, sources: tuple[Source, ...], kept: bool) -> tuple[Node, ...]:
        """The operators, with the properties that depend on the stages: `by_itself`, and `sources` of processors.

        `sources`: all sources of the task, for processors in a stage that does not read them itself. `kept`: whether an
        earlier stage is stateful.
        """
        nodes: list[Node] = []
        for node in self.nodes:
            if isinstance(node, Call | RoutedSink) and not kept:
                nodes.append(replace(node, by_itself=True))
            elif isinstance(node, Process) and self.reads:
                nodes.append(replace(node, sources=sources))
            else:
                nodes.append(node)
            kept = kept or node.is_stateful
        return tuple(nodes)

    @classmethod
    def going_on(cls, stage: _Stage | None, edges: Columns, nodes: tuple[Node, ...], made: Columns) -> _Stage:
        """The stage with the operators of one more step. `edges`: its input. `made`: its output."""
        if stage is None:
            return cls(edges, nodes, made)
        from .execution.computing import Handover

        return cls(stage.reads, (*stage.nodes, *Handover.between(flows(stage.made), flows(edges)), *nodes), made)


def read_later(steps: Sequence[Step]) -> list[frozenset[str]]:
    """For each step, the edges after it that a later step reads. Only these are passed on.

    Raises ValueError if a step reads an edge that no step makes.
    """
    found: list[frozenset[str]] = []
    needed: frozenset[str] = frozenset()
    for step in reversed(steps):
        found.append(needed)
        for node in reversed(nodes_of([step])):
            needed = (needed - set(node.makes)) | set(node.reads)
    if needed:
        raise ValueError(f"no step makes the edge {', '.join(sorted(needed))}")
    return found[::-1]


def with_turns(steps: Sequence[Step]) -> list[Step]:
    """The steps, with the `turn` of each processor: its place among all processors, by line.

    The turn decides the order of punctuations of several processors that are due at one time. In Kafka Streams,
    processors are initialised, and so create their schedules, in the order of declaration.
    """
    found = [node for node in nodes_of(steps) if isinstance(node, Process)]
    found.sort(key=lambda node: node.at if isinstance(node.at, int) else 0)
    turns = {node.name: turn for turn, node in enumerate(found)}

    def turned(node: Any) -> Any:
        return replace(node, turn=turns[node.name]) if isinstance(node, Process) else node

    return [
        replace(step, nodes=tuple(map(turned, step.nodes))) if isinstance(step, PythonStep) else step for step in steps
    ]


def held_back(steps: Sequence[Step]) -> dict[str, str]:
    """Location of a step -> location of an earlier step that releases the rows later, not with the record that made
    them.
    """
    found = _behind(steps, lambda node: node.releases == "later")
    return {at: holder for at, holder in found.items() if at != holder}


def waited(steps: Sequence[Step]) -> dict[str, str]:
    """Location of a step -> location of an earlier left or outer stream-stream join, including the join's own
    expressions. Some of its rows waited for a match, and are released with another record.
    """
    return _behind(steps, lambda node: node.releases == "unmatched later")


def _behind(steps: Sequence[Step], gives: Callable[[Operator], bool]) -> dict[str, str]:
    """Location of a step -> location of the last operator before it for which `gives` is true."""
    by_edge: dict[str, str] = {}
    found: dict[str, str] = {}
    for node in nodes_of(steps):
        giver = next((by_edge[edge] for edge in node.reads if edge in by_edge), None)
        if giver is not None:
            found.setdefault(str(node.at), giver)
        if not isinstance(node, SqlStep) and gives(node):
            giver = str(node.at)
        by_edge = {edge: at for edge, at in by_edge.items() if edge not in node.makes}
        by_edge |= dict.fromkeys(node.makes, giver) if giver is not None else {}
    return {at: giver for at, giver in found.items() if at}


def nodes_of(steps: Iterable[Step]) -> list[Operator | SqlStep]:
    """The operators and steps in SQL, in the order of processing."""
    return [node for step in steps for node in (step.nodes if isinstance(step, PythonStep) else (step,))]


# The steps as text. Texts are committed, so that a later plan can name the step that changed.
#
# Properties that follow from other steps have no text: the columns of edges, repartition topics. The contents of stores
# have no text either: they are compared with the stores.


def step_texts(steps: Iterable[Step]) -> tuple[StepText, ...]:
    """The texts of steps that users know, in the order of processing."""
    return tuple(text for node in nodes_of(steps) for text in node.texts())


def regrouping(steps: Sequence[Step]) -> tuple[int, ...]:
    """The indexes of the `step_texts` that decide the groups of a regrouped table's rows.

    When a row changes, these steps compute the group to which the new row is added, and the group from which the old
    row is removed.
    """
    nodes = [(node, list(node.texts())) for node in nodes_of(steps)]
    number, numbers = sum(len(texts) for _, texts in nodes), []
    edges: set[str] = set()
    for node, texts in reversed(nodes):
        number -= len(texts)
        if isinstance(node, Sink) and node.mode == "repartition" and node.of == "table":
            if node.flow == flow_of(node.flow):  # otherwise the edge belongs to a foreign-key join
                edges.add(node.flow)
            continue
        grouped = {flow_of(edge) for edge in edges.intersection(node.makes)}
        edges.difference_update(node.makes)
        if not isinstance(node, SqlStep) and node.old_rows == "stored":
            # Its replaced rows come from its own store, so the steps before it do not matter.
            grouped = {flow_of(edge) for edge in node.makes} if node.needs_all else set()
        elif grouped:
            edges.update(node.reads)
        numbers += [number + place for place, text in enumerate(texts) if text.flow in grouped]
    return tuple(sorted(numbers))


# The arguments of the functions for steps in SQL.


def sql_arguments(step: SqlStep, before: Columns, behind: Columns) -> dict[str, Any]:
    """The arguments of the step's function, in physical names.

    `flow` is None if there is only one edge: the pipe is then flat.
    """
    made = next(edge for name, edge in behind.items() if name in step.makes)
    flow = step.flow if len(before) > 1 else None
    copied = {"keep": None if step.keep is None else tuple(made.physical), "flow": flow, "at": step.at}
    match step.kind:
        case "where":
            return {"condition": step.condition, "table": step.table, "flow": flow, "at": step.at}
        case "branch":
            read = tuple(name for name in step.branches if name in behind)
            return {"branches": tuple(step.branches.items()), "into": read, **copied}
        case "fork":
            return {"into": step.into, **copied}
        case "merge":
            return {"flows": step.flows, "into": step.into[0], "keep": tuple(made.physical), "at": step.at}
        case "key_by":
            key = {made.physical_key(name): sql for name, sql in step.columns.items()}
            return {"key": key, "keep": tuple(made.value), "flow": flow, "at": step.at}
        case "select" | "with_columns" | "explode":
            pass
        case unknown:
            assert_never(unknown)
    kept, renamed = _kept(step, before[step.flow], made)
    computed = {"columns": step.columns, "keep": kept, "key": renamed, "flow": flow, "at": step.at}
    return computed if step.kind == "explode" else {**computed, "null_values": step.null_values}


def _kept(step: SqlStep, before: EdgeColumns, made: EdgeColumns) -> tuple[tuple[str, ...], dict[str, str]]:
    """(The columns that pass a step unchanged, the renamed key columns as new -> old physical name).

    The physical name of a key column changes if the step adds or removes a value column with the same name.
    """
    names = {made.physical_key(name): before.physical_key(name) for name in made.key}
    same = [new for new, old in names.items() if old == new]
    renamed = {new: old for new, old in names.items() if old != new}
    unchanged = [name for name in made.value if name not in step.columns]
    return (*same, *unchanged), renamed
