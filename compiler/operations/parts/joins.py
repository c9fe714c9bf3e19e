"""Parts of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....runtime.ir.declarations import (
    ANSWER,
    FOUND,
    HASH,
    JOINING_EDGES,
    SUBSCRIBE,
    Answer,
    ForeignKeyJoin,
    Fork,
    GlobalJoin,
    How,
    StreamJoin,
    StreamTableJoin,
    Subscribe,
    TableHow,
)
from ....runtime.ir.topology import GlobalTable, Store
from ...language.expressions import Expression
from ..base.context import OtherStream, StreamPair
from ..base.operation import (
    EVERY_CHANGE,
    Description,
    Lookup,
    NullKeys,
    Processor,
    PythonOperation,
    TableUse,
    store_names,
)
from ..base.site import NOW, LiveEdge, PythonLayout, Shape, Site, argument_columns

# The operations of a join of two tables by a foreign key.
#
# Changes of the left table become subscriptions, which go through a topic to the tasks that have the rows of the right
# one. Their answers come back through another topic, and meet the left rows that have asked.

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


# The lookups of a `join`: in a table by the key, or in a global table by any expression.


@dataclass(frozen=True)
class TableJoin(Lookup):
    """Looks up the key in a table. `values`: new column -> column of the table.

    Besides, it looks at the stored tables that its table is made of, if it must be told when they change.
    """

    table: str
    how: How
    values: Mapping[str, str]

    has_effect = False
    triggered = False

    @property
    def null_keys(self) -> NullKeys:
        return "kept" if self.how == "left" else "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later that do not come from the table."""
        return output - self.values.keys() - {NOW}

    def looks_at(self) -> str:
        return self.table

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The table's columns that are read later."""
        return frozenset(_wanted(self.values, output).values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each record needs the table as it was at that record."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return _description(self.how, self.table, store_names(lookups))

    def in_python(self, site: Site) -> PythonLayout:
        edge, (table, *stored) = site.input, site.lookups
        assert table.shape.store is not None, f"{self.table} has been given a store"
        store = site.declared.stores[table.shape.store.name]
        values = _wanted(self.values, site.output.needed)
        node = StreamTableJoin(
            edge.name, table.name, store, self.how, values, tuple(each.name for each in stored), site.at
        )
        return PythonLayout((node,), (_with_values(site, values),))


@dataclass(frozen=True)
class GlobalTableJoin(PythonOperation):
    """Looks up rows in a global table. `by`: key column of the table -> expression over the flow's columns."""

    table: GlobalTable
    how: How
    by: Mapping[str, Expression]
    values: Mapping[str, str]

    has_effect = False

    @property
    def null_keys(self) -> NullKeys:
        """An inner join drops records without a match.

        It looks up other columns than the key, so the key may be null.
        """
        return "kept" if self.how == "left" else "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later that do not come from the table, and those that are looked up."""
        return (output - self.values.keys() - {NOW}) | argument_columns(self.by.values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its input is never a table."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return _description(self.how, self.table.name, ())

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        site.declared.stores.setdefault(self.table.store.name, self.table.store)
        by = {name: edge.physical(e.as_column) for name, e in self.by.items()}
        values = _wanted(self.values, site.output.needed)
        node = GlobalJoin(edge.name, self.table, self.how, by, values, site.at)
        return PythonLayout((node,), (_with_values(site, values),))


def _description(how: How, table: str, stores: tuple[str, ...]) -> Description:
    role = "KSTREAM-LEFTJOIN" if how == "left" else "KSTREAM-JOIN"
    return Description(f"{how} join {table}", (Processor(role, stores=stores),))


def _wanted(values: Mapping[str, str], needed: frozenset[str]) -> dict[str, str]:
    return {new: old for new, old in values.items() if new in needed}


def _with_values(site: Site, values: Mapping[str, str]) -> LiveEdge:
    """The edge with the columns that the join adds or replaces."""
    edge = site.input
    value = (*edge.value, *(name for name in values if name not in edge.value))
    return replace(edge, shape=site.output.shape, value=value)


# The operation of a `join` of two streams.


@dataclass(frozen=True)
class JoiningStreams(StreamPair):
    """Joins the records of two streams. `values`: new column -> column of the other one.

    `unmatched`: keeps those without a match, of a left or outer join.
    """

    other: OtherStream
    how: TableHow
    this_store: Store
    other_store: Store
    unmatched: Store | None
    values: Mapping[str, str]

    has_effect = True

    @property
    def second(self) -> OtherStream:
        return self.other

    @property
    def null_keys(self) -> NullKeys:
        """Those of the other side are dropped in a left join, but they move its stream time, as in Kafka Streams."""
        return "dropped" if self.how == "inner" else "kept"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns of its side."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its inputs are never tables."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """The nodes that Kafka's builder makes: a store for each side, a lookup from each, and their union."""
        waiting = () if self.unmatched is None else (self.unmatched.name,)
        this, other = self.this_store.name, self.other_store.name
        roles = (
            "KSTREAM-OUTERTHIS" if self.how == "outer" else "KSTREAM-JOINTHIS",
            "KSTREAM-JOINOTHER" if self.how == "inner" else "KSTREAM-OUTEROTHER",
        )
        windowed = tuple(Processor("KSTREAM-WINDOWED", stores=(name,)) for name in (this, other))
        joins = (Processor(roles[0], stores=(other, *waiting)), Processor(roles[1], stores=(this, *waiting)))
        text = f"{self.how} join stream {self.other.name}"
        return Description(text, (Processor("KSTREAM-MERGE"),), inputs=(windowed, joins))

    def in_python(self, site: Site) -> PythonLayout:
        edge, other = site.inputs
        for store in (self.this_store, self.other_store, self.unmatched):
            if store is not None:
                site.declared.stores[store.name] = store
        values = {new: old for new, old in self.values.items() if new in site.output.needed}
        node = StreamJoin(
            edge.name, other.name, self.this_store, self.other_store, self.how, values, self.unmatched, site.at
        )
        stored = tuple(edge.shape.value)
        value = (*stored, *(name for name in values if name not in stored))
        return PythonLayout((node,), (replace(edge, shape=site.output.shape, value=value),))
