"""Processors that share stores: they are in one subtopology, and process records in turns, in one Python stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..operations.base.operation import EitherOperation, SqlOperation
from ..operations.process import Processing
from .connections import Reading
from .operation_graph import GraphOperation, OperationGraph, written_by

Group = tuple[GraphOperation, ...]
"""Processors that share stores, directly or through others, with the steps between them, in order."""


def sharing(wired: OperationGraph) -> tuple[Group, ...]:
    """All groups of at least two processors."""
    groups: list[set[int]] = []
    names: list[set[str]] = []
    for op in wired.operations:
        group, stores = {op.number}, set(shared_names(op))
        for number in reversed(range(len(groups))):
            if names[number] & stores:
                group |= groups.pop(number)
                stores |= names.pop(number)
        if stores:
            groups.append(group)
            names.append(stores)
    shared = sorted((group for group in groups if len(group) > 1), key=min)
    return tuple(_with_steps_between(wired, group) for group in shared)


def shared_names(op: GraphOperation) -> tuple[str, ...]:
    """The stores of a processor."""
    return tuple(store.name for store in op.operation.stores) if isinstance(op.operation, Processing) else ()


def _with_steps_between(wired: OperationGraph, members: set[int]) -> Group:
    """The members, and the stateless steps on the paths between them."""
    behind: set[int] = set()
    for op in wired.operations:
        if _sources(op, wired) & (behind | members) and _is_stateless(op):
            behind.add(op.number)
    between: set[int] = set()
    for op in reversed(wired.operations):
        if op.number in members or op.number in between:
            between |= _sources(op, wired) & behind
    return tuple(op for op in wired.operations if op.number in members or op.number in between)


def _is_stateless(op: GraphOperation) -> bool:
    """Whether an operation needs neither state nor a topic, and calls no Python function."""
    return isinstance(op.operation, SqlOperation | EitherOperation)


def grouped_order(
    operations: Sequence[GraphOperation], groups: Sequence[Group], wired: OperationGraph
) -> list[GraphOperation]:
    """The operations of a stage, upstream ones first, with operations of a group next to one another."""
    if not groups:
        return list(operations)
    units = [[op] for op in operations]
    for group in groups:
        mine = [unit for unit in units if unit[0] in group]
        if mine:
            mine[0][:] = [op for unit in mine for op in unit]
            units = [unit for unit in units if unit not in mine[1:]]
    ordered: list[GraphOperation] = []
    waiting = {op.number for op in operations}
    while units:
        ready = (unit for unit in units if not any(_sources(op, wired) & (waiting - _numbers(unit)) for op in unit))
        unit = next(ready)
        ordered += unit
        waiting -= _numbers(unit)
        units.remove(unit)
    return ordered


def detours(wired: OperationGraph, group: Group) -> Iterator[tuple[GraphOperation, GraphOperation, GraphOperation]]:
    """Paths that leave a group and come back: the last operation in the group, the first one back in it, and the one
    before that.
    """
    numbers = _numbers(group)
    for op in group:
        for other in _before(wired, op):
            if other.number in numbers:
                continue
            last = next((upstream for upstream in all_before(wired, other) if upstream.number in numbers), None)
            if last is not None:
                yield last, op, other


def cycles(wired: OperationGraph) -> Iterator[str]:
    """The repartition topics that the same subtopology writes and reads, because a shared store connects its parts."""
    for part in wired.components():
        read = {v.operation.topic.name for v in part if isinstance(v.operation, Reading) and v.operation.repartition}
        written = written_by(part)
        yield from sorted(read & written)


def _numbers(operations: Sequence[GraphOperation]) -> set[int]:
    return {op.number for op in operations}


def _sources(op: GraphOperation, wired: OperationGraph) -> set[int]:
    return {wired.producer[edge].number for edge in (*op.inputs, *op.lookups)}


def _before(wired: OperationGraph, op: GraphOperation) -> list[GraphOperation]:
    """The producers of an operation's input; for a source, the sinks of its topic."""
    before = [wired.producer[edge] for edge in (*op.inputs, *op.lookups)]
    if isinstance(op.operation, Reading):
        topic = op.operation.topic.name
        before += [v for v in wired.operations if topic in v.written]
    return before


def all_before(wired: OperationGraph, op: GraphOperation) -> Iterator[GraphOperation]:
    """An operation, and all upstream of it, also through topics."""
    seen: set[int] = set()
    left = [op]
    while left:
        current = left.pop()
        if current.number not in seen:
            seen.add(current.number)
            yield current
            left += _before(wired, current)
