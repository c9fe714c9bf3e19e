"""Steps of a subtopology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from ..ir.declarations import Call, Declaration, FinalResults, Flow, Process, Source, StreamJoin, Suppress
from ..ir.topology import Subtopology
from ..records.types import parse_columns
from .columns import Flows, behind_operator, behind_sql, edges_of, narrowed, physical_names
from .execution.node import Node
from .sql_step import SqlStep

# Which stages of a subtopology look at each record alone.
#
# Behind an operator with a store, what becomes of a record also depends on those before it: so whether a step fails for
# it may be their fault.


def stateless_stages(part: Subtopology) -> list[bool]:
    """For each Python stage, in their order, whether neither it nor one before it has a store."""
    stages = _Stages()
    part.build(None, stages)
    return [not any(stages.stores[: number + 1]) for number in range(len(stages.stores))]


@dataclass
class _Stages:
    """An Engine that does nothing but to look at the operators."""

    stores: list[bool] = field(default_factory=list)

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """No step: failing records are looked for in the stages that Spark SQL lies between."""
        return False

    def process(
        self,
        rows: Any,
        nodes: tuple[Node, ...],
        reads: Mapping[str, Flow],  # noqa: ARG002
        yields: Mapping[str, Flow],  # noqa: ARG002
    ) -> Any:
        """Note whether an operator has a store."""
        self.stores.append(any(map(keeps, nodes)))
        return rows

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """A step in SQL has no store."""
        return rows


def keeps(node: Any) -> bool:
    """Whether an operator keeps something from one record to the next. What a processor remembers may be no store."""
    has_store = getattr(node, "store", None) is not None or bool(getattr(node, "stores", ()))
    return has_store or isinstance(node, Process)


# Does the steps of a subtopology with an engine: Spark's, or the one in this process.
#
# A step says what it does to which edges. The engine needs more, which follows from the steps around it: the columns of
# each edge (`columns.py`), the edges that later steps read, and the physical names of columns.


class Engine(Protocol):
    """Does single steps. `rows` is the result of the step before; the first step gets the argument of `do_steps`."""

    def in_task(self, step: SqlStep, alone: bool) -> bool:
        """Whether a step is done within a Python stage, if that is proven to give what Spark SQL gives.

        `alone`: only steps in SQL are beside it, so it would take one more stage.
        """

    def process(self, rows: Any, nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> Any:
        """Run operators in one Python stage (`stage.Stage`). No `reads`: it is the first. No `yields`: the last."""

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:
        """Do a step in SQL. `step`: its kind; `arguments`: those of the function in `cluster/spark/sql_steps.py`."""


@dataclass(frozen=True)
class PythonStep:
    """Operators that run one after the other in one Python stage.

    A step in SQL among them stands between processors that share a store: tasks do it, with every engine. `keep`: of
    edges that carry more than is needed later, the value columns that go on.
    """

    nodes: tuple[Any, ...]
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def makes(self, flows: Mapping[str, Flow]) -> Flows:
        """The columns of all edges that are there behind the operators."""
        for node in self.nodes:
            flows = behind_operator(node, flows)
        return dict(flows)

    def operators(self, flows: Mapping[str, Flow]) -> tuple[Any, ...]:
        """The operators, also of steps in SQL. `flows`: the edges before them. Raises UnprovenError."""
        if not any(isinstance(node, SqlStep) for node in self.nodes):
            return self.nodes
        from .in_task import computing

        found = []
        for node in self.nodes:
            found.append(computing(node, flows[node.flow], node.makes) if isinstance(node, SqlStep) else node)
            flows = behind_operator(node, flows)
        return tuple(found)

    def behind(self, flows: Mapping[str, Flow], later: Iterable[str]) -> Flows:
        """The columns of the edges that go on, `later`."""
        going = {name: flow for name, flow in self.makes(flows).items() if name in later}
        return going | {name: narrowed(going[name], columns) for name, columns in self.keep.items()}


Step = PythonStep | SqlStep


def do_steps(steps: Sequence[Step], rows: Any, engine: Engine) -> Any:
    """The engine's result of all steps on `rows`. Raises ValueError if a step reads an edge that no step makes."""
    stage: _Stage | None = None
    kept = False
    sources = tuple(
        node for step in steps if isinstance(step, PythonStep) for node in step.nodes if isinstance(node, Source)
    )
    for each in _placed(steps, engine):
        if isinstance(each.step, PythonStep):
            stage = _Stage.going_on(stage, each.before, each.step.operators(each.before), each.step.makes(each.before))
        elif each.operators:
            stage = _Stage.going_on(stage, each.before, each.operators, each.behind)
        else:
            if stage is not None:
                rows = engine.process(rows, stage.told(sources, kept), stage.reads, each.before)
                kept = kept or any(map(keeps, stage.nodes))
            stage, rows = None, engine.sql(rows, each.step.kind, sql_arguments(each.step, each.before, each.behind))
    return rows if stage is None else engine.process(rows, stage.told(sources, kept), stage.reads, {})


@dataclass(frozen=True)
class _Placed:
    """A step among the others: the edges before and behind it. `operators`: those of a step in SQL that a task does."""

    step: Step
    before: Flows
    behind: Flows
    operators: tuple[Any, ...] = ()


def _placed(steps: Sequence[Step], engine: Engine) -> Iterator[_Placed]:
    """The steps in their order, each run of steps in SQL between two Python stages as a whole."""
    flows: Flows = {}
    between: list[_Placed] = []
    for step, later in zip(steps, read_later(steps), strict=True):
        if isinstance(step, PythonStep):
            yield from _some_in_tasks(between, engine)
            between = []
            behind = step.behind(flows, later)
            yield _Placed(step, flows, behind)
        else:
            behind = {name: flow for name, flow in behind_sql(step, flows).items() if name in later}
            between.append(_Placed(step, flows, behind, _in_task(step, flows, behind, engine)))
        flows = behind
    yield from _some_in_tasks(between, engine)


def _in_task(step: SqlStep, before: Flows, behind: Flows, engine: Engine) -> tuple[Any, ...]:
    # Imported where steps are done: operators load pandas, and the compiler only notes steps.
    from ..expressions.promotion import UnprovenError
    from .in_task import operators_of

    try:
        return operators_of(step, before, behind) if engine.in_task(step, alone=False) else ()
    except UnprovenError:
        return ()


def _some_in_tasks(between: Sequence[_Placed], engine: Engine) -> Iterator[_Placed]:
    from .in_task import alone_in_sql

    alone = alone_in_sql([not each.operators for each in between])
    for number, each in enumerate(between):
        stays = number in alone and isinstance(each.step, SqlStep) and not engine.in_task(each.step, alone=True)
        yield replace(each, operators=()) if stays else each


@dataclass(frozen=True)
class _Stage:
    """A Python stage so far: the edges that it reads, its operators, and the edges that these make."""

    reads: Flows
    nodes: tuple[Any, ...]
    made: Flows

    def told(self, sources: tuple[Source, ...], kept: bool) -> tuple[Any, ...]:
        """The operators; calls are told if nothing is kept before them, and processors behind the stage that reads the
        sources of these. `kept`: whether a stage before keeps anything from record to record.
        """
        nodes: list[Any] = []
        for node in self.nodes:
            if isinstance(node, Call) and not kept:
                nodes.append(replace(node, by_itself=True))
            elif isinstance(node, Process) and self.reads:
                nodes.append(replace(node, sources=sources))
            else:
                nodes.append(node)
            kept = kept or keeps(node)
        return tuple(nodes)

    @classmethod
    def going_on(cls, stage: _Stage | None, flows: Flows, nodes: tuple[Any, ...], made: Flows) -> _Stage:
        """With the operators of one more step, which is given the edges `flows`, and makes `made`."""
        if stage is None:
            return cls(flows, nodes, made)
        from .in_task import Handover

        return cls(stage.reads, (*stage.nodes, *Handover.between(stage.made, flows), *nodes), made)


def read_later(steps: Sequence[Step]) -> list[frozenset[str]]:
    """For each step, its edges that a later step reads. Only these go on. Raises ValueError."""
    found: list[frozenset[str]] = []
    needed: frozenset[str] = frozenset()
    for step in reversed(steps):
        found.append(needed)
        for reads, makes in reversed(_edges(step)):
            needed = (needed - set(makes)) | set(reads)
    if needed:
        raise ValueError(f"no step makes the edge {', '.join(sorted(needed))}")
    return found[::-1]


def with_turns(steps: Sequence[Step]) -> list[Step]:
    """The steps, with processors told their place among all of them, by their lines; those without one as they come.

    It decides where punctuations of several are due for one time. In Kafka Streams processors are initialised, and so
    make their schedules, in the order in which they are declared.
    """
    found = [node for step in steps if isinstance(step, PythonStep) for node in step.nodes if isinstance(node, Process)]
    found.sort(key=lambda node: node.at if isinstance(node.at, int) else 0)
    turns = {node.name: turn for turn, node in enumerate(found)}

    def told(node: Any) -> Any:
        return replace(node, turn=turns[node.name]) if isinstance(node, Process) else node

    return [
        replace(step, nodes=tuple(map(told, step.nodes))) if isinstance(step, PythonStep) else step for step in steps
    ]


def held_back(steps: Sequence[Step]) -> dict[str, str]:
    """The places of steps that get rows which a step before them gives up later, not with the record that has made
    them: -> the place of that step.
    """
    found = _behind(steps, lambda node: isinstance(node, FinalResults | Suppress))
    return {at: holder for at, holder in found.items() if at != holder}


def waited(steps: Sequence[Step]) -> dict[str, str]:
    """The places of steps that get rows of a left or outer join of streams, and of its own expressions: -> the place of
    the join. Some of these rows have waited there for a match, and come out with another record.
    """
    return _behind(steps, lambda node: isinstance(node, StreamJoin) and node.unmatched is not None)


def _behind(steps: Sequence[Step], gives: Callable[[Any], bool]) -> dict[str, str]:
    """The places of steps that get rows of operators that are meant: -> the place of the last one."""
    by_edge: dict[str, str] = {}
    found: dict[str, str] = {}
    for step in steps:
        operators: Sequence[Any] = step.nodes if isinstance(step, PythonStep) else (step,)
        for each, (reads, makes) in zip(operators, _edges(step), strict=True):
            giver = next((by_edge[edge] for edge in reads if edge in by_edge), None)
            if giver is not None:
                found.setdefault(str(each.at), giver)
            if gives(each):
                giver = str(each.at)
            by_edge = {edge: at for edge, at in by_edge.items() if edge not in makes}
            by_edge |= dict.fromkeys(makes, giver) if giver is not None else {}
    return {at: giver for at, giver in found.items() if at}


def _edges(step: Step) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    nodes: Sequence[Declaration | SqlStep] = step.nodes if isinstance(step, PythonStep) else (step,)
    return [edges_of(node) for node in nodes]


def sql_arguments(step: SqlStep, before: Mapping[str, Flow], behind: Mapping[str, Flow]) -> dict[str, Any]:
    """The arguments of the step's function, in physical names.

    `flow` is None while there is only one edge: the pipe is then flat.
    """
    made = next(flow for name, flow in behind.items() if name in step.makes)
    flow = step.flow if len(before) > 1 else None
    copied = {"keep": None if step.keep is None else _all_columns(made), "flow": flow, "at": step.at}
    match step.kind:
        case "where":
            return {"condition": step.condition, "table": step.table, "flow": flow, "at": step.at}
        case "branch":
            read = tuple(name for name in step.branches if name in behind)
            return {"branches": tuple(step.branches.items()), "into": read, **copied}
        case "fork":
            return {"into": step.into, **copied}
        case "merge":
            return {"flows": step.flows, "into": step.into[0], "keep": _all_columns(made), "at": step.at}
        case "key_by":
            names = physical_names(made)
            key = {names[name]: sql for name, sql in step.columns.items()}
            return {"key": key, "keep": tuple(parse_columns(made.value)), "flow": flow, "at": step.at}
        case "select" | "with_columns" | "explode":
            pass
        case unknown:
            assert_never(unknown)
    kept, renamed = _kept(step, before[step.flow], made)
    computed = {"columns": step.columns, "keep": kept, "key": renamed, "flow": flow, "at": step.at}
    return computed if step.kind == "explode" else {**computed, "null_values": step.null_values}


def _all_columns(flow: Flow) -> tuple[str, ...]:
    return (*physical_names(flow).values(), *parse_columns(flow.value))


def _kept(step: SqlStep, before: Flow, made: Flow) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns that pass a step unchanged, and the key columns whose physical names change (new -> old).

    The physical name of a key column changes where a value column of the same name comes or goes.
    """
    old, new = physical_names(before), physical_names(made)
    same = [new[name] for name in new if old[name] == new[name]]
    renamed = {new[name]: old[name] for name in new if old[name] != new[name]}
    unchanged = [name for name in parse_columns(made.value) if name not in step.columns]
    return (*same, *unchanged), renamed
