"""The steps of a subtopology as text: what is committed of them, so that a later plan can name the one that changed.

SQL is that of the job, which is as the user wrote it but for qualifiers. What only follows from other steps is left
out: which columns travel, repartition topics; and what stores hold, which is compared with the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..dataclass_json import compact
from ..ir.declarations import (
    JOINING_EDGES,
    Aggregate,
    AggregateSessions,
    AggregateSliding,
    AggregateWith,
    Answer,
    Call,
    Declaration,
    FinalResults,
    Fork,
    GlobalJoin,
    KeyBy,
    Merge,
    Process,
    Reduce,
    Select,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    Subscribe,
    Suppress,
    Table,
    TableTableJoin,
    ToStream,
)
from ..ir.topology import StepText
from .columns import edges_of
from .sql_step import SqlStep
from .steps import Step

_KEEPING = Table | Aggregate | AggregateSessions | AggregateSliding | Reduce | AggregateWith
"""What gives the rows that are replaced as its store has them: whatever was before it, they are those that it gave."""


def step_texts(steps: Iterable[Step]) -> Iterator[StepText]:
    """The steps that people would name, in the order of processing."""
    for _, texts in _told(steps):
        yield from texts


def regrouping(steps: Sequence[Step]) -> tuple[int, ...]:
    """Which of the `step_texts` decide what a changed row of a table is to the groups of an aggregate: to which one its
    new form is added, and from which one its old form is taken. They compute both when the row changes.
    """
    told = list(_told(steps))
    number, found = sum(len(texts) for _, texts in told), []
    edges: set[str] = set()
    for each, texts in reversed(told):
        number -= len(texts)
        reads, makes = edges_of(each)
        if isinstance(each, Sink) and each.mode == "repartition" and each.of == "table":
            if each.flow == flow_of(each.flow):  # else it is that of a join by a foreign key
                edges.add(each.flow)
            continue
        flows = {flow_of(edge) for edge in edges.intersection(makes)}
        edges.difference_update(makes)
        if isinstance(each, _KEEPING):
            takes_out = isinstance(each, AggregateWith) and each.of == "table"
            flows = {flow_of(each.flow)} if takes_out else set()
        elif flows:
            edges.update(reads)
        found += [number + place for place, text in enumerate(texts) if text.flow in flows]
    return tuple(sorted(found))


def _told(steps: Iterable[Step]) -> Iterator[tuple[SqlStep | Declaration, list[StepText]]]:
    for step in steps:
        nodes: Sequence[Declaration | SqlStep] = (step,) if isinstance(step, SqlStep) else step.nodes
        for node in nodes:
            yield node, list(_sql_texts(node) if isinstance(node, SqlStep) else _texts(node))


def _sql_texts(step: SqlStep) -> Iterator[StepText]:
    if step.kind == "fork":
        yield from _forked(step.flow, step.into)
    elif text := _sql(step):
        yield StepText(step.makes[0] if step.kind == "merge" else step.flow, text, str(step.at))


def _texts(node: Declaration) -> Iterator[StepText]:
    if isinstance(node, Fork):
        yield from _forked(node.flow, node.into)
    elif text := _operator(node):
        yield from (StepText(edge, text, str(node.at)) for edge in _edges(node))


def _forked(flow: str, into: Iterable[str]) -> Iterator[StepText]:
    """What several flows read. Where a flow has one reader, the steps of both are those of one flow."""
    names = dict.fromkeys(flow_of(each) for each in into)
    return (StepText(each, f"from flow {flow}") for each in names if each != flow)


def flow_of(edge: str) -> str:
    """The flow of an edge of a join by a foreign key; other edges have their own names."""
    return edge.partition(".")[0] if edge.rpartition(".")[2] in JOINING_EDGES else edge


def _sql(step: SqlStep) -> str:
    match step.kind:
        case "where":
            return f"filter {step.condition}"
        case "select" | "with_columns" | "explode":
            # The columns that an aggregation reads are called as their expressions: they are told with its store.
            columns = {name: sql for name, sql in step.columns.items() if name != sql}
            return f"{step.kind.replace('_', ' ')} {_columns(columns)}" if columns else ""
        case "key_by":
            return f"key_by {_columns(step.columns)}"
        case "branch":
            named = (f"{name}: {'the rest' if sql is None else sql}" for name, sql in step.branches.items())
            return f"branch {', '.join(named)}"
        case "merge":
            return f"merge {', '.join(step.flows)}"
        case "fork":
            return ""


def _operator(node: Declaration) -> str:
    match node:
        case Source() if not _repartition(node.topic.name, node.topic.writer):
            return f"from {node.topic.name}"
        case Sink() if node.mode != "repartition":
            return f"to {node.topic.name}"
        case KeyBy():
            return f"key_by {_columns(node.key)}"
        case Select() if node.columns:
            return f"select {_columns(node.columns)}"
        case TableTableJoin():
            # The edge is named after its reader too, where the table has several.
            table = node.table.rpartition(".")[2]
            return f"{node.how} join {table}, values {_columns(node.values)}"
        case StreamTableJoin():
            return f"{node.how} join {node.table}, values {_columns(node.values)}"
        case Subscribe():
            return f"{node.how} join by {_columns(node.key)}"
        case Answer():
            return f"join {node.table}, values {_columns(node.values)}"
        case StreamJoin():
            return f"{node.how} join stream {node.other}, values {_columns(node.values)}"
        case GlobalJoin():
            return f"{node.how} join {node.table.name} by {_columns(node.by)}, values {_columns(node.values)}"
        case Reduce():
            return f"reduce {node.function.name}"
        case AggregateWith():
            return f"aggregate {node.function.name}"
        case Merge():
            return f"merge {', '.join(node.flows)}"
        case Suppress():
            return "suppress until window_closes" if node.store.type == "window_changes" else "suppress"
        case ToStream():
            return "to_stream"
        case FinalResults():
            return "emit on_close"
        case Process():
            return _processor(node)
        case Call():
            # With the function, the order of its arguments and the types: the name alone says nothing of them.
            form = " with Arrow" if node.udf.arrow else ""
            return f"call {node.column}, {node.udf.signature}, by {node.udf.function.name}{form}"
    return ""


def _processor(node: Process) -> str:
    """Without the code, which is told by itself."""
    parts = [f"process by {node.function.name}"]
    if node.options:
        parts.append(f"options {compact(dict(node.options))}")
    if node.stores:
        parts.append(f"stores {', '.join(store.name for store in node.stores)}")
    for name, flow in node.into.items():
        into = f" to {name}" if node.named else ""
        parts.append(f"forwards key ({flow.key}), value ({flow.value}){into}")
    return ", ".join(parts)


def _edges(node: Declaration) -> tuple[str, ...]:
    if isinstance(node, Source):
        return node.edges
    return (node.into,) if isinstance(node, Merge) else (flow_of(node.flow),)


def _repartition(topic: str, writer: str | None) -> bool:
    """Whether a topic is one that an application makes for itself: no topic of a project is called so."""
    return writer is not None and topic.startswith(f"{writer}-")


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(name if name == sql else f"{name}: {sql}" for name, sql in columns.items())
