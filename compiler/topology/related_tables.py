"""Finds the tables of which a join must be told before all that is made of them.

A change of a table may come to a join on several ways: on both sides, as one of them is made of the other or both of a
third table; or on one side, while rows of the other are looked up. Kafka Streams looks where rows are stored, through
filters, selects and joins of tables. So each way meets what the other side is after the change. Here what these steps
make of a table has a store of its own, which changes on the way. So the join is told when the stored table changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..operations.base.context import CheckedFlow, CheckedTopology, PlacedOperation, Repartition, StreamPair
from ..operations.base.operation import Lookup, Splitting
from ..operations.branch import Branching
from ..operations.joins.tables import JoinOfTables
from ..operations.parts.joins import ResponseJoin, TableJoin

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Related:
    """The stored tables that a join is told of: those that this side, and the other one, are made of."""

    this: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.this, *self.other)


class RelatedTables:
    """Which tables of a topology the joins must be told of."""

    def __init__(self, topology: CheckedTopology) -> None:
        self._above: dict[str, frozenset[str]] = {}
        """Flow -> the topics, tables and flows from which records come to its end within a task."""
        self._stored: dict[str, tuple[str, ...]] = {}
        """Flow that is a table -> the tables in whose stores Kafka Streams looks for its rows."""
        for flow in topology.flows.values():
            above = self._above_of(flow, flow.operations)
            self._above[flow.name] = above
            self._stored[flow.name] = self._stored_of(flow, flow.operations)
            for each in flow.operations:
                if isinstance(each.operation, Branching | Splitting):
                    self._above |= dict.fromkeys(each.operation.into, above)
        self.told = frozenset(self._told(topology))

    def of(self, flow: CheckedFlow, join: PlacedOperation) -> Related:
        """The tables that a join must be told of, one of `flow`."""
        assert isinstance(join.operation, Lookup)
        table = join.operation.looks_at()
        place = next(number for number, each in enumerate(flow.operations) if each is join)
        before = flow.operations[:place]
        above_this = self._above_of(flow, before)
        other = tuple(each for each in self._stored.get(table, (table,)) if each in above_this)
        if not isinstance(join.operation, JoinOfTables):
            # A stream looks into the first copy of the table's own changes.
            return Related(other=tuple(each for each in other if each != table))
        above_other = {table} | self._above.get(table, _NOTHING)
        return Related(tuple(each for each in self._stored_of(flow, before) if each in above_other), other)

    def _told(self, topology: CheckedTopology) -> Iterator[str]:
        for flow in topology.flows.values():
            for placed in flow.operations:
                if isinstance(placed.operation, JoinOfTables | TableJoin):
                    yield from self.of(flow, placed).names

    def _above_of(self, flow: CheckedFlow, operations: Sequence[PlacedOperation]) -> frozenset[str]:
        """What comes to the end of a flow's first `operations` in the task that has taken it."""
        found: frozenset[str] = _NOTHING.union(flow.sources, *(self._above.get(each, ()) for each in flow.sources))
        for each in operations:
            operation, name = each.operation, None
            if isinstance(operation, Repartition | ResponseJoin):
                found = _NOTHING
            elif isinstance(operation, JoinOfTables):
                name = operation.looks_at()
            elif isinstance(operation, StreamPair) and operation.second.repartition is None:
                name = operation.second.name
            if name is not None:
                found |= {name} | self._above.get(name, _NOTHING)
        return found

    def _stored_of(self, flow: CheckedFlow, operations: Sequence[PlacedOperation]) -> tuple[str, ...]:
        """Where rows are found behind a flow's first `operations`: what is stored in the flow itself has its name."""
        found: dict[str, None] = {flow.name: None}
        if flow.before.is_table:
            found = dict.fromkeys(self._stored.get(flow.sources[0], flow.sources))
        for each in operations:
            if isinstance(each.operation, JoinOfTables):
                table = each.operation.looks_at()
                found |= dict.fromkeys(self._stored.get(table, (table,)))
            elif not _row_by_row(each):
                found = {flow.name: None}
        return tuple(found)


def _row_by_row(placed: PlacedOperation) -> bool:
    operation = placed.operation
    return not isinstance(operation, Repartition) and operation.table_use(placed.before, frozenset()).sees is None
