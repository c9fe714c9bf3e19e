"""Joins of two tables, also by foreign key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.ir.declarations import HASH, JOINING_EDGES, How, TableHow, TableTableJoin
from ....runtime.ir.topology import Store
from ...entries import declared_store
from ...language.expressions import Expression
from ..base.context import FlowContext, Repartition, Step
from ..base.operation import EVERY_CHANGE, Description, Lookup, Processor, TableUse, store_names
from ..base.site import NOW, UNKNOWN, LiveEdge, PythonLayout, Shape, Site
from ..parts.joins import ANSWER_COLUMNS, SUBSCRIPTION_COLUMNS, Answering, Responding, Subscribing
from ..parts.projection import called, with_arguments
from ..parts.tables import Keeping, Settling, ToTable, kept_rows
from .columns import (
    Plan,
    WrittenJoin,
    added,
    co_partitioned,
    compute,
    joined_closing,
    joined_table,
    joined_windows,
    looked_up_by,
    planned,
    refused,
)

# The join of two tables with the same key: a table, whose row of a key changes with the rows of either.


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


# A table's rows look up rows of another table by a foreign key, and both sides' changes change the result.

ROWS, SUBSCRIPTIONS, JOINED, EXPIRED = "rows", "subscriptions", "joined", "expired"
"""The stores of a join: the flow's rows if they are in none, the subscriptions to the table's rows, and the result; of
a flow with windows, its rows that have expired, until the last answer to them has come.
"""

FOREIGN_KEY_STORES = (ROWS, SUBSCRIPTIONS, JOINED)


def check_foreign_key(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require `by` with the other table's key. The tables may have other numbers of partitions."""
    side = joined_table(context, join)
    columns = added(context, join, shape, side)
    plan = planned(join, shape, side, columns)
    if refused(context, join, shape, side):
        return plan.after
    by = looked_up_by(context, join, shape, side)
    if not plan.complete or by is None:
        return plan.after
    return _Layout(context, step, join, side, plan).add(shape, by)


@dataclass(frozen=True)
class _Layout:
    """Adds the operations of a join. Its stores and topics are named after the flow, and the step if it has a name."""

    context: FlowContext
    step: Step
    join: WrittenJoin
    side: Shape
    plan: Plan

    def add(self, shape: Shape, by: Mapping[str, Expression]) -> Shape:
        context, step = self.context, self.step
        ready = with_arguments(context, step, called(context, step, shape, list(by.values())), list(by.values()))
        if ready.store is None:
            store = kept_rows(f"{self._name}-{ROWS}", ready)
            ready = context.add(Keeping(store), ready, replace(ready, store=store), step)
        asked = self._subscription(ready)
        expires = ready.windows is not None
        expired = self._store(EXPIRED, ready, ready.key, ready.value) if expires else None
        asking = Subscribing(self.join.table.text, self._how, by, self._edge, expired)
        context.add(asking, ready, asked, step)
        _, _, receiving, answers, last = JOINING_EDGES
        self._exchange("subscription", asked, receiving)
        found = {name: self.side.value.get(old) for name, old in self.plan.values.items()}
        answer = replace(ready, value={**ANSWER_COLUMNS, **found}, store=None)
        store = self._store(SUBSCRIPTIONS, asked, {**_keys_of(asked, ready)}, {HASH: "binary"})
        context.add(Answering(self.join.table.text, store, tuple(ready.key), self.plan.values), asked, answer, step)
        self._exchange("response", answer, answers)
        joined = replace(ready.with_value({**ready.value, **found}), kind="stream")
        ended = f"{self._edge}.{last}" if expires else ""
        asks_by = by if expires else {}
        responding = Responding(self._how, tuple(ready.value), context.name.text, asks_by, expired, ended)
        context.add(responding, answer, joined, step)
        after = replace(self.plan.after, kind="stream")
        compute(context, step, self.join, replace(self.plan, after=after), joined)
        store = self._store(JOINED, after, after.key, after.value)
        # Nobody waits for answers, so they may come when others take a window for closed.
        closes = None if expires else after.closes_ms
        result = replace(after, kind="table", store=store, forgets=expires, closes_ms=closes, dropped_windows=None)
        context.add(ToTable(store, role="KTABLE-FK-JOIN-OUTPUT", forgets=ended), after, result, step)
        return context.add(Settling(alone=True), result, result, step)

    def _subscription(self, left: Shape) -> Shape:
        """The shape of subscriptions: keyed as the right table, with the key of the left one as values."""
        value = {**left.key, **SUBSCRIPTION_COLUMNS}
        return replace(self.side, kind="table", value=value, store=None, emit=left.emit, unsettled=False)

    def _store(self, what: str, shape: Shape, key: Mapping[str, str | None], value: Mapping[str, str | None]) -> Store:
        return declared_store(f"{self._name}-{what}", None, "key_value", key, value, shape.partitions)

    def _exchange(self, what: str, shape: Shape, edge: str) -> None:
        """Add a topic of the join. Its name must be free."""
        topic = f"{self.context.topology.application}-{self._name}-{what}-repartition"
        known = self.context.topology.repartitions
        if topic in known and what == "subscription":
            message = (
                f"The flow '{self.context.name.text}' has a join by a foreign key already, with the topic '{topic}'."
            )
            hint = "Give one of them a `name`: it becomes part of the names of its topics and stores."
            self.context.report("HW509", self.step.word.position, message, hint)
        known.setdefault(topic, (shape.partitions, None))
        exchange = Repartition(topic, shape.partitions, edge=f"{self._edge}.{edge}")
        self.context.add(exchange, shape, shape, self.step)

    @property
    def _how(self) -> How:
        return "left" if self.join.how == "left" else "inner"

    @property
    def _name(self) -> str:
        return "-".join([self.context.name.text, *([self.step.name.text] if self.step.name else [])])

    @property
    def _edge(self) -> str:
        return ".".join([self.context.name.text, *([self.step.name.text] if self.step.name else [])])


def _keys_of(asked: Shape, left: Shape) -> dict[str, str | None]:
    """The key of the store of subscriptions: the foreign key, then that of the row that asks."""
    own = {name if name not in asked.key else f"{name} (subscriber)": kind for name, kind in left.key.items()}
    return {**asked.key, **own}
