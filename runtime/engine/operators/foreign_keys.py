"""The operators of a join of tables by a foreign key: subscriptions, responses, and the join of both."""

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
    OneEdge,
    Place,
    Stores,
    Touched,
    Transforms,
    columns_of,
    columns_text,
)

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

HASH, FOUND, SUBSCRIBE, ANSWER = "_hash", "_found", "_subscribe", "_answer"
"""Columns of the topics of a join by a foreign key, beside those of keys and rows: the hash of the row that subscribes;
of a response whether there is a row; of a subscription whether it begins or ends, and whether it wants a response."""

LAST = b""
"""In place of the hash of a row, in the last subscription of a row that expires: it ends the row's subscription. Its
response has it, too, and is the last one to that row."""


@dataclass(frozen=True)
class Subscribe(OneEdge, Stores):
    """The start of a join by a foreign key: turns changes of a table into subscriptions to rows of another one.

    `store`: of the table itself. `key`: key column of the other table -> physical column of the flow. `expired`: of a
    table whose rows expire, those that have, until the last response to them has come.

    Each change becomes one or two records with the foreign key as their key. Of a change, f is the foreign key of the
    row that is replaced, g that of the new one. What is sent, and to whom:

    | change | left | inner |
    |---|---|---|
    | to another g | unsubscribe from f, then subscribe to g | the same |
    | f = g, or a new row | subscribe to g | the same |
    | g is null | unsubscribe from f; ask nobody | unsubscribe from f, who answers (or ask nobody); counted |
    | deletion | the same | the same, not counted |

    Each subscription gets a response, also if there is no row. A record that asks nobody has a null key, and the
    response is that there is no row. So every update of a row gets one, with the hash of the row that it is for.

    Of a table whose rows expire, nobody is asked where g is null or of a deletion: the result changes at once
    (`ForeignKeyJoin`). A row that expires unsubscribes, and gets one more response: by then all others have come.
    """

    flow: str
    store: Store
    how: How
    key: Mapping[str, str]
    expired: Store | None = None
    at: Place = ""

    old_rows = "derived"
    releases = "at once"
    needs_all = False

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
    """The other table's side of a join by a foreign key: keeps the subscriptions of `flow`, and responds to them.

    `table`: the edge with the table's changes; `rows`: its store. `store`: that of the subscriptions. `key`: the key
    columns of the rows that subscribe. `values`: new column -> column of the table.

    It responds to each subscription with the row as it is then, and to all subscribers of a row when that changes:

    | what comes | who gets a response | time of the response |
    |---|---|---|
    | a subscription, or the end of one that wants a response | its sender | the later one of record and row |
    | a change of the row, also a deletion | each subscriber, by key bytes | that of the change |

    A subscriber to a null foreign key gets the response that there is no row, and is not kept.
    """

    flow: str
    table: str
    store: Store
    rows: Store
    key: tuple[str, ...]
    values: Mapping[str, str]
    at: Place = ""

    old_rows = "derived"
    releases = "at once"
    needs_all = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.table)

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.flow,)

    @property
    def fills(self) -> tuple[Store, ...]:
        """The subscriptions: the rows are those of the table."""
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
class ForeignKeyJoin(Transforms):
    """The end of a join by a foreign key: responses meet the rows of `table`, kept in `store`, that have subscribed.

    For a table whose rows expire: `asks_by` is the `key` of `Subscribe`, `expired` as there, and `ended` the edge with
    the keys of expired rows to which no response will come any more.

    It makes upserts of the result: the left row as it is now, with the columns of the other one. A response to a row
    that is another one by now is dropped and counted: that row has subscribed, too. The result is null where the left
    row is gone and, of an inner join, where the other row was not found. The rows of a table that expire are looked up
    among those that have expired then, until the last response has come.
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
        """All: what one row subscribes to, others depend on."""
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
class Forget(Transforms):
    """Removes the rows of the keys on an edge from a store, which is no change of the table.

    Nobody is told: the rows are as they were, but can change no more.
    """

    flow: str
    store: Store
    at: Place = ""

    text = ""
    makes = ()

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow,)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """It makes no edge."""
        return {}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.foreign_key import forget

        forget(self.store, edges.pop(self.flow), epoch)
