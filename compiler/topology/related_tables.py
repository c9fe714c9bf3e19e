"""Finds the stored tables whose changes a join needs before the changes of the tables derived from them.

A change of a table may reach a join on several paths: on both sides, if one is derived from the other or both from a
third table; or on one side, while the join looks up rows of the other. Kafka Streams looks up rows where they are
stored, through filters, selects and joins of tables, so every path sees the other side after the change. Here a derived
table has its own store, which changes on the path. So the join also reads the changes of the stored table.
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
    """The stored tables whose changes a join reads: those from which this side, and the other one, are derived."""

    this: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The tables of both sides."""
        return (*self.this, *self.other)


class RelatedTables:
    """The stored tables whose changes the joins of a topology read, besides their sides. `names`: all of them."""

    def __init__(self, topology: CheckedTopology) -> None:
        self._upstream: dict[str, frozenset[str]] = {}
        """Flow -> the topics, tables and flows upstream of its end, in the same task."""
        self._stored: dict[str, tuple[str, ...]] = {}
        """Flow that is a table -> the tables in whose stores Kafka Streams looks up its rows."""
        for flow in topology.flows.values():
            upstream = self._upstream_of(flow, flow.operations)
            self._upstream[flow.name] = upstream
            self._stored[flow.name] = self._stored_of(flow, flow.operations)
            for placed in flow.operations:
                if isinstance(placed.operation, Branching | Splitting):
                    self._upstream |= dict.fromkeys(placed.operation.into, upstream)
        self.names = frozenset(self._names(topology))

    def find(self, flow: CheckedFlow, join: PlacedOperation) -> Related:
        """The stored tables whose changes a join of `flow` reads."""
        assert isinstance(join.operation, Lookup)
        table = join.operation.looks_at()
        index = next(number for number, placed in enumerate(flow.operations) if placed is join)
        before = flow.operations[:index]
        upstream_this = self._upstream_of(flow, before)
        other = tuple(name for name in self._stored.get(table, (table,)) if name in upstream_this)
        if not isinstance(join.operation, JoinOfTables):
            # A stream reads the first copy of the table's own changes.
            return Related(other=tuple(name for name in other if name != table))
        upstream_other = {table} | self._upstream.get(table, _NOTHING)
        return Related(tuple(name for name in self._stored_of(flow, before) if name in upstream_other), other)

    def _names(self, topology: CheckedTopology) -> Iterator[str]:
        for flow in topology.flows.values():
            for placed in flow.operations:
                if isinstance(placed.operation, JoinOfTables | TableJoin):
                    yield from self.find(flow, placed).names

    def _upstream_of(self, flow: CheckedFlow, operations: Sequence[PlacedOperation]) -> frozenset[str]:
        """The topics, tables and flows upstream of the end of a flow's first `operations`, in the same task."""
        upstream = _NOTHING.union(flow.sources, *(self._upstream.get(source, ()) for source in flow.sources))
        for placed in operations:
            operation, name = placed.operation, None
            if isinstance(operation, Repartition | ResponseJoin):
                upstream = _NOTHING
            elif isinstance(operation, JoinOfTables):
                name = operation.looks_at()
            elif isinstance(operation, StreamPair) and operation.second.repartition is None:
                name = operation.second.name
            if name is not None:
                upstream |= {name} | self._upstream.get(name, _NOTHING)
        return upstream

    def _stored_of(self, flow: CheckedFlow, operations: Sequence[PlacedOperation]) -> tuple[str, ...]:
        """The stored tables with the rows behind a flow's first `operations`. A store of the flow has its name."""
        stored: dict[str, None] = {flow.name: None}
        if flow.before.is_table:
            stored = dict.fromkeys(self._stored.get(flow.sources[0], flow.sources))
        for placed in operations:
            if isinstance(placed.operation, JoinOfTables):
                table = placed.operation.looks_at()
                stored |= dict.fromkeys(self._stored.get(table, (table,)))
            elif not _row_by_row(placed):
                stored = {flow.name: None}
        return tuple(stored)


def _row_by_row(placed: PlacedOperation) -> bool:
    operation = placed.operation
    return not isinstance(operation, Repartition) and operation.table_use(placed.before, frozenset()).sees is None
