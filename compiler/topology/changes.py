"""Decides which changes a table emits: every change or collapsed ones, with or without the rows that they replace.

Collapsed, a key has one change in each epoch. A topic that is written from a table gets these (`emit: per_epoch`).
Group-bys, joins and `to_stream` see every change, because otherwise results would depend on where epochs end.

So a table collapses its own changes only under two conditions. All changes must end in such topics, and no expression
on the way may fail: an expression that fails for a row that existed for a moment must fail wherever epochs end. If one
of the conditions does not hold, the sinks collapse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...runtime.ir.declarations import Emit
from ..operations.base.operation import EVERY_CHANGE, TableUse
from .connections import Reading, Writing
from .operation_graph import Vertex, Wired


@dataclass(frozen=True)
class Changes:
    """Decides for each table of a wired topology."""

    wired: Wired

    def of(self, edge: int, positive: frozenset[str], deletes: bool) -> tuple[Emit, bool]:
        """How the table that makes this edge emits, and whether with the rows that are replaced.

        `positive`: its value columns that are always above 0. `deletes`: whether its rows can disappear.
        """
        uses = list(self._behind(edge, positive))
        ends = {use.sees for use in uses} - {None}
        safe = ends <= {"per_epoch"} and not any(use.may_fail for use in uses)
        collapsed = safe and self.wired.shapes[edge].emit != "each_update"
        filtered = any(use.filters for use in uses)
        old = filtered or "repartition" in ends or ("per_epoch" in ends and not collapsed and deletes)
        return ("per_epoch" if collapsed else "each_update"), old

    def _behind(self, edge: int, positive: frozenset[str]) -> Iterator[TableUse]:
        """How each operation that the edge's changes reach uses them."""
        for vertex in self.wired.consumers[edge]:
            if edge in vertex.lookups:
                yield EVERY_CHANGE
                continue
            use = vertex.operation.table_use(self.wired.shapes[edge], positive)
            yield use
            if use.sees is None:
                for output in vertex.outputs:
                    yield from self._behind(output, use.positive)


def with_null_keys(wired: Wired) -> Wired:
    """The graph in which a sink writes records without a key to a repartition topic if some reader keeps them."""
    vertices = (
        replace(vertex, operation=replace(vertex.operation, keep_null_keys=_null_keys_matter(wired, vertex.operation)))
        if isinstance(vertex.operation, Writing)
        else vertex
        for vertex in wired.vertices
    )
    return Wired(tuple(vertices), wired.shapes)


def _null_keys_matter(wired: Wired, writing: Writing) -> bool:
    """Whether some reader of a repartition topic keeps records without a key, as a left join of a stream does."""
    consumers = wired.consumers
    readers = {v.operation.topic.name: v for v in wired.vertices if isinstance(v.operation, Reading)}
    seen: set[int] = set()

    def keeps(vertex: Vertex) -> bool:
        # Topics can form a circle.
        if vertex.number in seen:
            return False
        seen.add(vertex.number)
        return any(reaches(reader) for edge in vertex.outputs for reader in consumers[edge])

    def reaches(vertex: Vertex) -> bool:
        operation = vertex.operation
        if isinstance(operation, Writing):
            return through(operation)
        if operation.null_keys == "passed":
            return keeps(vertex)
        return operation.null_keys == "kept"

    def through(sink: Writing) -> bool:
        return sink.mode == "repartition" and sink.topic.name in readers and keeps(readers[sink.topic.name])

    return through(writing)
