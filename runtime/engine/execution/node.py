"""The context of operators in an epoch: stores, clocks, sinks, edges, and errors of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

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

if TYPE_CHECKING:
    from .kafka import KafkaAccess

# The state of a task's epoch: clocks, stores, sinks, and counters of dropped records.


class CommittedRows(Protocol):
    """The reading side of a store, see `StateStore`."""

    @property
    def position(self) -> int:
        """The number of changelog records that the store contains."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None for a missing key."""

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """(Key, value) with `start <= key < end`, by ascending key, or descending if `reverse`. None: no bound."""


class EpochStore:
    """A store during one epoch: its rows at the start, and the changes of the epoch.

    Reads never return a change of the same epoch, because operators process all records of an epoch at once. A join
    gets the changes of a table from its edge, in path order. Changes reach the store only through its committed
    changelog.
    """

    def __init__(self, committed: CommittedRows) -> None:
        self._committed = committed
        self._written: list[tuple[Sequence[bytes], Sequence[bytes | None], Int64s]] = []

    @property
    def position(self) -> int:
        """The number of changelog records that the store contains."""
        return self._committed.position

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys at the start of the epoch; None for a missing key."""
        return self._committed.get_many(keys)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """`CommittedRows.range` at the start of the epoch."""
        return self._committed.range(start, end, reverse=reverse)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Int64s) -> None:
        """Write rows; the value None deletes. `timestamps`: ms."""
        self._written.append((keys, values, timestamps))

    def changes(self) -> pa.Table | None:
        """The changelog records of this epoch, in order; None without changes."""
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
    """Records that a sink writes to a topic, with exactly its columns. `partitions`: int64, of each record."""

    rows: Rows
    partitions: Int64s


@dataclass
class TaskEpoch:
    """One task's epoch in one stage.

    `partition`: of the task. `task`: its name for users. `now`: the planned time of the epoch, ms. `clocks`: of window
    stores, ms; -1 before the first record. `began`: the same at the start of the epoch, if earlier stages moved them.
    `open_store` returns a store at its planned position. `stores`, `global_tables`: the opened ones. `origins`: of the
    task's records. `scheduled`: punctuations of its processors. `passed`: time that passes without a record.

    `kafka`: for operators on topics in Kafka. `timed`: the task's stream time after the epoch, ms, if an operator has
    determined the times of its records; `stream_time`: before the epoch. `positions`: where reading continues after the
    epoch: topic -> lane -> position. `results`, `targets`: see `EpochPlan`. `begins`: whether it is
    the task's first one. `whole`: whether it has taken all records that there are.

    `trial`: the epoch only searches for records that fail; `_order` of a row is then the number of its record.
    `more`: edge -> further rows, in path order, piece by piece. Used where all rows of an edge may not fit into memory;
    the sink of the edge takes them.
    """

    partition: int
    now: int
    clocks: dict[str, int]
    open_store: Callable[[Store], CommittedRows]
    open_global: Callable[[GlobalTable], CommittedRows]
    began: Mapping[str, int] | None = None
    origins: Origins | None = None
    scheduled: tuple[Scheduled, ...] = ()
    task: str = ""
    passed: PassedTime | None = None
    trial: bool = False
    kafka: KafkaAccess | None = None
    stream_time: int = -1
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    begins: bool = False
    whole: bool = False
    timed: int | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    stores: dict[str, EpochStore] = field(default_factory=dict)
    global_tables: set[str] = field(default_factory=set)
    sinks: dict[str, tuple[Topic, list[Written]]] = field(default_factory=dict)
    more: dict[str, Iterator[Rows]] = field(default_factory=dict)
    later: list[tuple[Topic, Iterator[Written]]] = field(default_factory=list)
    _places: int = 0

    def __post_init__(self) -> None:
        if self.began is None:
            self.began = dict(self.clocks)

    def clock(self, name: str) -> int:
        """The stream time of a window store, ms; -1 before its first record."""
        return self.clocks.get(name, -1)

    def clock_before(self, name: str) -> int:
        """`clock` at the start of the epoch."""
        return (self.began or {}).get(name, -1)

    def advance(self, name: str, time: int) -> None:
        """Move the clock of a window store. It never goes back."""
        self.clocks[name] = max(self.clock(name), time)

    def let_pass(self, name: str, behind: int = 0) -> None:
        """If time passes without a record, move a clock to this time minus `behind` (ms)."""
        if self.passed is not None:
            self.advance(name, self.passed.time - behind)

    def places_of_time(self) -> list[Rows]:
        """If time passes without a record: one row without columns, with the path and time of emitted rows."""
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
            self.stores[store.name] = EpochStore(self.open_store(store))
        return self.stores[store.name]

    def schedule(self, processor: str, scheduled: Iterable[Scheduled]) -> None:
        """Replace the punctuations of a processor."""
        others = (each for each in self.scheduled if each.processor != processor)
        self.scheduled = (*others, *scheduled)

    def global_table(self, table: GlobalTable) -> CommittedRows:
        """A global table at the position of the epoch's plan."""
        self.global_tables.add(table.name)
        return self.open_global(table)

    def write(self, topic: Topic, rows: Rows, partitions: Int64s) -> None:
        """Write records to a topic at the end of the epoch. `partitions`: of each record."""
        self.sinks.setdefault(topic.name, (topic, []))[1].append(Written(rows, partitions))

    def write_later(self, topic: Topic, parts: Iterator[Written]) -> None:
        """Write further records behind those of `write`, part by part. No other sink may write the topic."""
        self.later.append((topic, parts))


Edges = dict[str, Rows]
"""The rows of a task's epoch by edge. An edge has the name of a flow or table; an operator on it replaces its rows."""


class RowFailedError(HeadwaterError):
    """An operator cannot process a row. It is the first such row in path order. `order`: its `_order`.

    `cause`: the error of the row. `at`: the location of the step; empty for the operator's own.
    """

    def __init__(self, order: int, cause: HeadwaterError, at: Place = "") -> None:
        super().__init__(cause.message, cause.hint)
        self.order = order
        self.cause = cause
        self.at = at


class EachFailedError(HeadwaterError):
    """An operator cannot process some rows, each with an error of its own. `rows`: (`_order`, error).

    `by_itself`: whether each row fails regardless of the other rows.
    """

    def __init__(self, rows: Sequence[tuple[int, HeadwaterError]], by_itself: bool) -> None:
        first = rows[0][1]
        super().__init__(first.message, first.hint)
        self.rows = tuple(rows)
        self.by_itself = by_itself


class RowsFailedError(HeadwaterError):
    """An expression fails for rows. `records`: the first level of their paths. `orders`: their `_order`.

    Spark determines the exact error: it computes the expression for these records alone.
    """

    def __init__(self, records: Int64s, orders: Int64s) -> None:
        super().__init__(
            "an expression cannot be computed: a number or a time has no place in its type, a number is divided by 0, "
            "or an array has no such element"
        )
        self.records = records
        self.orders = orders


def step_name(node: Node) -> str:
    """The name of a step in counters of dropped records: its location."""
    return str(node.at) or type(node).__name__
