"""Which columns travel: only those that some later step reads, back to the topics themselves.

Keys always travel whole. `NOW` stands for the epoch's planned time, which every Python stage can add to what it
hands to SQL, so it is needed no further back than the stage before.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..language.expressions import Expression
from ..language.operations import (
    Aggregation,
    Explosion,
    Filter,
    GlobalTableJoin,
    Materialization,
    Projection,
    Rekeying,
    Settling,
    Streaming,
    TableJoin,
    Tabling,
)
from .wired import Reading, Splitting, Vertex, Wired, Writing

NOW = "_now"

Needed = dict[int, frozenset[str]]


def live_columns(wired: Wired) -> Needed:
    """For each edge the value columns that are read further on."""
    needed: dict[int, set[str]] = {edge: set() for edge in wired.shapes}
    topics: dict[str, set[str]] = {}
    for vertex in reversed(wired.vertices):
        output = frozenset[str]().union(*(needed[edge] for edge in vertex.outputs))
        if isinstance(vertex.action, Reading) and vertex.action.repartition:
            topics.setdefault(vertex.action.topic.name, set()).update(output - {NOW})
        for edge in vertex.inputs:
            needed[edge] |= _input(vertex, output, set(wired.shapes[edge].value), topics)
        if isinstance(vertex.action, TableJoin):
            for edge in vertex.lookups:
                needed[edge] |= {old for new, old in vertex.action.values.items() if new in output}
    return {edge: frozenset(columns) for edge, columns in needed.items()}


def _input(vertex: Vertex, output: frozenset[str], all_: set[str], topics: dict[str, set[str]]) -> set[str]:
    """The columns that an operation needs, given those that are needed of what it makes."""
    action = vertex.action
    match action:
        case Filter(predicate=predicate):
            return {*output, *_reads([predicate])}
        case Projection(columns=columns):
            passed = output & {NOW}
            return {*passed, *_reads(e for name, e in columns.items() if name in output)}
        case Rekeying(columns=columns):
            return {*output, *_reads(columns.values())}
        case Explosion(column=column, array=array):
            return {*(output - {column}), *_reads([array])}
        case Splitting(cases=cases):
            return {*output, *_reads(when for _, when in cases if when is not None)}
        case TableJoin(values=values):
            return set(output - values.keys() - {NOW})
        case GlobalTableJoin(by=by, values=values):
            return {*(output - values.keys() - {NOW}), *_arguments(by.values())}
        case Aggregation(arguments=arguments):
            return _arguments(argument.column for argument in arguments if argument.column is not None)
        case Writing(topic=topic, mode=mode):
            return set(topics.get(topic.name, set())) if mode == "repartition" else all_
        case Tabling() | Materialization():
            return all_
        case Settling() | Streaming():
            return set(output - {NOW})
    return set(output)


def _reads(expressions: Iterable[Expression]) -> set[str]:
    """The value columns that expressions read, and `NOW`."""
    found = set()
    for expression in expressions:
        for ref in expression.refs:
            if ref.role == "value":
                found.add(ref.name)
            elif ref.name == NOW:
                found.add(NOW)
    return found


def _arguments(expressions: Iterable[Expression]) -> set[str]:
    """The value columns in which an operator finds its arguments."""
    return {e.as_column.name for e in expressions if e.as_column.role == "value"}
