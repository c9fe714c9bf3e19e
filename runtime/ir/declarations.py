"""The declarations of all operators of Python stages: frozen data, without Arrow and without I/O.

The compiler makes them, and generated code contains them as class and fields. The operators of this folder are the same
classes with a method `run`. Each inherits its declaration, so that a field is defined once. Edges are named by flow or
table. All column names are physical: a value column has its own name; a key column has its name, or `key.<name>` while
the edge has a value column of that name. `at`: the step's place in the YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .functions import PythonFunction, Udf
from .topology import GlobalTable, Store, Topic

Place = int | str
"""A line of the topology's file, as in generated code, or `file:line`, which the pipe makes from it."""

Emit = Literal["each_update", "per_epoch"]
"""`emit` in the YAML. `each_update`: every change. `per_epoch`: one for each key and epoch, from start to end of it."""

How = Literal["inner", "left"]
"""Whether a join drops the records without a match (`inner`) or keeps them (`left`)."""

TableHow = Literal["inner", "left", "outer"]
"""Of which rows a join of two tables or streams has one: of both, of this side's, or of either side's."""

SinkMode = Literal["append", "each_update", "per_epoch", "repartition"]
"""What a sink writes: see `sink.Sink`."""

WhenFull = Literal["emit", "fail"]
"""What a full buffer does: the oldest change goes on at once, or the task stops."""

Side = Literal["stream", "table"]
"""What an operator reads: records, or changes of a table."""


@dataclass(frozen=True)
class Flow:
    """The columns of an edge: key and value as Spark SQL DDL, only those that a later step needs.

    Names are unique in a batch: a key column that shares its name with a value column is stored as `key.<name>`. A
    windowed key's `window_start` and `window_end` (timestamp) are part of `key`. `value` may include `_now timestamp`,
    the epoch's planned time.
    """

    key: str
    value: str


@dataclass(frozen=True)
class Source:
    """Reads a topic into one or several edges. Of several, the first edge sees a record before the second does.

    `columns`: the value columns that are needed; None: all. Of records with equal timestamps, those of the source
    declared first come first. The compiler puts tables before streams. `dead_letter`: the topic that keeps records of
    this one that a step could not process; None if no reader asks for that. `start`: where a topology begins that has
    not read the topic yet, see `starts.py`; None: at the first record.
    """

    topic: Topic
    into: str | tuple[str, ...]
    columns: tuple[str, ...] | None = None
    dead_letter: Topic | None = None
    start: str | None = None
    at: Place = ""

    @property
    def edges(self) -> tuple[str, ...]:
        """The edges into which it reads."""
        return (self.into,) if isinstance(self.into, str) else self.into


@dataclass(frozen=True)
class Table:
    """Keeps the last row of each key: upserts in, changes of a table out. `old`: with the replaced rows."""

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    at: Place = ""


@dataclass(frozen=True)
class Select:
    """Other value columns: those of `keep`, and `columns` (new name -> physical name of an existing column)."""

    flow: str
    columns: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    at: Place = ""


@dataclass(frozen=True)
class KeyBy:
    """Another key: new name -> physical name of an existing column."""

    flow: str
    key: Mapping[str, str]
    at: Place = ""


@dataclass(frozen=True)
class StreamTableJoin:
    """Looks up the key in the rows of `store`, updated in order by those on edge `table`. `values`: new -> column.

    `made_of`: edges of the stored tables of which `table` is made, before all else that is. Its rows are seen as they
    are once these have changed.
    """

    flow: str
    table: str
    store: Store
    how: How
    values: Mapping[str, str]
    made_of: tuple[str, ...] = ()
    at: Place = ""


@dataclass(frozen=True)
class TableTableJoin:
    """Joins the rows of two tables with the same key; changes of either give changes of the result.

    `flow`: the edge of this side, which becomes the result; its rows are also in `store`. `table`: that of the other
    side, with `other_store`. `values`: new -> column of the other side. `emit`: every update, or one change for each
    key and epoch. `old`: with the replaced rows. `this_made_of`, `other_made_of`: edges of stored
    tables of which a side is made, before all else that is. Its rows are seen as they are once these have changed.
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


@dataclass(frozen=True)
class GlobalJoin:
    """Looks up `by` (key column of the table -> physical column of the flow) in a global table."""

    flow: str
    table: GlobalTable
    how: How
    by: Mapping[str, str]
    values: Mapping[str, str]
    at: Place = ""


HASH, FOUND, SUBSCRIBE, ANSWER = "_hash", "_found", "_subscribe", "_answer"
"""Columns of the topics of a join by a foreign key, beside those of keys and rows: the hash of the row that asks; of an
answer whether there is a row; of a subscription whether it begins or ends, and whether it is answered."""


JOINING_EDGES = ("rows", "asking", "asked", "answers", "last_answers")
"""The ends of the names of a join's own edges, behind that of its flow: the rows that are joined, their subscriptions,
what the other table's side gets, what comes back, and the keys of expired rows to which no more answers will come."""

LAST = b""
"""In place of the hash of a row, in the last subscription of a row that expires: it ends what the row has asked for.
Its answer has it, too, and is the last one to that row."""


@dataclass(frozen=True)
class Subscribe:
    """The start of a join by a foreign key: turns changes of a table into subscriptions to rows of another one.

    `store`: of the table itself. `key`: key column of the other table -> physical column of the flow. `expired`: of a
    table whose rows expire, those that have, until the last answer to them has come.
    """

    flow: str
    store: Store
    how: How
    key: Mapping[str, str]
    expired: Store | None = None
    at: Place = ""


@dataclass(frozen=True)
class Answer:
    """The other table's side of a join by a foreign key: keeps the subscriptions of `flow`, and answers them.

    `table`: the edge with the table's changes; `rows`: its store. `store`: that of the subscriptions. `key`: the key
    columns of those who subscribe. `values`: new column -> column of the table.
    """

    flow: str
    table: str
    store: Store
    rows: Store
    key: tuple[str, ...]
    values: Mapping[str, str]
    at: Place = ""


@dataclass(frozen=True)
class ForeignKeyJoin:
    """The end of a join by a foreign key: answers meet the rows of `table`, kept in `store`, that have asked.

    For a table whose rows expire: `asks_by` is the `key` of `Subscribe`, `expired` as there, and `ended` the edge with
    the keys of expired rows to which no answer will come any more.
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


@dataclass(frozen=True)
class Forget:
    """Removes the rows of the keys on an edge from a store, which is no change of the table."""

    flow: str
    store: Store
    at: Place = ""


UNMATCHED_HEAD = {"of_this": "boolean", "record_time": "timestamp"}
UNMATCHED_TAIL = {"record_number": "bigint"}
"""The columns before and behind those of the key, in the store of records without a match: see `records.join_keys`."""


@dataclass(frozen=True)
class StreamJoin:
    """Joins the records on two edges. `values`: new column -> column of the edge `other`.

    `this_store`, `other_store`: their records, for as long as they can be found (`window`). `unmatched`: those that
    have found none so far, of a left or outer join.
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
    def stores(self) -> tuple[Store, ...]:
        """All of its stores."""
        return (self.this_store, self.other_store, *(() if self.unmatched is None else (self.unmatched,)))


@dataclass(frozen=True)
class Aggregate:
    """Aggregates by key, and by window if the store has one. The aggregates are in `store.aggregates`.

    `of`: a stream, or a table that was re-grouped, whose old rows are subtracted. `emit`: every update, or one change
    for each key and epoch. `old`: with the replaced rows.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    of: Side = "stream"
    at: Place = ""


@dataclass(frozen=True)
class AggregateSessions:
    """Aggregates by key and session; `store.window` is a SessionWindow. The fields are those of `Aggregate`.

    `headers`: whether results have the headers of their records, which only final results of sessions do.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    headers: bool = False
    at: Place = ""


@dataclass(frozen=True)
class AggregateSliding:
    """Aggregates by key and sliding window; `store.window` is a SlidingWindow. The fields are those of `Aggregate`."""

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    at: Place = ""


@dataclass(frozen=True)
class Reduce:
    """Reduces by key, and by window or session if the store has one, with a Python function of two values.

    `emit`, `old`: see `Aggregate`. `headers`: see `AggregateSessions`.
    """

    flow: str
    store: Store
    function: PythonFunction
    emit: Emit = "each_update"
    old: bool = False
    headers: bool = False
    at: Place = ""


@dataclass(frozen=True)
class AggregateWith:
    """Aggregates by key, and by window or session if the store has one, with a Python class: the row is its state.

    `emit`, `old`, `of`: see `Aggregate`. `headers`: see `AggregateSessions`.
    """

    flow: str
    store: Store
    function: PythonFunction
    emit: Emit = "each_update"
    old: bool = False
    of: Side = "stream"
    headers: bool = False
    at: Place = ""


@dataclass(frozen=True)
class Materialize:
    """Stores a table's rows that SQL has computed: expressions over aggregates, beside the aggregates' state."""

    flow: str
    store: Store
    at: Place = ""


@dataclass(frozen=True)
class Suppress:
    """Holds changes of a table back in `store`, one for each key: a later one replaces the one that waits.

    In a store of type `window_changes` each waits until `wait_ms` after the end of its window, and a stream of the last
    rows goes on. In one of type `changes` each waits until `wait_ms` after the first one of its key, and changes of a
    table go on; `old`: with the replaced rows. `when_full`: what happens if more than `max_records` wait (None: no
    limit).
    """

    flow: str
    store: Store
    wait_ms: int
    max_records: int | None = None
    when_full: WhenFull = "emit"
    old: bool = False
    at: Place = ""


@dataclass(frozen=True)
class Settle:
    """Removes deletions of rows that did not exist, after a filter on a table."""

    flow: str
    at: Place = ""


@dataclass(frozen=True)
class ToStream:
    """Turns a table's changes into records. Replaced rows are dropped."""

    flow: str
    at: Place = ""


@dataclass(frozen=True)
class FinalResults:
    """Turns the updates of a windowed aggregate into a stream: one record for each row whose window has closed.

    `store`: the aggregate's, which has all of these updates already.
    """

    flow: str
    store: Store
    at: Place = ""


@dataclass(frozen=True)
class Process:
    """Gives each record to an object of a project's class, which forwards records and keeps rows in stores.

    `name`: of the processor, in its topology: by it the times of its punctuations are kept. `into`: the columns of the
    records that it forwards, by edge; without any that is the flow, and their columns are those that come. `named`:
    whether it says to which of these edges each one goes. `options`: arguments of the class. The pipe adds `sources`,
    what the task reads, where another stage does that, and `turn`, its place among the processors of the subtopology.
    """

    flow: str
    function: PythonFunction
    name: str
    into: Mapping[str, Flow] = field(default_factory=dict)
    named: bool = False
    stores: tuple[Store, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    at: Place = ""
    sources: tuple[Source, ...] = ()
    turn: int = 0


@dataclass(frozen=True)
class Call:
    """Calls a Python function of an expression for each row: its result is the value column `column`.

    `arguments`: the columns that it is given. `null_values`: whether it is called for records with a null value too,
    whose columns are all null; otherwise the column is null there. `by_itself`: whether nothing is kept from row to row
    before it, so that it fails for a row whichever others are left out; known once the stages are (`engine/steps.py`).
    """

    flow: str
    column: str
    udf: Udf
    arguments: tuple[str, ...]
    null_values: bool = False
    at: Place = ""
    by_itself: bool = False


@dataclass(frozen=True)
class Fork:
    """A copy of each row for each reader, in order."""

    flow: str
    into: tuple[str, ...]
    at: Place = ""


@dataclass(frozen=True)
class Merge:
    """The rows of several edges with equal columns, in the order of processing."""

    flows: tuple[str, ...]
    into: str
    at: Place = ""


@dataclass(frozen=True)
class Sink:
    """Writes a topic. The edge has the topic's columns and maybe others.

    `keep_null_keys`: whether records without a key go to a repartition topic. `of`: whether it repartitions a stream or
    a table that is regrouped.
    """

    flow: str
    topic: Topic
    mode: SinkMode = "append"
    keep_null_keys: bool = False
    of: Side = "stream"
    at: Place = ""


Declaration = (
    Source
    | Table
    | Select
    | KeyBy
    | StreamTableJoin
    | TableTableJoin
    | GlobalJoin
    | Subscribe
    | Answer
    | ForeignKeyJoin
    | Forget
    | StreamJoin
    | Aggregate
    | AggregateSessions
    | AggregateSliding
    | Reduce
    | AggregateWith
    | Materialize
    | Suppress
    | Settle
    | ToStream
    | FinalResults
    | Process
    | Call
    | Fork
    | Merge
    | Sink
)


def stores_of(node: Declaration) -> tuple[Store, ...]:
    """The stores that an operator uses. Global tables are none."""
    if isinstance(node, Process | StreamJoin):
        return node.stores
    found = (getattr(node, name, None) for name in ("store", "expired"))
    return tuple(store for store in found if isinstance(store, Store))
