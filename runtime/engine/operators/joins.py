"""Joins by equal keys, and lookups in global tables. Foreign-key joins: `foreign_keys.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...ir.topology import GlobalTable, Store
from .operator import (
    EdgeColumns,
    Emit,
    Lineage,
    OnFlow,
    Place,
    Releases,
    Stores,
    Touched,
    columns_of,
    columns_text,
    union,
)

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

How = Literal["inner", "left"]
"""Whether a join drops the records without a match (`inner`) or keeps them (`left`)."""

TableHow = Literal["inner", "left", "outer"]
"""Which rows a join of two tables or streams keeps: those of both sides, of this side, or of either side."""

UNMATCHED_HEAD = {"of_this": "boolean", "record_time": "timestamp"}
UNMATCHED_TAIL = {"record_number": "bigint"}
"""The columns before and after the key columns in the store of records without a match, see `records.window_keys`."""


def joined(edge: EdgeColumns, values: Mapping[str, str], store: Store, other: EdgeColumns) -> EdgeColumns:
    """`edge` with added columns of a store. `values`: new name -> column. `other`: the edge that fills the store."""
    types = columns_of(store.key) | columns_of(store.value)
    added = {new: types[name].with_inputs(other.at(name).inputs) for new, name in values.items()}
    return replace(edge, value={**edge.value, **added})


class Lookup(OnFlow):
    """A join of records with rows of a table."""

    @property
    def touches(self) -> Touched:
        """The records that it drops, because they are counted."""
        return Touched(dropped=(self.flow,))


@dataclass(frozen=True)
class StreamTableJoin(Lookup):
    """Looks up each record's key in a table, at the moment when the record is processed.

    The row is that of `store` at the start of the epoch, with the changes on edge `table` that precede the record in
    path order. `values`: new column -> column of the table. `made_of`: the edges of the stored tables from which
    `table` is computed. Once these have changed, the lookup sees the changed rows of `table`.

    | | null value | null key |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | passed on with nulls |
    """

    flow: str
    table: str
    store: Store
    how: How
    values: Mapping[str, str]
    made_of: tuple[str, ...] = ()
    at: Place = ""

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.table, *self.made_of)

    @property
    def text(self) -> str:
        return f"{self.how} join {self.table}, values {columns_text(self.values)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        return {self.flow: joined(edges[self.flow], self.values, self.store, edges[self.table])}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.lookups import join_table

        join_table(self, edges, epoch)


@dataclass(frozen=True)
class GlobalJoin(Lookup):
    """Looks up rows of a global table by any columns. `by`: key column of the table -> physical column of the flow.

    | | null value | looked-up key null |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | passed on with nulls |
    """

    flow: str
    table: GlobalTable
    how: How
    by: Mapping[str, str]
    values: Mapping[str, str]
    at: Place = ""

    @property
    def text(self) -> str:
        return f"{self.how} join {self.table.name} by {columns_text(self.by)}, values {columns_text(self.values)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        table = lineage.topic(self.table.topic)
        return {self.flow: joined(edges[self.flow], self.values, self.table.store, table)}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.lookups import join_global_table

        join_global_table(self, edges, epoch)


@dataclass(frozen=True)
class TableTableJoin(OnFlow):
    """Joins the rows of two tables with the same key. Changes of either table give changes of the result.

    `flow`: the edge of this side, with `store`. It becomes the result. `table`: the edge of the other side, with
    `other_store`. `values`: new column -> column of the other side. `emit`: every update, or one change for each key
    and epoch. `old`: whether changes include the replaced rows. `this_made_of`, `other_made_of`: the edges of the
    stored tables from which a side is computed. Once these have changed, the join sees the changed rows of that side.

    Each change is joined with the current row of the other side, in path order. The time of a result is the greater one
    of the change and the other side's row.

    | | a change of this side gives | a change of the other side gives |
    |---|---|---|
    | inner | a row; a deletion; nothing where the other side has no row | the same |
    | left | a row; a deletion; nothing where neither side has or had a row | nothing where this side has no row |
    | outer | a row; a deletion; nothing where neither side has or had a row | the same |
    """

    flow: str
    table: str
    store: Store
    other_store: Store
    how: TableHow
    values: Mapping[str, str]
    emit: Emit = "each_update"
    old: bool = False
    this_made_of: tuple[str, ...] = ()
    other_made_of: tuple[str, ...] = ()
    at: Place = ""

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.table, *self.this_made_of, *self.other_made_of)

    @property
    def text(self) -> str:
        """Without the name of the reader, which the edge has if the table has several readers."""
        return f"{self.how} join {self.table.rpartition('.')[2]}, values {columns_text(self.values)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        return {self.flow: joined(edges[self.flow], self.values, self.other_store, edges[self.table])}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.tables import join_tables

        join_tables(self, edges, epoch)


@dataclass(frozen=True)
class StreamJoin(Stores):
    """Joins the records of two edges with equal keys and times within the join window (`this_store.window`).

    `values`: new column -> column of the edge `other`. `this_store`, `other_store`: the records of both sides, as long
    as they can match. `unmatched`: the records without a match so far, of a left or outer join.

    | | null value | null key |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | of this side: passed on alone; of the other: dropped, counted |
    | outer | dropped, counted | passed on alone |

    Dropped records also advance stream time. A pair has the later of both times, and the headers of the record that was
    processed later. A record without a match has its own time, and the headers of the record that releases it.
    """

    flow: str
    other: str
    this_store: Store
    other_store: Store
    how: TableHow
    values: Mapping[str, str]
    unmatched: Store | None = None
    at: Place = ""

    @property
    def releases(self) -> Releases:
        return "at once" if self.unmatched is None else "unmatched later"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.flow, self.other)

    @property
    def text(self) -> str:
        return f"{self.how} join stream {self.other}, values {columns_text(self.values)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The columns of the result. In an outer join, the key comes from either side."""
        this, other = edges[self.flow], edges[self.other]
        kept = {
            name: column.with_inputs(this.value[name].inputs)
            for name, column in columns_of(self.this_store.value).items()
        }
        key = this.key
        if self.how == "outer":
            both = zip(this.key.items(), other.key.values(), strict=True)
            key = {name: mine.with_inputs(union([mine.inputs, its.inputs])) for (name, mine), its in both}
        return {self.flow: joined(EdgeColumns(key, kept), self.values, self.other_store, other)}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.joins.streams import join_streams

        join_streams(self, edges, epoch)
