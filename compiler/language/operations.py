"""What a flow does, checked: its operations in order, each with the shape of its input and output.

Between the model and the graph. An operation is one thing the runtime does; a step of the language is one or several
(an `aggregate` may be a projection of its arguments, the aggregation, a projection of its results). Repartition topics
are in place; who runs what, and which columns travel, is decided later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...runtime.topology import Agg, GlobalTable, Store, Topic
from ..diagnostics import Position
from .expressions import Expression, Types
from .model import WindowStep

WINDOW_COLUMNS = {"window_start": "timestamp", "window_end": "timestamp"}


@dataclass(frozen=True)
class Rekey:
    """The change of a stream's key that no repartition topic has followed yet: which step of which flow made it."""

    flow: str
    step: str | None
    position: Position


@dataclass(frozen=True)
class Shape:
    """What flows between two steps.

    `key` holds `window_start` and `window_end` too where `windowed`. A type is None where it is not known; with `open`
    some columns are not known either, because of an error that has been reported. `rekey`: the stream's records are
    not (all) in the partitions of their keys. `regrouped`: a table behind `key_by`, on its way to an `aggregate`.
    `window`: a stream between `window` and `aggregate`. `unsettled`: a table behind a filter whose deletions of rows
    that were not there are still among its changes. `store`: the table's own store, None where it has none.
    """

    kind: Literal["stream", "table"] = "stream"
    key: Types = field(default_factory=dict)
    value: Types = field(default_factory=dict)
    partitions: int = 1
    windowed: bool = False
    rekey: Rekey | None = None
    regrouped: bool = False
    window: WindowStep | None = None
    emit: str = "per_epoch"
    unsettled: bool = False
    store: Store | None = None
    open: bool = False

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.kind == "table"

    @property
    def plain_key(self) -> dict[str, str | None]:
        """The key's columns without those of the window."""
        return {name: type_ for name, type_ in self.key.items() if not (self.windowed and name in WINDOW_COLUMNS)}

    @property
    def known(self) -> bool:
        """Whether all columns and types are known."""
        return not self.open and None not in self.key.values() and None not in self.value.values()

    def with_value(self, value: Types) -> Shape:
        """The same with other value columns; a table has no store of its own then."""
        return replace(self, value=dict(value), store=None)


UNKNOWN = Shape(open=True)
"""What comes after an error."""


@dataclass(frozen=True)
class Filter:
    """Keep what the predicate holds for."""

    predicate: Expression


@dataclass(frozen=True)
class Projection:
    """New value columns, all of them. `word`: the step's, or "" for one that the compiler puts in.

    `null_values`: compute them for null values too, whose columns are null: windows aggregate those like any record.
    """

    columns: Mapping[str, Expression]
    word: str = ""
    null_values: bool = False


@dataclass(frozen=True)
class Rekeying:
    """New key columns."""

    columns: Mapping[str, Expression]


@dataclass(frozen=True)
class Explosion:
    """One row for each element of an array; the other value columns stay."""

    column: str
    array: Expression


@dataclass(frozen=True)
class Branching:
    """Each row to the first flow whose predicate holds."""

    cases: tuple[tuple[str, Expression | None], ...]


@dataclass(frozen=True)
class Repartition:
    """Through a topic, so that each record is in the partition of its key.

    `of`: the flow at whose end it stands, if its readers share it; else None: it stands where it is.
    """

    topic: str
    partitions: int
    of: str | None = None


@dataclass(frozen=True)
class TableJoin:
    """Look up the key in a table. `values`: new column -> column of the table."""

    table: str
    how: Literal["inner", "left"]
    values: Mapping[str, str]


@dataclass(frozen=True)
class GlobalTableJoin:
    """Look up `by` (key column of the table -> value or key column of the flow, as an expression) in a global table."""

    table: GlobalTable
    how: Literal["inner", "left"]
    by: Mapping[str, Expression]
    values: Mapping[str, str]


@dataclass(frozen=True)
class AggregateArgument:
    """An aggregate with the column of its input that it reads, before that has a physical name."""

    aggregate: Agg
    column: Expression | None = None


@dataclass(frozen=True)
class Aggregation:
    """Aggregate by key (and window). `store` lacks its `aggregates`: they get their columns' names in the graph."""

    store: Store
    arguments: tuple[AggregateArgument, ...]
    of: Literal["stream", "table"]
    name: str


@dataclass(frozen=True)
class Materialization:
    """Keep the value columns that expressions over aggregates make, beside the aggregates."""

    store: Store


@dataclass(frozen=True)
class Tabling:
    """A stream of upserts becomes a table. `source`: whether it is an entry of `tables:`."""

    store: Store
    source: bool = False


@dataclass(frozen=True)
class Streaming:
    """A table's changes become records."""


@dataclass(frozen=True)
class Settling:
    """After a filter of a table."""


Action = (
    Filter
    | Projection
    | Rekeying
    | Explosion
    | Branching
    | Repartition
    | TableJoin
    | GlobalTableJoin
    | Aggregation
    | Materialization
    | Tabling
    | Streaming
    | Settling
)


@dataclass(frozen=True)
class Operation:
    """One action with its place (`file:line`), the step's name, and what goes in and comes out."""

    action: Action
    before: Shape
    after: Shape
    at: str = ""
    name: str = ""


@dataclass(frozen=True)
class CheckedFlow:
    """A flow that may run. `sources`: topics, tables and flows by name; `at`, `to_at`: `file:line`."""

    name: str
    sources: tuple[str, ...]
    operations: tuple[Operation, ...]
    before: Shape
    after: Shape
    to: Topic | None
    at: str
    to_at: str = ""


@dataclass(frozen=True)
class CheckedTable:
    """An entry of `tables:`; its shape and topic; `global_table` if it is one."""

    name: str
    topic: Topic
    shape: Shape
    store: Store
    at: str
    global_table: GlobalTable | None = None


@dataclass(frozen=True)
class CheckedTopology:
    """A topology whose every part has been checked.

    `flows` are in an order in which each comes after what it reads; `declared` is the order of the file.
    """

    name: str
    file: str
    declared: tuple[str, ...]
    tables: Mapping[str, CheckedTable]
    flows: Mapping[str, CheckedFlow]
    topics: Mapping[str, Topic]
