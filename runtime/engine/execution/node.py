"""What an operator is, and what it is given for an epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...ir.topology import GlobalTable, Store, Topic
from ...log.commit.records import Scheduled
from ...records.arrays import Int64s
from ..operators.operator import Node, Place
from .order.origins import Origins
from .order.partition_group import PassedTime
from .rows import Rows

# What an operator knows of its epoch: the task's clocks, stores and sinks, and the counters of dropped records.


class CommittedRows(Protocol):
    """What an epoch asks of a store: see `StateStore`."""

    @property
    def position(self) -> int:
        """The place in the changelog."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None for a missing one."""

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, sorted by key, or in `reverse` of that; None leaves a side open."""


class EpochStore:
    """A store during one epoch: its rows at the start, and the changes to make.

    Operators process an epoch's records at once, so none of them reads a change of the same epoch: a join gets a
    table's changes from its edge, in order. Changes reach the store only through its committed changelog.
    """

    def __init__(self, committed: CommittedRows) -> None:
        self._committed = committed
        self._written: list[tuple[Sequence[bytes], Sequence[bytes | None], Int64s]] = []

    @property
    def position(self) -> int:
        """Changelog records that the store holds."""
        return self._committed.position

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of the keys as they were when the epoch began, None where there is none."""
        return self._committed.get_many(keys)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end` as they were when the epoch began, sorted by key, or in `reverse` of that."""
        return self._committed.range(start, end, reverse=reverse)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Int64s) -> None:
        """Change rows; None deletes. `timestamps`: of the rows, ms."""
        self._written.append((keys, values, timestamps))

    def changes(self) -> pa.Table | None:
        """This epoch's changelog records in order; None if there are none."""
        if not any(len(keys) for keys, _, _ in self._written):
            return None
        return pa.table(
            {
                "key": pa.array([key for keys, _, _ in self._written for key in keys], pa.binary()),
                "value": pa.array([value for _, values, _ in self._written for value in values], pa.binary()),
                "_timestamp": np.concatenate([timestamps for _, _, timestamps in self._written]),
            }
        )


@dataclass(frozen=True)
class Written:
    """Records that a sink gives to a topic, with exactly the topic's columns, and the partition of each."""

    rows: Rows
    partitions: Int64s


class TaskEpoch:
    """One task's epoch in one stage.

    `partition`: the task's; `task`: how it is shown. `now`: the planned time of the epoch, ms. `clocks`: of window
    stores, -1 before the first record; `began`: the same when the epoch began, where earlier stages have moved them.
    `open_store` returns a store at its planned position. `stores`, `global_tables`: those that were opened. `origins`:
    of the task's records. `scheduled`: the punctuations of its processors. `passed`: time that passes without a record.
    `trial`: whether the epoch only looks for records that fail: the `_order` of rows is then a number of their record.
    `more`: of an edge that has too many rows for memory, those behind the ones on it, in path order, some at a time;
    the sink behind it takes them.
    """

    def __init__(
        self,
        partition: int,
        now: int,
        clocks: Mapping[str, int],
        open_store: Callable[[Store], CommittedRows],
        open_global: Callable[[GlobalTable], CommittedRows],
        began: Mapping[str, int] | None = None,
        origins: Origins | None = None,
        scheduled: Sequence[Scheduled] = (),
        task: str = "",
        passed: PassedTime | None = None,
        trial: bool = False,
    ) -> None:
        self.partition = partition
        self.task = task
        self.origins = origins
        self.scheduled = tuple(scheduled)
        self.passed = passed
        self.trial = trial
        self._places = 0
        self.now = now
        self.clocks = dict(clocks)
        self._began = clocks if began is None else began
        self.dropped: Counter[str] = Counter()
        self.stores: dict[str, EpochStore] = {}
        self.global_tables: set[str] = set()
        self.sinks: dict[str, tuple[Topic, list[Written]]] = {}
        self.more: dict[str, Iterator[Rows]] = {}
        self.later: list[tuple[Topic, Iterator[Written]]] = []
        self._open_store = open_store
        self._open_global = open_global

    def clock(self, name: str) -> int:
        """The stream time that a window store has observed, ms; -1 before its first record."""
        return self.clocks.get(name, -1)

    def clock_before(self, name: str) -> int:
        """The same when the epoch began: up to where all epochs before have come."""
        return self._began.get(name, -1)

    def advance(self, name: str, time: int) -> None:
        """Move the clock of a window store. It never goes back."""
        self.clocks[name] = max(self.clock(name), time)

    def let_pass(self, name: str, behind: int = 0) -> None:
        """Move a clock to the time that passes without a record, if any does, or to so many ms `behind` it."""
        if self.passed is not None:
            self.advance(name, self.passed.time - behind)

    def places_of_time(self) -> list[Rows]:
        """Where comes out what a step gives up as time passes without a record: one row, or none if no time does."""
        if self.passed is None:
            return []
        self._places += 1
        return [self.passed.place(self._places)]

    def drop(self, step: str, reason: str, records: int) -> None:
        """Count records that a step dropped."""
        if records:
            self.dropped[f"{step}:{reason}"] += records

    def store(self, store: Store) -> EpochStore:
        """The task's partition of a store, the same object for every operator of the stage."""
        if store.name not in self.stores:
            self.stores[store.name] = EpochStore(self._open_store(store))
        return self.stores[store.name]

    def schedule(self, processor: str, scheduled: Iterable[Scheduled]) -> None:
        """Keep the punctuations of a processor, in place of those that it had."""
        others = (each for each in self.scheduled if each.processor != processor)
        self.scheduled = (*others, *scheduled)

    def global_table(self, table: GlobalTable) -> CommittedRows:
        """A global table at the position that the epoch pins."""
        self.global_tables.add(table.name)
        return self._open_global(table)

    def write(self, topic: Topic, rows: Rows, partitions: Int64s) -> None:
        """Append records to a topic when the epoch ends."""
        self.sinks.setdefault(topic.name, (topic, []))[1].append(Written(rows, partitions))

    def write_later(self, topic: Topic, parts: Iterator[Written]) -> None:
        """Append more, behind that, each part as it is made. No other sink writes the topic."""
        self.later.append((topic, parts))


Edges = dict[str, Rows]
"""The rows of a task's epoch by edge. Edges are named by flow or table; a step on an edge rebinds it."""


class RowFailedError(HeadwaterError):
    """An operator cannot process a row: the first one, in the order of processing. `order`: its `_order`.

    `cause`: what it raised. `at`: the place of the step; empty for that of the operator.
    """

    def __init__(self, order: int, cause: HeadwaterError, at: Place = "") -> None:
        super().__init__(cause.message, cause.hint)
        self.order = order
        self.cause = cause
        self.at = at


class EachFailedError(HeadwaterError):
    """An operator cannot process some rows, for a reason of each. `rows`: their `_order`, and what it raised for them.

    `by_itself`: whether it fails for each of them whichever others there are.
    """

    def __init__(self, rows: Sequence[tuple[int, HeadwaterError]], by_itself: bool) -> None:
        first = rows[0][1]
        super().__init__(first.message, first.hint)
        self.rows = tuple(rows)
        self.by_itself = by_itself


class RowsFailedError(HeadwaterError):
    """An expression fails for rows. `records`: the first level of their paths; `orders`: their `_order`.

    Which error it is, only Spark tells: it computes the expression for these records alone.
    """

    def __init__(self, records: Int64s, orders: Int64s) -> None:
        super().__init__(
            "an expression cannot be computed: a number or a time has no place in its type, a number is divided by 0, "
            "or an array has no such element"
        )
        self.records = records
        self.orders = orders


def step_name(node: Node) -> str:
    """The name under which drops are counted: the step's place."""
    return str(node.at) or type(node).__name__
