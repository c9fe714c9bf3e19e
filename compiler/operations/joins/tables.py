"""Joins of two tables, by their keys or by a foreign key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.engine.operators.foreign_keys import HASH
from ....runtime.engine.operators.joins import How, TableHow, TableTableJoin
from ....runtime.engine.operators.operator import JOINING_EDGES
from ....runtime.ir.topology import Store
from ...entries import declared_store
from ...language.expressions import Expression
from ..base.context import FlowContext, Repartition, Step
from ..base.operation import Description, Lookup, Processor, store_names
from ..base.site import NOW, UNKNOWN, PythonLayout, Shape, Site
from ..parts.joins import RESPONSE_COLUMNS, SUBSCRIPTION_COLUMNS, ResponseJoin, SubscriptionJoin, SubscriptionSend
from ..parts.projection import with_arguments, with_calls
from ..parts.tables import Settling, TableMaterialization, ToTable, rows_store
from .columns import (
    Plan,
    WrittenJoin,
    added_columns,
    check_co_partitioned,
    compute,
    is_rejected,
    joined_closing,
    joined_table,
    joined_windows,
    lookup_keys,
    plan_columns,
)

# The join of two tables by their keys.


def check_tables(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require a table with the same key, the same kind of windows, and the same number of partitions."""
    side = joined_table(context, join)
    columns = added_columns(context, join, shape, side)
    if is_rejected(context, join, shape, side):
        return UNKNOWN
    if not shape.open and not side.open:
        check_co_partitioned(context, join, shape, side)
    plan = plan_columns(join, shape, side, columns)
    if plan.complete:
        _check_store_name(context, step, join, shape)
        plan = _in_windows(plan, shape, side)
        context.add(JoinOfTables(join.table.text, join.how, plan.values), shape, plan.joined, step)
        compute(context, step, join, plan, plan.joined)
    return plan.after


def _in_windows(plan: Plan, shape: Shape, side: Shape) -> Plan:
    """The plan with the windows of the joined rows, if they have any."""
    if not shape.windowed:
        return plan
    windows, closes_ms = joined_windows(shape, side), joined_closing(shape, side)
    joined, after = (
        replace(result, dropped_windows=windows, closes_ms=closes_ms) for result in (plan.joined, plan.after)
    )
    return replace(plan, joined=joined, after=after)


def _check_store_name(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> None:
    """Report a store of this side with the name of an earlier one, which has the names of flow and step or table."""
    if shape.store is not None:
        return
    name = step.name.text if step.name else join.table.text
    taken = {
        placed.name or placed.operation.table
        for placed in context.operations
        if isinstance(placed.operation, JoinOfTables) and placed.before.store is None
    }
    if name in taken:
        message = f"The store '{context.name.text}-{name}', of this side of the join, exists already."
        context.report("HW309", step.word.position, message, "Give one of the joins its own `name`.")


@dataclass(frozen=True)
class JoinOfTables(Lookup):
    """Joins two tables by their keys. `values`: new column -> column of the other table.

    `made_of`: the numbers of stored tables from which this side, and the other one, are derived, and whose changes the
    join needs. They are further lookups, in this order.
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

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """`lookups`: this side and the other one. A side looks up rows in the store of the other one."""
        this, other = (store_names([shape]) for shape in lookups)
        return Description(
            f"{self.how} join {self.table}",
            chain=(Processor("KTABLE-MERGE"),),
            sides=(Processor("KTABLE-JOINTHIS", stores=other), Processor("KTABLE-JOINOTHER", stores=this)),
        )

    def in_python(self, site: Site) -> PythonLayout:
        this, (other, *stored) = site.input, site.lookups
        names = tuple(edge.name for edge in stored)
        store, other_store = site.store_of(this), site.store_of(other)
        values = self._wanted(site.output.needed)
        emit, old = site.changes(frozenset(), True)
        if old and this.shape.windowed:
            # The replaced rows depend on which rows have expired by then, so every change has to reach the next steps.
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


# The join of two tables by a foreign key. Changes of both sides change the result.

ROWS, SUBSCRIPTIONS, JOINED, EXPIRED = "rows", "subscriptions", "joined", "expired"
"""The stores of a join: the flow's rows if they have no store, the subscriptions to the table's rows, and the result.

For a flow with windows also its expired rows, until the last response for them has come.
"""

FOREIGN_KEY_STORES = (ROWS, SUBSCRIPTIONS, JOINED)


def check_foreign_key(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require `by` with the other table's key. The numbers of partitions may differ."""
    side = joined_table(context, join)
    columns = added_columns(context, join, shape, side)
    plan = plan_columns(join, shape, side, columns)
    if is_rejected(context, join, shape, side):
        return plan.after
    by = lookup_keys(context, join, shape, side)
    if not plan.complete or by is None:
        return plan.after
    return _Layout(context, step, join, side, plan).add(shape, by)


@dataclass(frozen=True)
class _Layout:
    """Adds the operations of a join by a foreign key. Its stores and topics are named after flow and step."""

    context: FlowContext
    step: Step
    join: WrittenJoin
    side: Shape
    plan: Plan

    def add(self, shape: Shape, by: Mapping[str, Expression]) -> Shape:
        context, step = self.context, self.step
        ready = with_arguments(context, step, with_calls(context, step, shape, list(by.values())), list(by.values()))
        if ready.store is None:
            store = rows_store(f"{self._name}-{ROWS}", ready)
            ready = context.add(TableMaterialization(store), ready, replace(ready, store=store), step)
        subscription = self._subscription(ready)
        expires = ready.windows is not None
        expired = self._store(EXPIRED, ready, ready.key, ready.value) if expires else None
        send = SubscriptionSend(self.join.table.text, self._how, by, self._edge, expired)
        context.add(send, ready, subscription, step)
        _, _, subscriptions_edge, responses_edge, ended_edge = JOINING_EDGES
        self._exchange("subscription", subscription, subscriptions_edge)
        table_columns = {name: self.side.value.get(old) for name, old in self.plan.values.items()}
        response = replace(ready, value={**RESPONSE_COLUMNS, **table_columns}, store=None)
        store = self._store(SUBSCRIPTIONS, subscription, _subscription_key(subscription, ready), {HASH: "binary"})
        respond = SubscriptionJoin(self.join.table.text, store, tuple(ready.key), self.plan.values)
        context.add(respond, subscription, response, step)
        self._exchange("response", response, responses_edge)
        joined = replace(ready.with_value({**ready.value, **table_columns}), kind="stream")
        ended = f"{self._edge}.{ended_edge}" if expires else ""
        receive = ResponseJoin(self._how, tuple(ready.value), context.name.text, by if expires else {}, expired, ended)
        context.add(receive, response, joined, step)
        after = replace(self.plan.after, kind="stream")
        compute(context, step, self.join, replace(self.plan, after=after), joined)
        store = self._store(JOINED, after, after.key, after.value)
        # The join does not wait for responses, so they may come after a window has closed elsewhere.
        closes = None if expires else after.closes_ms
        result = replace(after, kind="table", store=store, forgets=expires, closes_ms=closes, dropped_windows=None)
        context.add(ToTable(store, role="KTABLE-FK-JOIN-OUTPUT", forgets=ended), after, result, step)
        return context.add(Settling(alone=True), result, result, step)

    def _subscription(self, left: Shape) -> Shape:
        """The shape of subscriptions: the key of the right table, with the key of the left table as values."""
        value = {**left.key, **SUBSCRIPTION_COLUMNS}
        return replace(self.side, kind="table", value=value, store=None, emit=left.emit, unsettled=False)

    def _store(self, what: str, shape: Shape, key: Mapping[str, str | None], value: Mapping[str, str | None]) -> Store:
        return declared_store(f"{self._name}-{what}", None, "key_value", key, value, shape.partitions)

    def _exchange(self, what: str, shape: Shape, edge: str) -> None:
        """Add a topic of the join. An existing topic of this name is reported."""
        topic = f"{self.context.topology.application}-{self._name}-{what}-repartition"
        repartitions = self.context.topology.repartitions
        if topic in repartitions and what == "subscription":
            message = (
                f"The flow '{self.context.name.text}' already has a join by a foreign key, with the topic '{topic}'."
            )
            hint = "Give one of the joins a `name`: it becomes part of the names of its topics and stores."
            self.context.report("HW509", self.step.word.position, message, hint)
        repartitions.setdefault(topic, (shape.partitions, None))
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


def _subscription_key(subscription: Shape, left: Shape) -> dict[str, str | None]:
    """The key of the store of subscriptions: the foreign key, then the key of the left row.

    With the foreign key `id` and the left key `id, day`: `id`, `id (subscriber)`, `day`.
    """
    names = {name: f"{name} (subscriber)" if name in subscription.key else name for name in left.key}
    return {**subscription.key, **{names[name]: type_ for name, type_ in left.key.items()}}
