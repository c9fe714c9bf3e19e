"""Which changes a table sends on: every one or the collapsed ones, with the replaced rows or without.

Collapsed, a key has one change an epoch. That is what a topic of a table gets (`emit: per_epoch`); but group-bys,
joins and `to_stream` see every change, or results would depend on where epochs end. So a table collapses its own
changes only if everything behind it leads to such topics, and no expression on the way can fail: one that fails for a
row that lasts for a moment must do so wherever epochs end. Else the sinks collapse.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...runtime.operators.declarations import Emit
from ..language.certain import cannot_fail
from ..language.expressions import Expression
from ..language.operations import Aggregation, Filter, GlobalTableJoin, Projection, Streaming, TableJoin, Tabling
from .wired import Reading, Vertex, VertexAction, Wired, Writing


@dataclass(frozen=True)
class Changes:
    """Asks what is behind a table."""

    wired: Wired

    def of(self, edge: int) -> tuple[Emit, bool]:
        """How a table that makes this edge emits, and whether with the rows that are replaced."""
        maker = self.wired.producer[edge].action
        behind = _Behind()
        self._follow(edge, behind, _counts(maker))
        ends = behind.ends
        safe = ends <= {"per_epoch"} and not behind.may_fail
        collapsed = safe and self.wired.shapes[edge].emit != "each_update"
        deletes = not (isinstance(maker, Aggregation) and maker.of == "stream")
        old = behind.filtered or "repartition" in ends or ("per_epoch" in ends and not collapsed and deletes)
        return ("collapsed" if collapsed else "each"), old

    def _follow(self, edge: int, behind: _Behind, positive: frozenset[str]) -> None:
        """Collect what is on the ways from an edge. `positive`: its value columns that are never 0 nor less."""
        for vertex in self.wired.consumers[edge]:
            onward = positive
            match vertex.action:
                case Writing(mode=mode):
                    behind.ends.add(mode)
                case Streaming():
                    behind.ends.add("stream")
                    continue
                case TableJoin() if edge in vertex.lookups:
                    behind.ends.add("join")
                    continue
                case Filter(predicate=predicate):
                    behind.filtered = True
                    behind.may_fail |= not self._is_certain(predicate, edge, positive)
                case Projection(columns=columns):
                    certain = [self._is_certain(column, edge, positive) for column in columns.values()]
                    behind.may_fail |= not all(certain)
                    onward = frozenset(name for name, column in columns.items() if _is_one_of(column, positive))
            for output in vertex.outputs:
                self._follow(output, behind, onward)

    def _is_certain(self, expression: Expression, edge: int, positive: frozenset[str]) -> bool:
        shape = self.wired.shapes[edge]
        types = {"value": shape.value, "key": shape.key}
        return cannot_fail(expression, lambda ref: types.get(ref.role, {}).get(ref.name), positive)


@dataclass
class _Behind:
    """What is behind a table: how the ways end, whether a filter or an expression that may fail is on one of them."""

    ends: set[str] = field(default_factory=set)
    filtered: bool = False
    may_fail: bool = False


def _counts(maker: VertexAction) -> frozenset[str]:
    """The results of `count(*)`: a group without rows has no row."""
    if not isinstance(maker, Aggregation):
        return frozenset()
    aggregates = (argument.aggregate for argument in maker.arguments if argument.column is None)
    return frozenset(aggregate.name for aggregate in aggregates if aggregate.function == "count")


def _is_one_of(expression: Expression, names: frozenset[str]) -> bool:
    plain = expression.plain
    return plain is not None and plain.role == "value" and plain.name in names


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
