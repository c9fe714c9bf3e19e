"""The join of two tables with the same key: a table, whose row of a key changes with the rows of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import TableHow, TableTableJoin
from ....runtime.topology import Store
from ..base.context import FlowContext
from ..base.edge import NOW, LiveEdge
from ..base.operation import EVERY_CHANGE, Description, Lookup, Processor, TableUse, store_names
from ..base.shape import UNKNOWN, Shape
from ..base.site import PythonLayout, Site
from ..base.step import Step
from .columns import Plan, WrittenJoin, added, co_partitioned, compute, joined_table, planned, refused
from .windows import joined_closing, joined_windows


def check_tables(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require a table with the same key, windows of the same kind if there are some, and number of partitions."""
    side = joined_table(context, join)
    columns = added(context, join, shape, side)
    if refused(context, join, shape, side):
        return UNKNOWN
    if not shape.open and not side.open:
        co_partitioned(context, join, shape, side)
    plan = planned(join, shape, side, columns)
    if plan.complete:
        _has_a_name(context, step, join, shape)
        plan = _in_windows(plan, shape, side)
        context.add(JoinOfTables(join.table.text, join.how, plan.values), shape, plan.found, step)
        compute(context, step, join, plan, plan.found)
    return plan.after


def _in_windows(plan: Plan, shape: Shape, side: Shape) -> Plan:
    """The plan with what is known of the windows of the rows, if they have some."""
    if not shape.windowed:
        return plan
    found, after = (
        replace(
            each,
            dropped_windows=joined_windows(shape, side),
            closes_ms=joined_closing(shape, side),
        )
        for each in (plan.found, plan.after)
    )
    return replace(plan, found=found, after=after)


def _has_a_name(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> None:
    """Report a second store of this side with the name of an earlier one: of flow and step, or flow and table."""
    if shape.store is not None:
        return
    name = step.name.text if step.name else join.table.text
    taken = {
        each.name or each.operation.table
        for each in context.operations
        if isinstance(each.operation, JoinOfTables) and each.before.store is None
    }
    if name in taken:
        message = f"The store '{context.name.text}-{name}', of this side of the join, is there already."
        context.report("HW309", step.word.position, message, "Give one of the joins a `name` of its own.")


@dataclass(frozen=True)
class JoinOfTables(Lookup):
    """Joins two tables by their keys. `values`: new column -> column of the other table.

    `made_of`: of how many stored tables it is told that this side, and the other one, are made of. It looks at them
    besides, in this order.
    """

    table: str
    how: TableHow
    values: Mapping[str, str]
    made_of: tuple[int, int] = (0, 0)

    has_effect = False
    null_keys = "dropped"
    triggered = True

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns of this side that are read later."""
        return output - self.values.keys() - {NOW}

    def looks_at(self) -> str:
        return self.table

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The other table's columns that are read later."""
        return frozenset(self._wanted(output).values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each change of either side meets the other as it is at that moment."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """`lookups`: this side and the other. Each side looks into the store of the other one."""
        this, other = (store_names([shape]) for shape in lookups)
        return Description(
            f"{self.how} join {self.table}",
            chain=(Processor("KTABLE-MERGE"),),
            sides=(Processor("KTABLE-JOINTHIS", stores=other), Processor("KTABLE-JOINOTHER", stores=this)),
        )

    def in_python(self, site: Site) -> PythonLayout:
        this, (other, *stored) = site.input, site.lookups
        names = tuple(edge.name for edge in stored)
        store, other_store = _declared(site, this), _declared(site, other)
        values = self._wanted(site.output.needed)
        emit, old = site.changes(frozenset(), True)
        if old and this.shape.windowed:
            # What it replaces depends on which rows are forgotten by then, so each change has to meet what filters it.
            emit = "each_update"
        node = TableTableJoin(
            this.name,
            other.name,
            store,
            other_store,
            self.how,
            values,
            emit,
            old,
            names[: self.made_of[0]],
            names[self.made_of[0] :],
            site.at,
        )
        value = (*this.value, *(name for name in values if name not in this.value))
        return PythonLayout((node,), (replace(this, shape=site.output.shape, value=value),))

    def _wanted(self, needed: frozenset[str]) -> dict[str, str]:
        return {new: old for new, old in self.values.items() if new in needed}


def _declared(site: Site, edge: LiveEdge) -> Store:
    assert edge.shape.store is not None, f"{edge.name} has been given a store"
    return site.declared.stores[edge.shape.store.name]
