"""The operations of a join of two tables by a foreign key.

Changes of the left table become subscriptions, which go through a topic to the tasks that have the rows of the right
one. Their answers come back through another topic, and meet the left rows that have asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....runtime.operators.declarations import (
    ANSWER,
    FOUND,
    HASH,
    JOINING_EDGES,
    SUBSCRIBE,
    Answer,
    ForeignKeyJoin,
    Fork,
    How,
    Subscribe,
)
from ....runtime.topology import Store
from ...language.expressions import Expression
from ..base.edge import NOW, LiveEdge
from ..base.operation import EVERY_CHANGE, Description, Lookup, Processor, PythonOperation, TableUse, store_names
from ..base.shape import Shape
from ..base.site import PythonLayout, Site

SUBSCRIPTION_COLUMNS = {HASH: "binary", SUBSCRIBE: "boolean", ANSWER: "boolean"}
"""What a subscription has besides the foreign key and the key of the row that asks."""

ANSWER_COLUMNS = {HASH: "binary", FOUND: "boolean"}
"""What an answer has besides the key of the row that has asked and the columns of the row that was found."""


@dataclass(frozen=True)
class Subscribing(PythonOperation):
    """Two outputs: the changes of the left table as they are, for `Responding`, and the subscriptions.

    `key`: key column of the right table -> expression over the left one's columns. `label`: names the edges. `expired`:
    the store of the left rows that have expired, if they do.
    """

    table: str
    how: How
    key: Mapping[str, Expression]
    label: str
    expired: Store | None = None

    has_effect = False
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """All columns: an answer is for the row with exactly these values."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """The row that is replaced has subscribed to something, too."""
        return TableUse("repartition")

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        by = ", ".join(f"{name}: {expression.sql.text}" for name, expression in self.key.items())
        role = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION"
        stores = () if self.expired is None else (self.expired.name,)
        return Description(f"{self.how} join {self.table} by {by}", (Processor(role, stores=stores),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.outputs[1].shape
        assert edge.shape.store is not None, "the left table has been given a store"
        store = site.declared.stores[edge.shape.store.name]
        rows, asking, *_ = (f"{self.label}.{end}" for end in JOINING_EDGES)
        key = {name: edge.physical(expression.as_column) for name, expression in self.key.items()}
        if self.expired is not None:
            site.declared.stores[self.expired.name] = self.expired
        asked = Subscribe(asking, store, self.how, key, self.expired, site.at)
        nodes = (Fork(edge.name, (rows, asking), site.at), asked)
        return PythonLayout(nodes, (replace(edge, name=rows), LiveEdge(asking, shape, tuple(shape.value))))


@dataclass(frozen=True)
class Answering(Lookup):
    """Keeps subscriptions, and answers them. `values`: new column -> column of the right table."""

    table: str
    store: Store
    key: tuple[str, ...]
    values: Mapping[str, str]

    has_effect = True
    null_keys = "kept"
    triggered = False

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """All that subscriptions have."""
        return offered

    def looks_at(self) -> str:
        return self.table

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        return frozenset(self.values.values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each subscription is answered."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        stores = (self.store.name, *store_names(lookups))
        return Description(
            f"answer by {self.table}", (Processor("KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR", stores=stores),)
        )

    def in_python(self, site: Site) -> PythonLayout:
        edge, table = site.input, site.lookups[0]
        assert table.shape.store is not None, f"{self.table} has been given a store"
        rows = site.declared.stores[table.shape.store.name]
        site.declared.stores[self.store.name] = self.store
        shape = site.output.shape
        node = Answer(edge.name, table.name, self.store, rows, self.key, self.values, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))


@dataclass(frozen=True)
class Responding(PythonOperation):
    """Makes upserts of the result of answers. It looks rows up in the left table: the first output of `Subscribing`.

    `left`: the left table's value columns. `into`: the edge of the result. For a table whose rows expire:
    `asks_by` is the `key` of `Subscribing`, `expired` as there; of `ended` see `ForeignKeyJoin`.
    """

    how: How
    left: tuple[str, ...]
    into: str
    asks_by: Mapping[str, Expression] = field(default_factory=dict)
    expired: Store | None = None
    ended: str = ""

    has_effect = False
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """All that answers have."""
        return offered

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The columns of the left table that it reads: all, as in `Subscribing`."""
        return frozenset(self.left)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each answer is a change of the result."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR"
        return Description("", (Processor(role, stores=store_names(lookups)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, table, shape = site.input, site.lookups[0], site.output.shape
        assert table.shape.store is not None, "the left table has been given a store"
        store = site.declared.stores[table.shape.store.name]
        key = {name: table.physical(expression.as_column) for name, expression in self.asks_by.items()}
        node = ForeignKeyJoin(edge.name, table.name, store, self.how, self.into, key, self.expired, self.ended, site.at)
        value = tuple(name for name in shape.value if name != NOW)
        return PythonLayout((node,), (LiveEdge(self.into, shape, value),))
