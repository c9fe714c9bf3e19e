"""A table's rows look up rows of another table by a foreign key, and both sides' changes change the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import HASH, JOINING_EDGES, How
from ....runtime.topology import Store
from ...entries.stores import declared_store
from ...language.expressions import Expression
from ..base.checked import Repartition
from ..base.context import FlowContext
from ..base.shape import Shape
from ..base.step import Step
from ..parts.calls import called
from ..parts.foreign_key import ANSWER_COLUMNS, SUBSCRIPTION_COLUMNS, Answering, Responding, Subscribing
from ..parts.projection import with_arguments
from ..parts.tables import Keeping, Settling, ToTable, kept_rows
from .by import looked_up_by
from .columns import Plan, WrittenJoin, added, compute, joined_table, planned, refused

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
