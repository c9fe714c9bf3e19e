"""Operations as SQL steps with physical names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..language.expressions import Expression
from ..language.operations import Explosion, Filter, Projection, Rekeying, Shape
from . import graph
from .live_edge import LiveEdge
from .liveness import NOW
from .wired import Forking, Merging, Splitting, Vertex

Output = tuple[int, frozenset[str], Shape]
"""An output's number, the value columns that are needed of it, its shape."""


def sql_steps(
    vertex: Vertex, inputs: Sequence[LiveEdge], outputs: Sequence[Output], tagged: bool
) -> tuple[list[graph.SqlStep], dict[int, LiveEdge]]:
    """The steps of one vertex and the edges they make. `tagged`: several edges are live before it."""
    action, at = vertex.action, vertex.at
    edge = inputs[0]
    flow = edge.name if tagged else None
    number, needed, shape = outputs[0]
    match action:
        case Filter(predicate=predicate):
            condition = predicate.render(edge.sql)
            step = graph.SqlStep("where", flow, condition=condition, table=edge.shape.is_table, at=at)
            return [step], {number: replace(edge, shape=shape)}
        case Projection(columns=columns, word=word, null_values=null_values):
            made, out = _projection(edge, flow, columns, word, needed, shape, at)
            return [replace(made, null_values=null_values)], {number: out}
        case Rekeying(columns=columns):
            return _rekeying(edge, flow, columns, needed, number, shape, at)
        case Explosion(column=column, array=array):
            value = (*(name for name in edge.value if name in needed and name != column), column)
            out = replace(edge, shape=shape, value=value)
            keep, key = _kept(edge, out, [name for name in value if name != column])
            step = graph.SqlStep(
                "explode", flow, columns={column: array.render(edge.sql)}, key=key, keep=keep, table=False, at=at
            )
            return [step], {number: out}
        case Splitting(cases=cases, into=into):
            branches = tuple((name, None if when is None else when.render(edge.sql)) for name, when in cases)
            outs, kept = _copies(edge, into, outputs)
            step = graph.SqlStep("branch", flow, branches=branches, into=into, keep=kept, at=at)
            return [step], outs
        case Forking(into=into):
            if len(into) == 1:
                return [], {number: replace(edge, shape=shape)}
            outs, kept = _copies(edge, into, outputs)
            return [graph.SqlStep("fork", flow, into=into, keep=kept, table=edge.shape.is_table, at=at)], outs
        case Merging(into=name):
            return _merge(vertex, inputs, name, needed, number, shape)
    raise AssertionError(f"{action} is not for SQL")


def _projection(
    edge: LiveEdge,
    flow: str | None,
    columns: Mapping[str, Expression],
    word: str,
    needed: frozenset[str],
    shape: Shape,
    at: str,
) -> tuple[graph.SqlStep, LiveEdge]:
    wanted = {name: expression for name, expression in columns.items() if name in needed}
    now = (NOW,) if NOW in needed and NOW in edge.value else ()
    out = replace(edge, shape=shape, value=(*wanted, *now))
    unchanged = [
        name for name, e in wanted.items() if e.plain is not None and (e.plain.role, e.plain.name) == ("value", name)
    ]
    computed = {name: e.render(edge.sql) for name, e in wanted.items() if name not in unchanged}
    keep, key = _kept(edge, out, [*unchanged, *now])
    kind: graph.SqlKind = "with_columns" if word == "with_columns" else "select"
    return graph.SqlStep(kind, flow, columns=computed, key=key, keep=keep, table=edge.shape.is_table, at=at), out


def _rekeying(
    edge: LiveEdge,
    flow: str | None,
    columns: Mapping[str, Expression],
    needed: frozenset[str],
    number: int,
    shape: Shape,
    at: str,
) -> tuple[list[graph.SqlStep], dict[int, LiveEdge]]:
    value = tuple(name for name in edge.value if name in needed)
    out = replace(edge, shape=shape, value=value)
    key = {out.physical_key[name]: expression.render(edge.sql) for name, expression in columns.items()}
    step = graph.SqlStep("key_by", flow, key=key, keep=value, table=edge.shape.is_table, at=at)
    return [step], {number: out}


def _kept(edge: LiveEdge, out: LiveEdge, unchanged: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """What passes a projection unchanged, and the key columns whose physical names change (new -> old)."""
    before, after = edge.physical_key, out.physical_key
    same = [after[name] for name in after if before[name] == after[name]]
    renamed = {after[name]: before[name] for name in after if before[name] != after[name]}
    return (*same, *unchanged), renamed


def _copies(
    edge: LiveEdge, into: Sequence[str], outputs: Sequence[Output]
) -> tuple[dict[int, LiveEdge], tuple[str, ...] | None]:
    """Edges with the columns that any of them needs, and what is kept (None: everything).

    A value column with a key column's name stays, so that physical names do not change here.
    """
    needed = frozenset[str]().union(*(columns for _, columns, _ in outputs), edge.shape.key)
    value = tuple(name for name in edge.value if name in needed)
    outs = {
        number: replace(edge, name=name, shape=shape, value=value)
        for name, (number, _, shape) in zip(into, outputs, strict=True)
    }
    keep = None if value == edge.value else (*edge.physical_key.values(), *value)
    return outs, keep


def _merge(
    vertex: Vertex, inputs: Sequence[LiveEdge], name: str, needed: frozenset[str], number: int, shape: Shape
) -> tuple[list[graph.SqlStep], dict[int, LiveEdge]]:
    """A merge needs edges of equal columns, so those that carry others are cut first."""
    value = tuple(column for column in (*shape.value, NOW) if column in needed)
    steps = []
    for edge in inputs:
        if edge.value != value:
            keep, key = _kept(edge, replace(edge, value=value), value)
            steps.append(graph.SqlStep("select", edge.name, key=key, keep=keep, at=vertex.at))
    merged = graph.SqlStep("merge", None, flows=tuple(edge.name for edge in inputs), into=(name,), at=vertex.at)
    return [*steps, merged], {number: LiveEdge(name, shape, value)}
