"""Finds the joins of two tables of which one is made of the other, or both of a third one, row by row.

A change of the table then reaches the join twice, once on each side. Kafka Streams looks such rows up in the store of
the table that both come from, so that each of the two meets what the other side has after the change. Here the sides
have stores of their own. So the join is told of the table's changes before any reader of the table is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..operations.base.checked import CheckedFlow, CheckedTopology, PlacedOperation, Repartition
from ..operations.joins.tables import JoinOfTables


@dataclass(frozen=True)
class Related:
    """The tables whose changes a join is told of early: of this side and of the other one; None for neither."""

    this: str | None = None
    other: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are there."""
        return tuple(name for name in (self.this, self.other) if name is not None)


def related_tables(topology: CheckedTopology, flow: CheckedFlow, join: PlacedOperation) -> Related:
    """The tables that a join of two tables must be told of early. Each is what a side is, without a step in between."""
    assert isinstance(join.operation, JoinOfTables)
    other = join.operation.looks_at()
    place = next(number for number, each in enumerate(flow.operations) if each is join)
    before = flow.operations[:place]
    if not flow.before.is_table or not _row_by_row(before):
        return Related()
    (this,) = flow.sources
    origin = _origin(topology, this)
    if origin != _origin(topology, other):
        return Related()
    return Related(this if this == origin and not before else None, other if other == origin else None)


def told_early(topology: CheckedTopology) -> Iterator[str]:
    """The tables that some join is told of early."""
    for flow in topology.flows.values():
        for placed in flow.operations:
            if isinstance(placed.operation, JoinOfTables):
                yield from related_tables(topology, flow, placed).names


def _origin(topology: CheckedTopology, name: str) -> str:
    """The table or flow of which this one is made row by row."""
    flow = topology.flows.get(name)
    if flow is None or not flow.before.is_table or not _row_by_row(flow.operations):
        return name
    return _origin(topology, flow.sources[0])


def _row_by_row(operations: Sequence[PlacedOperation]) -> bool:
    return all(
        not isinstance(each.operation, Repartition) and each.operation.table_use(each.before, frozenset()).sees is None
        for each in operations
    )
