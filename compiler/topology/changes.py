"""Decides which changes a table emits: every change or collapsed ones, with or without the replaced rows.

Collapsed changes are one per key and epoch. A topic written from a table gets these (`emit: per_epoch`). Aggregates,
joins and `to_stream` get every change, because otherwise results would depend on where epochs end.

A table collapses its changes under two conditions. All changes must end in topics with collapsed changes, and no
expression on the way may fail: an expression that fails for a row of a moment must fail wherever epochs end. Otherwise
the sinks collapse the changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...runtime.engine.operators.operator import Emit
from ..operations.base.operation import EVERY_CHANGE, Operation, TableUse
from .connections import Reading, Writing
from .operation_graph import GraphOperation, OperationGraph


@dataclass(frozen=True)
class Changes:
    """Decides the emitted changes of a topology's tables."""

    wired: OperationGraph

    def emitted(self, edge: int, positive: frozenset[str], deletes: bool) -> tuple[Emit, bool]:
        """How the table with this output edge emits changes, and whether it also emits the replaced rows.

        `positive`: its value columns that are always above 0. `deletes`: its rows can be deleted.
        """
        uses = list(self._uses(edge, positive))
        ends = {use.sees for use in uses} - {None}
        safe = ends <= {"per_epoch"} and not any(use.may_fail for use in uses)
        collapsed = safe and self.wired.shapes[edge].emit != "each_update"
        filtered = any(use.filters for use in uses)
        old = filtered or "repartition" in ends or ("per_epoch" in ends and not collapsed and deletes)
        return ("per_epoch" if collapsed else "each_update"), old

    def _uses(self, edge: int, positive: frozenset[str]) -> Iterator[TableUse]:
        """How the operations downstream of an edge use its changes."""
        for op in self.wired.consumers[edge]:
            if edge in op.lookups:
                yield EVERY_CHANGE
                continue
            use = op.operation.table_use(self.wired.shapes[edge], positive)
            yield use
            if use.sees is None:
                for output in op.outputs:
                    yield from self._uses(output, use.positive)


def with_null_keys(wired: OperationGraph) -> OperationGraph:
    """The graph, with null keys written to repartition topics with a reader that keeps them."""

    def change(op: GraphOperation) -> Operation:
        if isinstance(op.operation, Writing):
            return replace(op.operation, keep_null_keys=_null_keys_matter(wired, op.operation))
        return op.operation

    return wired.with_operations(change)


def _null_keys_matter(wired: OperationGraph, writing: Writing) -> bool:
    """Whether a reader of a repartition topic keeps null keys, as a left join of a stream does."""
    consumers = wired.consumers
    readers = {v.operation.topic.name: v for v in wired.operations if isinstance(v.operation, Reading)}
    seen: set[int] = set()

    def keeps(op: GraphOperation) -> bool:
        # Topics can form a cycle.
        if op.number in seen:
            return False
        seen.add(op.number)
        return any(reaches(reader) for edge in op.outputs for reader in consumers[edge])

    def reaches(op: GraphOperation) -> bool:
        operation = op.operation
        if isinstance(operation, Writing):
            return through(operation)
        if operation.null_keys == "passed":
            return keeps(op)
        return operation.null_keys == "kept"

    def through(sink: Writing) -> bool:
        return sink.mode == "repartition" and sink.topic.name in readers and keeps(readers[sink.topic.name])

    return through(writing)
