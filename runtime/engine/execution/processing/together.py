"""Processors that share a store: they process records in turn, as one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from .....errors import HeadwaterError
from ....python_functions.objects import RowType, UnfitRowError
from ....records.types import Kind
from ....timed_parts import timed
from ...operators.operator import Node, Place, Touched
from ...operators.process import Process
from ...operators.stateless import Fork, KeyBy, Merge, Select
from ..computing import Branch, Compute, Explode, Where
from ..node import Edges, RowFailedError, RowsFailedError, TaskEpoch, step_name
from ..rows import Rows, no_rows, null_keys, path_order
from .batches import Moment, Record, copied_headers
from .process import Given, Running, columns_of
from .punctuation import Position
from .stores import OpenedStores

# Stateless operators between processors that share a store. Each record passes them before its `forward` returns.
#
# They compute expressions on one row at a time. After the last record, the same operators compute the rows of the edges
# from all rows at once. They are deterministic, so these rows are equal to those that were computed one by one.

RowWise = Where | Compute | Explode | Branch | Select | KeyBy
"""Operators that turn each row into zero or more rows, independently of other rows."""

Take = Callable[[Record], None]
"""A receiver of a forwarded record."""


@dataclass(frozen=True)
class Columns:
    """The columns of an edge, as the types of records."""

    key: RowType
    value: RowType

    @classmethod
    def of(cls, rows: Rows) -> Columns:
        """The columns of rows."""
        sides = ({name: column.type for name, column in side.items()} for side in (rows.keys, rows.values))
        return cls(*map(RowType, sides))

    def row(self, record: Record, order: int) -> Rows:
        """A record as a `Rows` of one row, without headers. `order`: its `_order`."""
        first = np.zeros(1, np.int64)
        kind = np.array([Kind.TOMBSTONE if record.value is None else Kind.VALUE], np.int8)
        plain = Rows((first,), kind, np.array([record.timestamp]), np.array([order]))
        return plain.with_columns(self.key.to_columns([record.key]), self.value.to_columns([record.value]))

    def records(self, rows: Rows, came: Record) -> list[Record]:
        """Rows as records. `came`: the record from which they come; it gives timestamp and headers.

        Raises UnfitRowError.
        """
        keys = self.key.rows(rows.keys, ~null_keys(list(rows.keys.values()), len(rows)))
        values = self.value.rows(rows.values, rows.kind == Kind.VALUE)
        return [Record(key, value, came.timestamp, came.headers) for key, value in zip(keys, values, strict=True)]

    def copy(self, record: Record) -> Record:
        """A copy of a record for a receiver, which may change lists and dicts in it."""
        headers = copied_headers(record.headers)
        return Record(self.key.copy(record.key), self.value.copy(record.value), record.timestamp, headers)


class Passing:
    """Operators that a record passes, one after another. `takes`: the receivers of the resulting records, by edge."""

    def __init__(
        self, step: RowWise, came: Columns, makes: Mapping[str, Columns], epoch: TaskEpoch, moment: Moment
    ) -> None:
        self.step = step
        self.takes: Mapping[str, Sequence[Take]] = {}
        self._came = came
        self._makes = makes
        self._steps: tuple[RowWise, ...] = (step,)
        self._epoch = epoch
        self._moment = moment

    def lead_to(self, takes: Mapping[str, Sequence[Take]]) -> Sequence[Take]:
        """Set the receivers of the resulting records. Returns the receivers of its input: itself, or none if no
        receiver follows.
        """
        self.takes = takes
        following = [getattr(take, "__self__", None) for each in takes.values() for take in each]
        if len(following) == 1 and isinstance(following[0], Passing):
            self._join(following[0])
        return [self.take] if following else []

    def _join(self, following: Passing) -> None:
        """Run the following operators on the same rows, without records in between, if that keeps the order."""
        many = isinstance(self.step, Explode) and len(following.takes) > 1
        if [*self.takes] == [following.step.flow] and not many:
            self._steps = (self.step, *following._steps)
            self._makes, self.takes = following._makes, following.takes

    def take(self, record: Record) -> None:
        """Run the operators on a record, and pass the results on. Raises RowFailedError."""
        edges = {self.step.flow: self._came.row(record, self._moment.order)}
        for step in self._steps:
            self._run(step, edges)
            if not any(map(len, edges.values())):
                return
        for name, takes in self.takes.items():
            if takes and len(edges[name]):
                for made in self._records(name, edges[name], record):
                    for take in takes:
                        take(self._makes[name].copy(made))

    def _run(self, step: RowWise, edges: Edges) -> None:
        try:
            step.run(edges, self._epoch)
        except RowsFailedError as error:
            self._moment.failed = RowFailedError(self._moment.order, HeadwaterError(error.message), step.at)
            raise self._moment.failed from error

    def _records(self, name: str, rows: Rows, came: Record) -> list[Record]:
        try:
            return self._makes[name].records(rows, came)
        except UnfitRowError as error:
            cause = HeadwaterError(f"a processor cannot be given this record: {error.cause}")
            self._moment.failed = RowFailedError(self._moment.order, cause, self._steps[-1].at)
            raise self._moment.failed from error


# Processors that share a store: each sees what the others stored for earlier records.
#
# Other operators process all records of an epoch before the next operator starts. These processors take turns instead,
# record by record, in the task's order. A record that one forwards to another is processed before `forward` returns, as
# in Kafka Streams, even if it passes a filter on the way (`Passing`).

Member = Process | Fork | Merge | RowWise
"""Operators that may stand among processors that share stores."""


def together(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The operators of a stage, with adjacent processors that share a store as one operator.

    Raises ValueError if an operator that is not a `Member` stands between them.
    """
    found: list[Node] = []
    rest = list(nodes)
    while rest:
        end = _end(rest)
        group = [node for node in rest[:end] if isinstance(node, Member)]
        if end > len(group) > 0:
            raise ValueError(f"another operator stands between processors that share a store: {rest[:end]}")
        found.append(ProcessTogether(tuple(group)) if end > 1 else rest[0])
        del rest[:end]
    return tuple(found)


def _end(nodes: Sequence[Node]) -> int:
    """The size of the group that begins with the first operator: 1 if it shares no store.

    A group grows as long as one of its processors shares a store with a later one.
    """
    end, place = 1, 0
    while place < end:
        names = _stores(nodes[place])
        end = max([end, *(other + 1 for other, node in enumerate(nodes) if names & _stores(node))])
        place += 1
    return end


def _stores(node: Node) -> set[str]:
    return {store.name for store in node.stores} if isinstance(node, Process) else set()


@dataclass(frozen=True)
class ProcessTogether(Node):
    """Processors that share stores, and the stateless operators between them, in the order of the stage."""

    nodes: tuple[Member, ...]

    is_stateful = True

    @property
    def at(self) -> Place:
        """The location of the first one."""
        return self.nodes[0].at

    @property
    def reads(self) -> tuple[str, ...]:
        """The edges that come from operators outside the group."""
        made: set[str] = set()
        read = []
        for node in self.nodes:
            read += [name for name in node.reads if name not in made]
            made.difference_update(node.reads)
            made.update(node.makes)
        return tuple(read)

    @property
    def makes(self) -> tuple[str, ...]:
        """The edges for operators outside the group."""
        made: dict[str, None] = {}
        for node in self.nodes:
            for name in node.reads:
                made.pop(name, None)
            made.update(dict.fromkeys(node.makes))
        return tuple(made)

    @property
    def touches(self) -> Touched:
        """See `Process`."""
        return Touched(before=self.reads, after=self.makes)

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionError."""
        with timed("python"):
            _Group(self.nodes, edges, epoch, step_name(self)).run()


class _Group:
    """One epoch of a task: the processors that share stores, and the operators between them."""

    def __init__(self, nodes: Sequence[Member], edges: Edges, epoch: TaskEpoch, name: str) -> None:
        """`name`: the step that counts dropped rows."""
        assert epoch.origins is not None
        self._edges = edges
        self._epoch = epoch
        self._name = name
        self._moment = Moment.at_start(epoch.origins.before)
        stores = [store for node in nodes if isinstance(node, Process) for store in node.stores]
        self._stores = OpenedStores(stores, epoch, epoch.origins, self._moment)
        self._outer: list[tuple[Running, Rows]] = []
        """The processors with input from outside the group, and that input."""
        self._parts: list[Running | Passing | Fork | Merge] = []
        self._come_in(nodes)
        self._members = [part for part in self._parts if isinstance(part, Running)]
        self._connect()

    def run(self) -> None:
        """Process all records, and put the results on the edges."""
        try:
            self._process()
        finally:
            self._moment.ended = True

    def _process(self) -> None:
        for running in self._members:
            running.begin()
        self._stores.sweep()
        for _, rows in self._outer:
            self._stores.expect(rows)
        for running, given in self._records():
            if any(each.schedules.next_record <= given[0][0] for each in self._members):
                self._punctuate(given[0])
            running.give(given)
        self._punctuate(None)
        for running in self._members:
            running.end()
        self._stores.flush(self._name)
        for part in self._parts:
            match part:
                case Running():
                    self._edges.update(part.edges(self._edges.pop(part.step.flow)))
                case Passing():
                    part.step.run(self._edges, self._epoch)
                case _:
                    part.run(self._edges, self._epoch)

    def _come_in(self, nodes: Sequence[Member]) -> None:
        """Create the parts of the group, and distribute the input from outside.

        Edges with forwarded records are still empty here: they have columns but no rows.
        """
        edges = dict(self._edges)
        for node in nodes:
            match node:
                case Process():
                    rows = edges.pop(node.flow)
                    stores = {store.name: self._stores.by_name[store.name] for store in node.stores}
                    running = Running(node, columns_of(rows), self._epoch, stores, self._moment)
                    if len(rows):
                        self._outer.append((running, rows))
                    self._parts.append(running)
                    edges.update({name: no_rows(flow) for name, flow in running.into.items()})
                case Fork() | Merge():
                    node.run(edges, self._epoch)
                    self._parts.append(node)
                case _:
                    came = Columns.of(edges[node.flow])
                    _run(node, edges, self._epoch)
                    makes = {name: Columns.of(edges[name]) for name in node.makes}
                    self._parts.append(Passing(node, came, makes, self._epoch, self._moment))

    def _connect(self) -> None:
        """Connect each part with the receivers of its output, from the last part to the first."""
        takes: dict[str, Sequence[Take]] = {}
        for part in reversed(self._parts):
            match part:
                case Running():
                    part.forwarded.behind = {name: found for name in part.into if (found := takes.pop(name, ()))}
                    takes[part.step.flow] = [part.take]
                case Passing():
                    takes[part.step.flow] = part.lead_to({name: takes.pop(name, ()) for name in part.step.makes})
                case Fork():
                    takes[part.flow] = [take for name in part.into for take in takes.pop(name, ())]
                case Merge():
                    takes.update(dict.fromkeys(part.flows, takes.pop(part.into, ())))

    def _records(self) -> Iterator[tuple[Running, Given]]:
        """The input from outside, in the order in which the task takes it.

        Example: the first processor gets 2 rows, the second 1, and the path order of the concatenated rows is 0, 2, 1.

            ends                                    [2, 3]
            path order                              [0, 2, 1]
            processor of each, by `searchsorted`    [0, 1, 0]
        """
        parts = [rows for _, rows in self._outer]
        given = [running.records(rows) for running, rows in self._outer]
        ends = np.cumsum([len(rows) for rows in parts])
        for number in np.searchsorted(ends, path_order(parts), side="right").tolist():
            yield self._outer[number][0], next(given[number])

    def _punctuate(self, until: Position | None) -> None:
        """Run the punctuations of all processors that are due before `until`, by position. None: all of the epoch."""
        while True:
            queued = [(at, each) for each in self._members if (at := each.schedules.next_at()) is not None]
            if not queued:
                return
            at, running = min(queued, key=itemgetter(0))
            if until is not None and at >= until:
                return
            due = running.schedules.take()
            running.run(due)
            running.schedules.ran(due)


def _run(node: RowWise, edges: Edges, epoch: TaskEpoch) -> None:
    try:
        node.run(edges, epoch)
    except RowsFailedError as error:
        raise RowFailedError(int(error.orders[0]), HeadwaterError(error.message), node.at) from error
