"""Which changes a table sends on: every one or the collapsed ones, with the replaced rows or without.

Collapsed, a key has one change an epoch. That is what a topic of a table gets (`emit: per_epoch`); but group-bys,
joins and `to_stream` see every change, or results would depend on where epochs end. So a table collapses its own
changes only if everything behind it leads to such topics; else the sinks do it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.operations import Aggregation, Filter, GlobalTableJoin, Streaming, TableJoin, Tabling
from .graph import Emit
from .wired import Reading, Vertex, Wired, Writing


@dataclass(frozen=True)
class Changes:
    """Asks what is behind a table."""

    wired: Wired

    def of(self, edge: int) -> tuple[Emit, bool]:
        """How a table that makes this edge emits, and whether with the rows that are replaced."""
        ends: set[str] = set()
        filtered = self._follow(edge, ends)
        collapsed = ends <= {"per_epoch"} and self.wired.shapes[edge].emit != "each_update"
        old = filtered or "repartition" in ends or ("per_epoch" in ends and not collapsed)
        return ("collapsed" if collapsed else "each"), old

    def _follow(self, edge: int, ends: set[str]) -> bool:
        """Collect how the ways from an edge end; whether a filter is on one of them."""
        filtered = False
        for vertex in self.wired.consumers[edge]:
            match vertex.action:
                case Writing(mode=mode):
                    ends.add(mode)
                case Streaming():
                    ends.add("stream")
                case TableJoin() if edge in vertex.lookups:
                    ends.add("join")
                case action:
                    filtered = isinstance(action, Filter) or filtered
                    for output in vertex.outputs:
                        filtered = self._follow(output, ends) or filtered
        return filtered


def null_keys_matter(wired: Wired, topic: str) -> bool:
    """Whether some reader of a repartition topic keeps records without a key: a left join of a stream does."""
    consumers = wired.consumers
    readers = {v.action.topic.name: v for v in wired.vertices if isinstance(v.action, Reading)}
    seen: set[int] = set()

    def keeps(vertex: Vertex) -> bool:
        if vertex.number in seen:
            return False
        seen.add(vertex.number)
        following = [reader for edge in vertex.outputs for reader in consumers[edge]]
        return any(reaches(reader) for reader in following)

    def reaches(vertex: Vertex) -> bool:
        match vertex.action:
            case TableJoin(how="left") | GlobalTableJoin(how="left"):
                return True
            case Writing(mode="repartition", topic=other):
                return other.name in readers and keeps(readers[other.name])
            case TableJoin() | Aggregation() | Tabling() | Writing():
                return False
        return keeps(vertex)

    return topic in readers and keeps(readers[topic])
