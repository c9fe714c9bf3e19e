"""The operators of a foreign-key join of two tables: subscriptions, responses, and the join itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.topology import Store
from .joins import How
from .operator import (
    Column,
    EdgeColumns,
    Lineage,
    OnFlow,
    Place,
    Stores,
    Touched,
    columns_of,
    columns_text,
)

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

HASH, FOUND, SUBSCRIBE, ANSWER = "_hash", "_found", "_subscribe", "_answer"
"""Extra columns in the topics of a foreign-key join. `_hash`: the hash of the subscribing row. `_found`, of a response:
whether the other row exists. `_subscribe`, of a subscription: whether it begins or ends. `_answer`, of a subscription:
whether it wants a response."""

LAST = b""
"""Replaces the hash in the last subscription of an expired row, which ends the row's subscription. The response has the
same value. It is the last response to that row."""


@dataclass(frozen=True)
class Subscribe(Stores):
    """The start of a foreign-key join: turns changes of a table into subscriptions to rows of another table.

    `store`: of the table itself. `key`: key column of the other table -> physical column of the flow. `expired`: the
    store of expired rows, if rows of the table expire. They stay there until their last response has come.

    Each change becomes one or two records. Their key is the foreign key. In a change, f is the foreign key of the
    replaced row, and g is that of the new row. The records are:

    | change | left | inner |
    |---|---|---|
    | to another g | unsubscribe from f, then subscribe to g | the same |
    | f = g, or a new row | subscribe to g | the same |
    | g is null | unsubscribe from f; null subscription | unsubscribe with response, or null subscription; counted |
    | deletion | the same | the same, not counted |

    Each subscription gets a response, even if the other row does not exist. A null subscription has a null key, and its
    response says that no row exists. So every update of a row gets a response, with the hash of that row.

    If rows of the table expire, a null g and a deletion send no null subscription: the result changes at once
    (`ForeignKeyJoin`). An expired row unsubscribes and gets one more response. All its other responses come before.
    """

    flow: str
    store: Store
    how: How
    key: Mapping[str, str]
    expired: Store | None = None
    at: Place = ""

    @property
    def text(self) -> str:
        return f"{self.how} join by {columns_text(self.key)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge = edges[self.flow]
        own = {HASH: Column("binary"), SUBSCRIBE: Column("boolean"), ANSWER: Column("boolean")}
        return {self.flow: EdgeColumns({new: edge.at(name) for new, name in self.key.items()}, {**edge.key, **own})}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.foreign_key import subscribe

        subscribe(self, edges, epoch)


@dataclass(frozen=True)
class Answer(Stores):
    """The other table's side of a foreign-key join: stores the subscriptions of `flow`, and responds to them.

    `table`: the edge with the table's changes. `rows`: the table's store. `store`: of the subscriptions. `key`: the key
    columns of the subscribing rows. `values`: new column -> column of the table.

    It responds to each subscription with the current row, and to all subscribers of a row when the row changes:

    | input | receiver of the response | time of the response |
    |---|---|---|
    | a subscription, or its end if that wants a response | its sender | the later of record and row |
    | a change of the row, including a deletion | each subscriber, by key bytes | that of the change |

    A subscriber to a null foreign key gets the response that no row exists. Its subscription is not stored.
    """

    flow: str
    table: str
    store: Store
    rows: Store
    key: tuple[str, ...]
    values: Mapping[str, str]
    at: Place = ""

    needs_all = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.table)

    @property
    def fills(self) -> tuple[Store, ...]:
        """Only the subscriptions. Other operators fill the table's store."""
        return (self.store,)

    @property
    def text(self) -> str:
        return f"join {self.table}, values {columns_text(self.values)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge, table, types = edges[self.flow], edges[self.table], columns_of(self.rows.value)
        values = {new: types[name].with_inputs(table.at(name).inputs) for new, name in self.values.items()}
        own = {HASH: Column("binary"), FOUND: Column("boolean")}
        return {self.flow: EdgeColumns({name: edge.value[name] for name in self.key}, {**own, **values})}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.foreign_key import respond

        respond(self, edges, epoch)


@dataclass(frozen=True)
class ForeignKeyJoin(OnFlow):
    """The end of a foreign-key join: joins responses with the subscribing rows of `table`, which are in `store`.

    If rows of the table expire: `asks_by` is the `key` of `Subscribe`, `expired` is as there, and `ended` is the edge
    with the keys of expired rows that get no more responses.

    It makes upserts of the result: the current left row, with the columns of the other row. A response to an older
    version of the left row is dropped and counted: the current version has its own subscription. The result is null if
    the left row does not exist and, in an inner join, if the other row was not found. Expired rows are looked up in
    `expired`, until their last response has come.
    """

    flow: str
    table: str
    store: Store
    how: How
    into: str
    asks_by: Mapping[str, str] = field(default_factory=dict)
    expired: Store | None = None
    ended: str = ""
    at: Place = ""

    text = ""
    needs_all = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.table)

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.into, self.ended) if self.ended else (self.into,)

    @property
    def touches(self) -> Touched:
        """All records: other rows depend on the subscriptions."""
        return Touched(before=self.reads)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        left, types = edges[self.table], columns_of(self.store.value)
        mine = {name: column.with_inputs(left.value[name].inputs) for name, column in types.items()}
        other = {name: column for name, column in edges[self.flow].value.items() if name not in (HASH, FOUND)}
        made = {self.into: EdgeColumns(left.key, {**mine, **other})}
        return made | ({self.ended: EdgeColumns(left.key)} if self.ended else {})

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.foreign_key import join_by_foreign_key

        join_by_foreign_key(self, edges, epoch)


@dataclass(frozen=True)
class Forget(OnFlow):
    """Removes the rows with the keys on an edge from a store. This is no change of the table.

    No change is emitted: the results of these rows stay as they are, but can change no more.
    """

    flow: str
    store: Store
    at: Place = ""

    text = ""
    makes = ()

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """No edges."""
        return {}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.foreign_key import forget

        forget(self.store, edges.pop(self.flow), epoch)
