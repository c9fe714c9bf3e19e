"""The operator of the `process` step: an object of a project's class is given one record after another.

The object lives for one epoch, as an epoch may run anywhere, or again: what is to last is in stores. Records are
processed in the order in which the task takes them, and whatever one forwards comes before what the next one does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...python_functions.errors import FunctionRaisedError
from ...python_functions.loading import load
from ...python_functions.objects import RowType, UnfitRowError
from ...records.keys import encode_keys
from ...records.kinds import Kind
from ...records.types import columns_ddl
from ...timed_parts import timed
from .. import declarations
from ..declarations import Flow
from ..keyed.codes import bytes_of
from ..node import Edges, RowFailedError, step_name
from ..rows import Rows, null_keys
from ..task_epoch import TaskEpoch
from .batches import batch_of
from .context import ProcessorContext
from .forwarded import Forwarded, Output, headers_of
from .moment import Moment
from .punctuation import BEHIND, Due, Position, Schedules
from .record import Record
from .stores.any_store import store_of
from .stores.key_value import KeyValueStore


@dataclass(frozen=True)
class Process(declarations.Process):
    """See `declarations.Process`.

    What a record fails for is raised as RowFailedError: the epoch is then worked out again without it, so nothing of it
    is left in stores. What fails elsewhere, in `init`, `close` or a punctuation, is no record's fault.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionError."""
        with timed("python"):
            edges.update(_Run(self, edges.pop(self.flow), epoch).edges())


class BatchFailedError(ValueError):
    """A processor of batches has raised an error: for which record, is found by trying shorter batches."""


class _Run:
    """One processor's epoch."""

    def __init__(self, step: Process, rows: Rows, epoch: TaskEpoch) -> None:
        assert epoch.origins is not None
        self._step = step
        self._rows = rows
        self._epoch = epoch
        self._origins = epoch.origins
        self._moment = Moment(epoch.origins.before, max(epoch.origins.before, 0))
        self._stores = {store.name: store_of(store, epoch.store(store), self._moment) for store in step.stores}
        came = Flow(_types(rows, keys=True), _types(rows, keys=False))
        into = step.into or {step.flow: came}
        self._forwarded = Forwarded({name: Output.of(flow) for name, flow in into.items()}, step.named, self._moment)
        self._schedules = Schedules(
            step.name, epoch.processors, epoch.scheduled, epoch.origins, epoch.now, held=epoch.passed is not None
        )
        epoch.processors += 1

    def edges(self) -> Edges:
        """What it has forwarded, once all is processed and stored."""
        step = self._step
        kind = load(step.function)
        processor = self._called("__init__", lambda: kind(**step.options))
        context = ProcessorContext(
            self._epoch.partition,
            self._epoch.task,
            self._stores,
            self._forwarded,
            self._schedules,
            self._origins,
            self._moment,
        )
        if hasattr(processor, "init"):
            self._called("init", lambda: processor.init(context))
        self._called("init", lambda: context.begin(processor))
        self._sweep()
        if hasattr(processor, "process_batch"):
            self._process_batches(processor.process_batch)
        else:
            self._process(processor.process)
        self._punctuate(None)
        if hasattr(processor, "close"):
            self._called("close", processor.close)
        for store in self._stores.values():
            store.flush()
            if not isinstance(store, KeyValueStore):
                self._epoch.drop(step_name(step), "late", store.late)
        self._epoch.schedule(step.name, self._schedules.left())
        return self._forwarded.edges(self._rows, self._origins)

    def _process(self, process: Callable[[Record], object]) -> None:
        rows, moment, schedules = self._rows, self._moment, self._schedules
        numbers = self._origins.numbers_of(rows)
        times = self._origins.times_of(numbers).tolist()
        keys, values = self._objects()
        headers = [None] * len(rows) if rows.headers is None else headers_of(rows.headers.to_pylist())
        self._expect()
        records = zip(numbers.tolist(), times, keys, values, rows.timestamp.tolist(), headers, strict=True)
        for row, (number, time, key, value, timestamp, header) in enumerate(records):
            if schedules.next_record <= number:
                self._punctuate(self._position(row, number))
            moment.record, moment.row, moment.at = number if len(self._origins) else None, row, (number,)
            moment.stream_time, moment.timestamp = time, timestamp
            try:
                process(Record(key, value, timestamp, header or {}))
            except (HeadwaterError, MemoryError):  # of a store or of the machine
                raise
            except (Exception, SystemExit) as error:
                cause = FunctionRaisedError(self._step.function, error, "process")
                raise RowFailedError(int(rows.order[row]), cause) from error

    def _process_batches(self, process: Callable[[pa.RecordBatch], Any]) -> None:
        """Give the rows up to the next punctuation at once, as often as it takes."""
        rows, moment, start = self._rows, self._moment, 0
        numbers = self._origins.numbers_of(rows)
        behind = rows.path[1] == BEHIND if len(rows.path) > 1 else np.zeros(len(rows), np.bool_)
        self._expect()
        while start < len(rows):
            self._punctuate(self._position(start, int(numbers[start])))
            due = self._schedules.next_record
            later = (numbers > due) | ((numbers == due) & behind)
            later[: start + 1] = False
            end = int(np.argmax(later)) if later.any() else len(rows)
            last = int(numbers[end - 1])
            moment.record = moment.row = None
            moment.at, moment.timestamp = (last,), int(rows.timestamp[end - 1])
            moment.stream_time, moment.in_batch = self._origins.time(last), True
            try:
                made = process(batch_of(rows, start, end))
                self._forwarded.add_batches(made, start, end, rows, self._origins)
            except (HeadwaterError, MemoryError):
                raise
            except (Exception, SystemExit) as error:
                raise BatchFailedError(str(FunctionRaisedError(self._step.function, error, "process_batch"))) from error
            start, moment.in_batch = end, False

    def _punctuate(self, until: Position | None) -> None:
        """Run the punctuations that are due before something; None: all of the epoch."""
        for due in self._schedules.due(until):
            self._run(due)

    def _run(self, due: Due) -> None:
        moment, number = self._moment, due.at[0]
        moment.record = moment.row = None
        moment.at, moment.timestamp, moment.stream_time = due.at, due.time, self._origins.time(number)
        name = getattr(due.schedule.callback, "__name__", "punctuate")
        self._called(f"{name}, a punctuation", lambda: due.schedule.callback(due.time))

    def _position(self, row: int, number: int) -> Position:
        """Where in the epoch a row stands that comes from the record with this number."""
        path = self._rows.path
        if len(path) < 2 or path[1][row] != BEHIND:
            return (number,)
        return (number, *(int(level[row]) for level in path[1:5]))

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        """What is called outside of records. Raises FunctionRaisedError."""
        try:
            return call()
        except (HeadwaterError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise FunctionRaisedError(self._step.function, error, what) from error

    def _objects(self) -> tuple[list[Any], list[Any]]:
        """The keys and values of the rows, None where they are null. Raises RowFailedError."""
        rows = self._rows
        keys = {name: column.type for name, column in rows.keys.items()}
        values = {name: column.type for name, column in rows.values.items()}
        try:
            there = ~null_keys(list(rows.keys.values()), len(rows))
            return RowType(keys).rows(rows.keys, there), RowType(values).rows(rows.values, rows.kind == Kind.VALUE)
        except UnfitRowError as error:
            cause = HeadwaterError(f"{self._step.function.name} cannot be given this record: {error.cause}")
            raise RowFailedError(int(rows.order[error.row]), cause) from error

    def _expect(self) -> None:
        """Read ahead what processors mostly ask for: the rows under the keys of records."""
        mine = {name: column.type for name, column in self._rows.keys.items()}
        plain = [store for store in self._stores.values() if isinstance(store, KeyValueStore)]
        alike = [store for store in plain if store.key_types == mine]
        if not alike or not len(self._rows):
            return
        keys = encode_keys(list(self._rows.keys.values()))
        there = bytes_of(keys.filter(keys.is_valid()))
        for store in alike:
            store.expect(there)

    def _sweep(self) -> None:
        """Move the clocks of stores, and let what has expired go.

        Key-value stores are gone through whenever half of a retention has passed, and the rows deleted that had expired
        before this epoch. Of others whole segments leave the disk, by their clocks.
        """
        for declared in self._step.stores:
            retention, store = declared.retention_ms, self._stores[declared.name]
            if retention is None:
                continue
            until, mark = self._origins.before - retention, f"{declared.name} swept"
            due = until >= 0 and self._origins.before >= self._epoch.clock(mark) + max(retention // 2, 1)
            if due and isinstance(store, KeyValueStore):
                store.sweep(until)
                self._epoch.advance(mark, self._origins.before)
            self._epoch.advance(declared.name, self._origins.time(len(self._origins) - 1))


def _types(rows: Rows, *, keys: bool) -> str:
    columns = rows.keys if keys else rows.values
    return columns_ddl({name: column.type for name, column in columns.items()})
