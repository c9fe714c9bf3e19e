"""Operations of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....runtime.engine.operators.foreign_keys import ANSWER, FOUND, HASH, SUBSCRIBE, Answer, ForeignKeyJoin, Subscribe
from ....runtime.engine.operators.joins import GlobalJoin, How, StreamJoin, StreamTableJoin, TableHow
from ....runtime.engine.operators.operator import JOINING_EDGES
from ....runtime.engine.operators.stateless import Fork
from ....runtime.ir.topology import GlobalTable, Store
from ...language.expressions import Expression
from ..base.context import OtherStream, StreamPair
from ..base.operation import (
    Description,
    Lookup,
    NullKeys,
    Processor,
    PythonOperation,
    TableUse,
    store_names,
)
from ..base.site import NOW, LiveEdge, PythonLayout, Shape, Site, argument_columns

# The join of two tables by a foreign key.
#
# Changes of the left table become subscriptions, which go through a topic to the tasks with the rows of the right
# table. The responses come back through another topic, and are joined with the left rows.

SUBSCRIPTION_COLUMNS = {HASH: "binary", SUBSCRIBE: "boolean", ANSWER: "boolean"}
"""The columns of a subscription, besides the foreign key and the key of the left row."""

RESPONSE_COLUMNS = {HASH: "binary", FOUND: "boolean"}
"""The columns of a response, besides the key of the left row and the columns of the right row."""


@dataclass(frozen=True)
class SubscriptionSend(PythonOperation):
    """Makes subscriptions from changes of the left table. Two outputs: the changes, for `ResponseJoin`; subscriptions.

    `key`: key column of the right table -> expression over the left table's columns. `label`: the prefix of the edges'
    names. `expired`: the store of expired left rows, if they expire.
    """

    table: str
    how: How
    key: Mapping[str, Expression]
    label: str
    expired: Store | None = None

    has_effect = False
    null_keys = "dropped"

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Every change with the replaced row, which may have another subscription."""
        return TableUse("repartition")

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        by = ", ".join(f"{name}: {expression.sql.text}" for name, expression in self.key.items())
        role = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION"
        stores = () if self.expired is None else (self.expired.name,)
        return Description(f"{self.how} join {self.table} by {by}", (Processor(role, stores=stores),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.outputs[1].shape
        store = site.store_of(edge)
        rows, subscriptions, *_ = (f"{self.label}.{ending}" for ending in JOINING_EDGES)
        key = {name: edge.physical(expression.as_column) for name, expression in self.key.items()}
        if self.expired is not None:
            site.declare(self.expired)
        subscribe = Subscribe(subscriptions, store, self.how, key, self.expired, site.at)
        nodes = (Fork(edge.name, (rows, subscriptions), site.at), subscribe)
        return PythonLayout(nodes, (replace(edge, name=rows), LiveEdge(subscriptions, shape, tuple(shape.value))))


@dataclass(frozen=True)
class SubscriptionJoin(Lookup):
    """Stores subscriptions, and sends responses. `values`: new column -> column of the right table."""

    table: str
    store: Store
    key: tuple[str, ...]
    values: Mapping[str, str]

    has_effect = True
    null_keys = "kept"
    triggered = False

    def looks_at(self) -> str:
        return self.table

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        return frozenset(self.values.values())

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        stores = (self.store.name, *store_names(lookups))
        return Description(
            f"response from {self.table}", (Processor("KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR", stores=stores),)
        )

    def in_python(self, site: Site) -> PythonLayout:
        edge, table = site.input, site.lookups[0]
        rows = site.store_of(table)
        site.declare(self.store)
        node = Answer(edge.name, table.name, self.store, rows, self.key, self.values, site.at)
        return PythonLayout((node,), (site.whole,))


@dataclass(frozen=True)
class ResponseJoin(PythonOperation):
    """Joins responses with rows of the left table (the first output of `SubscriptionSend`) to upserts of the result.

    `left`: the left table's value columns. `into`: the edge of the result. For a table with expiring rows: `key` and
    `expired` as in `SubscriptionSend`, `ended` as in `ForeignKeyJoin`.
    """

    how: How
    left: tuple[str, ...]
    into: str
    key: Mapping[str, Expression] = field(default_factory=dict)
    expired: Store | None = None
    ended: str = ""

    has_effect = False
    null_keys = "dropped"

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """All columns of the left table, as in `SubscriptionSend`."""
        return frozenset(self.left)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR"
        return Description("", (Processor(role, stores=store_names(lookups)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, table, shape = site.input, site.lookups[0], site.output.shape
        store = site.store_of(table)
        key = {name: table.physical(expression.as_column) for name, expression in self.key.items()}
        node = ForeignKeyJoin(edge.name, table.name, store, self.how, self.into, key, self.expired, self.ended, site.at)
        value = tuple(name for name in shape.value if name != NOW)
        return PythonLayout((node,), (LiveEdge(self.into, shape, value),))


# Lookups: in a table by the key, or in a global table by any expression.


@dataclass(frozen=True)
class TableJoin(Lookup):
    """Looks up the key in a table. `values`: new column -> column of the table.

    It also reads the stored tables from which its table is derived, if it needs their changes.
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

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return _description(self.how, self.table, store_names(lookups))

    def in_python(self, site: Site) -> PythonLayout:
        edge, (table, *stored) = site.input, site.lookups
        store = site.store_of(table)
        values = _wanted(self.values, site.output.needed)
        node = StreamTableJoin(
            edge.name, table.name, store, self.how, values, tuple(source.name for source in stored), site.at
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
        """An inner join drops records without a match. Null keys may match, because `by` has other columns."""
        return "kept" if self.how == "left" else "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later that do not come from the table, and the columns to look up."""
        return (output - self.values.keys() - {NOW}) | argument_columns(self.by.values())

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
    """The edge with the columns that a join adds or replaces."""
    edge = site.input
    value = (*edge.value, *(name for name in values if name not in edge.value))
    return replace(edge, shape=site.output.shape, value=value)


# The join of two streams.


@dataclass(frozen=True)
class JoiningStreams(StreamPair):
    """Joins the records of two streams.

    `values`: new column -> column of the other stream. `unmatched`: the store of records without a match, for a left or
    outer join.
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
        """A left join drops null keys of the other side, which still advance its stream time, as in Kafka Streams."""
        return "dropped" if self.how == "inner" else "kept"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """The nodes of Kafka's StreamsBuilder: a store and a lookup for each side, and their merge."""
        unmatched = () if self.unmatched is None else (self.unmatched.name,)
        this, other = self.this_store.name, self.other_store.name
        roles = (
            "KSTREAM-OUTERTHIS" if self.how == "outer" else "KSTREAM-JOINTHIS",
            "KSTREAM-JOINOTHER" if self.how == "inner" else "KSTREAM-OUTEROTHER",
        )
        windowed = tuple(Processor("KSTREAM-WINDOWED", stores=(name,)) for name in (this, other))
        joins = (Processor(roles[0], stores=(other, *unmatched)), Processor(roles[1], stores=(this, *unmatched)))
        text = f"{self.how} join stream {self.other.name}"
        return Description(text, (Processor("KSTREAM-MERGE"),), inputs=(windowed, joins))

    def in_python(self, site: Site) -> PythonLayout:
        edge, other = site.inputs
        site.declare(self.this_store, self.other_store, *([self.unmatched] if self.unmatched else []))
        values = _wanted(self.values, site.output.needed)
        node = StreamJoin(
            edge.name, other.name, self.this_store, self.other_store, self.how, values, self.unmatched, site.at
        )
        stored = tuple(edge.shape.value)
        value = (*stored, *(name for name in values if name not in stored))
        return PythonLayout((node,), (replace(edge, shape=site.output.shape, value=value),))
