"""The operator `Process`: runs one processor of a task during an epoch."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .....errors import HeadwaterError
from .....plugins.errors import is_interrupt_or_out_of_memory
from ....python_functions.errors import FunctionRaisedError
from ....python_functions.loading import load
from ....python_functions.objects import RowType, UnfitRowError
from ....python_functions.results import UnfitValueError
from ....records.arrays import Bools, Int64s
from ....records.types import Kind, columns_ddl
from ....timed_parts import timed
from ...operators.operator import Flow
from ...operators.process import Process
from ..node import Edges, RowFailedError, TaskEpoch, step_name
from ..rows import Rows, null_keys
from .batches import Moment, Record, batch_of
from .context import Forwarded, Output, ProcessorContext, headers_of
from .punctuation import BEHIND, Due, Position, Schedules, position_of
from .stores import AnyStore, OpenedStores

# One processor during an epoch: its object, and its records and punctuations.
#
# The object lives for one epoch, because an epoch may run on any executor, and may run twice. Lasting state belongs in
# stores. Records are processed in the task's order. All that one record forwards precedes all that the next forwards.

Given = tuple[Position, int, int, Record]
"""A record: its position, the stream time including it (ms), its `_order`, and the object for the processor."""


class BatchFailedError(ValueError):
    """An error of `process_batch`. Trials with shorter batches find the record."""


class Running:
    """One processor's epoch. `came`: the columns of its input. `stores`: the stores that the step declares.

    `moment`: the current record. Processors that share a store share it.
    """

    def __init__(
        self,
        step: Process,
        came: Flow,
        epoch: TaskEpoch,
        stores: Mapping[str, AnyStore],
        moment: Moment,
    ) -> None:
        assert epoch.origins is not None
        self.step = step
        self.into = step.into or {step.flow: came}
        self.schedules = Schedules(
            step.name,
            step.turn,
            epoch.scheduled,
            epoch.origins,
            epoch.now,
            moment.reject_outside,
            held=epoch.passed is not None,
        )
        self.forwarded = Forwarded(
            {name: Output.of(name, flow) for name, flow in self.into.items()}, step.named, moment
        )
        self._epoch = epoch
        self._origins = epoch.origins
        self._moment = moment
        self._stores = stores
        self._object: Any = None
        self._context: ProcessorContext
        self._taken = 0

    def begin(self) -> None:
        """Create the processor's object and call its `init`."""
        step = self.step
        kind = load(step.function)
        self._object = self._called("__init__", lambda: kind(**step.options))
        self._context = context = ProcessorContext(
            self._epoch.partition,
            self._epoch.task,
            self._stores,
            self.forwarded,
            self.schedules,
            self._origins,
            self._moment,
        )
        if hasattr(self._object, "init"):
            self._called("init", lambda: self._object.init(context))
        self._called("init", lambda: context.begin(self._object))

    def process(self, rows: Rows) -> None:
        """Process all rows, and run the punctuations that are due."""
        if hasattr(self._object, "process_batch"):
            self._process_batches(rows, self._object.process_batch)
        else:
            for given in self.records(rows):
                if self.schedules.next_record <= given[0][0]:
                    self._punctuate(given[0])
                self.give(given)
        self._punctuate(None)

    def end(self) -> None:
        """Call the object's `close`, and keep its schedules for the next epoch."""
        self._context.end()
        if hasattr(self._object, "close"):
            self._called("close", self._object.close)
        self._called("", self._reject_misused)
        self._epoch.schedule(self.step.name, self.schedules.left())

    def edges(self, rows: Rows) -> Edges:
        """The forwarded rows. `rows`: all input rows, in the order of processing."""
        return self.forwarded.edges(rows, self._origins)

    def records(self, rows: Rows) -> Iterator[Given]:
        """The rows as records, one by one. Raises RowFailedError."""
        numbers = self._origins.numbers_of(rows)
        times = self._origins.times_of(numbers).tolist()
        keys, values = self._objects(rows)
        headers = [None] * len(rows) if rows.headers is None else headers_of(rows.headers.to_pylist())
        found = zip(
            self._positions(rows, numbers),
            times,
            rows.order.tolist(),
            keys,
            values,
            rows.timestamp.tolist(),
            headers,
            strict=True,
        )
        for at, time, order, key, value, timestamp, header in found:
            yield at, time, order, Record(key, value, timestamp, header or {})

    def give(self, given: Given) -> None:
        """Process a record of the input. Raises RowFailedError."""
        moment = self._moment
        moment.at, moment.stream_time, moment.order, record = given
        moment.row = self._next_row()
        # A row from a punctuation belongs to no record.
        moment.record = moment.at[0] if len(self._origins) and len(moment.at) == 1 else None
        moment.timestamp = record.timestamp
        self._process(record)

    def take(self, record: Record) -> None:
        """Process a record that another processor is forwarding. Raises RowFailedError."""
        moment = self._moment
        row, timestamp = moment.row, moment.timestamp
        moment.row, moment.timestamp = self._next_row(), record.timestamp
        self._process(record)
        moment.row, moment.timestamp = row, timestamp

    def run(self, due: Due) -> None:
        """Run a punctuation."""
        moment, number = self._moment, due.at[0]
        moment.record = moment.row = None
        moment.at, moment.timestamp, moment.stream_time = due.at, due.time, self._origins.time(number)
        moment.order = int(self._origins.order_of(np.array([number]))[0])
        name = due.schedule.name
        self._called(f"{name}, a punctuation", lambda: _reject_lost(name, due.schedule.callback(due.time)))
        self._called(f"{name}, a punctuation", self._reject_misused)
        self._reject_failed()

    def _next_row(self) -> int:
        """The number of the next input row. Records are processed in the order of the input rows."""
        self._taken += 1
        return self._taken - 1

    def _positions(self, rows: Rows, numbers: Int64s) -> Sequence[Position]:
        """The positions of rows in the epoch. `numbers`: of the records from which the rows come."""
        found: list[Position] = [(number,) for number in numbers.tolist()]
        for row in np.flatnonzero(_of_punctuations(rows)).tolist():
            found[row] = position_of(int(numbers[row]), (int(level[row]) for level in rows.path[1:]))
        return found

    def _process(self, record: Record) -> None:
        try:
            _reject_lost("process", self._object.process(record))
            self._reject_misused()
        except HeadwaterError:  # from a store
            raise
        except BaseException as error:
            if is_interrupt_or_out_of_memory(error):
                raise
            cause = FunctionRaisedError(self.step.function, error, "process")
            self._moment.failed = RowFailedError(self._moment.order, cause, self.step.at)
            raise self._moment.failed from error
        self._reject_failed()

    def _reject_misused(self) -> None:
        """Raise here the error that was raised in another thread: this thread may not have seen it."""
        if self._moment.misused:
            raise UnfitValueError(self._moment.misused)

    def _reject_failed(self) -> None:
        """Raise the error of another processor for a forwarded record, even if this processor caught it."""
        if self._moment.failed is not None:
            raise self._moment.failed

    def _process_batches(self, rows: Rows, process: Callable[[pa.RecordBatch], Any]) -> None:
        """Call `process_batch` with all rows up to the next punctuation, until no row is left."""
        moment, start = self._moment, 0
        numbers = self._origins.numbers_of(rows)
        positions = self._positions(rows, numbers)
        behind = _of_punctuations(rows)
        while start < len(rows):
            self._punctuate(positions[start])
            due = self.schedules.next_record
            later = (numbers > due) | ((numbers == due) & behind)
            later[: start + 1] = False
            end = int(np.argmax(later)) if later.any() else len(rows)
            last = int(numbers[end - 1])
            moment.record = moment.row = None
            moment.at, moment.timestamp = positions[end - 1], int(rows.timestamp[end - 1])
            moment.stream_time, moment.in_batch = self._origins.time(last), True
            try:
                made = process(batch_of(rows, start, end))
                self._reject_misused()
                self.forwarded.add_batches(made, start, end, rows, self._origins)
            except HeadwaterError:
                raise
            except BaseException as error:
                if is_interrupt_or_out_of_memory(error):
                    raise
                raise BatchFailedError(str(FunctionRaisedError(self.step.function, error, "process_batch"))) from error
            start, moment.in_batch = end, False

    def _punctuate(self, until: Position | None) -> None:
        """Run the punctuations that are due before `until`. None: all of the epoch."""
        for due in self.schedules.due(until):
            self.run(due)

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        """The result of a call without a record. Raises FunctionRaisedError."""
        try:
            return call()
        except HeadwaterError:
            raise
        except BaseException as error:
            if is_interrupt_or_out_of_memory(error):
                raise
            at = f", {self.step.at}" if self.step.at else ""
            raise FunctionRaisedError(self.step.function, error, f"{what}{at}") from error

    def _objects(self, rows: Rows) -> tuple[list[Any], list[Any]]:
        """The keys and values of rows as objects, None where they are null. Raises RowFailedError."""
        keys = {name: column.type for name, column in rows.keys.items()}
        values = {name: column.type for name, column in rows.values.items()}
        try:
            there = ~null_keys(list(rows.keys.values()), len(rows))
            return RowType(keys).rows(rows.keys, there), RowType(values).rows(rows.values, rows.kind == Kind.VALUE)
        except UnfitRowError as error:
            cause = HeadwaterError(f"{self.step.function.name} cannot be given this record: {error.cause}")
            raise RowFailedError(int(rows.order[error.row]), cause, self.step.at) from error


def _of_punctuations(rows: Rows) -> Bools:
    """Whether a punctuation of an earlier processor made each row."""
    return rows.path[1] == BEHIND if len(rows.path) > 1 else np.zeros(len(rows), np.bool_)


def _reject_lost(method: str, returned: Any) -> None:
    """Raise UnfitValueError if a method of a processor yields or returns records: they would be lost."""
    if returned is None:
        return
    if isinstance(returned, Generator | Coroutine):
        word = "yield" if isinstance(returned, Generator) else "async"
        raise UnfitValueError(f"`{method}` has `{word}` in it, so nothing of it runs: forward with `context.forward`")
    listed = isinstance(returned, list | tuple) and bool(returned) and isinstance(returned[0], Record)
    if listed or isinstance(returned, Record):
        raise UnfitValueError(f"`{method}` returns records, which are lost: forward each with `context.forward`")


# The operator of the `process` step: an object of a project's class processes one record after another.


def process(node: Process, edges: Edges, epoch: TaskEpoch) -> None:
    """Run the operator `Process`. Raises RowFailedError, FunctionError."""
    assert epoch.origins is not None
    with timed("python"):
        rows, moment = edges.pop(node.flow), Moment.at_start(epoch.origins.before)
        stores = OpenedStores(node.stores, epoch, epoch.origins, moment)
        running = Running(node, columns_of(rows), epoch, stores.by_name, moment)
        try:
            running.begin()
            stores.sweep()
            stores.expect(rows)
            running.process(rows)
            running.end()
            stores.flush(step_name(node))
            edges.update(running.edges(rows))
        finally:
            moment.ended = True


def columns_of(rows: Rows) -> Flow:
    """The columns of rows as DDL."""
    sides = (columns_ddl({name: column.type for name, column in side.items()}) for side in (rows.keys, rows.values))
    return Flow(*sides)
