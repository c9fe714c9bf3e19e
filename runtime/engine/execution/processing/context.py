"""The context of a processor, and the records that it forwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ....python_functions.objects import Row, RowType
from ....python_functions.results import UnfitValueError
from ....records.arrays import Int64s
from ....records.headers import TextHeaders
from ....records.schema import timestamp_error
from ....records.types import Kind, parse_columns
from ...operators.operator import Flow
from ..order.origins import Origins
from ..rows import Rows, concat
from .batches import CONTEXT, Moment, Record, WithWords, copied_headers, header_text, not_named, rows_of_batch
from .punctuation import Callback, Cancellable, Position, PunctuationType, Schedules
from .stores import AnyStore

# The records that a processor forwards: collected one by one, and turned into rows on its output edges.


ForwardedRecord = tuple[int, int, int, str | None, Row | None, Row | None]
"""(Row, place, timestamp in ms, headers, key, value). Row: the input row from which it comes, or a negative number for
a punctuation: -1 for the first one that forwarded, -2 for the second. Place: among all that the row or punctuation
forwarded, to any edge."""


@dataclass(frozen=True)
class Output:
    """An output edge: its name, the types of its records, and the records that were forwarded to it.

    `done`: rows that were forwarded before `records`.
    """

    name: str
    key: RowType
    value: RowType
    records: list[ForwardedRecord] = field(default_factory=list)
    done: list[Rows] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, flow: Flow) -> Output:
        """An empty output edge with the columns of a flow."""
        return cls(name, RowType(parse_columns(flow.key)), RowType(parse_columns(flow.value)))


class Forwarded:
    """The records that one processor forwarded in an epoch.

    `behind`: by edge, the processors or operators that receive each record immediately, in this order.
    """

    def __init__(self, outputs: Mapping[str, Output], named: bool, moment: Moment) -> None:
        self.behind: Mapping[str, Sequence[Callable[[Record], None]]] = {}
        self._outputs = outputs
        self._named = named
        self._only = None if named else next(iter(outputs.values()))
        self._moment = moment
        self._from: tuple[int | None, Position] | None = None
        self._place = 0
        self._punctuations: list[Position] = []

    def add(self, record: Any, flow: str | None) -> None:
        """Add a forwarded record. `flow`: the name of the output edge. Raises UnfitValueError."""
        try:
            key, value, timestamp, headers = record.key, record.value, record.timestamp, record.headers
        except AttributeError:
            what = "`forward` takes a `headwater.Record(key, value, timestamp)`"
            raise UnfitValueError(f"{what}, and perhaps the name of a flow, not {record!r:.100}") from None
        output = self._only if flow is None and self._only is not None else self._named_output(flow)
        moment = self._moment
        if (wrong := timestamp_error(timestamp)) is not None:
            raise UnfitValueError(f"the timestamp of a forwarded record {wrong}: {timestamp!r:.100}")
        key = None if key is None else _row(output.key, key, "key")
        value = None if value is None else _row(output.value, value, "value")
        text = header_text(headers) if headers else None
        if self._from != (moment.row, moment.at):
            self._from, self._place = (moment.row, moment.at), 0
            if moment.row is None:
                self._punctuations.append(moment.at)
        row = -len(self._punctuations) if moment.row is None else moment.row
        output.records.append((row, self._place, timestamp, text, key, value))
        self._place += 1
        if self.behind:
            self._pass_on(output, key, value, timestamp, headers)

    def _pass_on(self, output: Output, key: Row | None, value: Row | None, timestamp: int, headers: Any) -> None:
        for take in self.behind.get(output.name, ()):
            there = key is not None and any(each is not None for each in tuple(key))
            taken = Record(
                output.key.copy(key) if there else None, output.value.copy(value), timestamp, copied_headers(headers)
            )
            take(taken)

    def edges(self, rows: Rows, origins: Origins) -> dict[str, Rows]:
        """The rows on all output edges. `rows`: the input of the processor."""
        for output in self._outputs.values():
            self._finish(output, rows, origins)
        return {name: concat(output.done) for name, output in self._outputs.items()}

    def add_batches(self, made: Any, start: int, end: int, rows: Rows, origins: Origins) -> None:
        """Add the result of `process_batch` for the rows from `start` to `end`. Raises UnfitValueError."""
        if made is None:
            return
        if self._named and not isinstance(made, Mapping):
            raise UnfitValueError(f"`process_batch` returns batches by the step's `flows`, not {type(made).__name__}")
        came = rows.take(np.arange(start, end))
        for name, batch in made.items() if self._named else [(None, made)]:
            output = self._only if name is None and self._only is not None else self._named_output(name)
            if batch is not None:
                self._finish(output, rows, origins)
                output.done.append(rows_of_batch(batch, output.key.columns, output.value.columns, came))

    def _finish(self, output: Output, rows: Rows, origins: Origins) -> None:
        """Turn the records that were forwarded one by one into rows. An empty edge gets one empty part, for columns."""
        if output.records or not output.done:
            output.done.append(self._edge(output, rows, origins))
            output.records.clear()

    def _named_output(self, flow: str | None) -> Output:
        if not self._named:
            raise UnfitValueError(f"this step has no `flows`, so `forward` cannot name one: {flow!r}")
        known = ", ".join(self._outputs)
        if flow is None:
            raise UnfitValueError(f"`forward` must name one of the step's `flows`: {known}")
        if flow not in self._outputs:
            raise UnfitValueError(not_named(flow, "flows", self._outputs))
        return self._outputs[flow]

    def _edge(self, output: Output, rows: Rows, origins: Origins) -> Rows:
        sources, places, timestamps, headers, keys, values = (
            zip(*output.records, strict=True) if output.records else [()] * 6
        )
        source = np.array(sources, np.int64)
        path, numbers, order = self._paths(source, np.array(places, np.int64), rows, origins)
        kinds = [Kind.TOMBSTONE if value is None else Kind.VALUE for value in values]
        some = any(text is not None for text in headers)
        plain = Rows(
            path,
            np.array(kinds, np.int8),
            np.array(timestamps, np.int64),
            np.where(source < 0, origins.order_of(numbers), order),
            pa.array(headers, pa.string()) if some else None,
        )
        return plain.with_columns(output.key.to_columns(keys), output.value.to_columns(values))

    def _paths(
        self, source: Int64s, places: Int64s, rows: Rows, origins: Origins
    ) -> tuple[tuple[Int64s, ...], Int64s, Int64s]:
        """(The paths of forwarded records, the numbers of records, the `_order` of input rows).

        A path is one int64 array for each level. The number is that of the record that a punctuation follows, 0 for
        other records. The order is 0 for records of punctuations. The place among what was forwarded is the level
        behind the path of the row or punctuation; shorter paths end with -1.

        Example: input rows 0 and 1 (paths 0 and 1, orders 70 and 71) forward one record each. Between them, a
        punctuation with position (1, BEHIND, 0, 60000, 0, 0) forwards one.

            source   [0, -1, 1]       places   [0, 0, 0]
            paths    row 0:        0, 0, -1, -1, -1, -1, -1
                     punctuation:  1, BEHIND, 0, 60000, 0, 0, 0
                     row 1:        1, 0, -1, -1, -1, -1, -1
            numbers  [0, 1, 0]        order    [70, 0, 71]
        """
        of_row = source >= 0
        if of_row.all():
            levels = tuple(level[source] for level in rows.path)
            return (*levels, places), np.zeros(len(source), np.int64), rows.order[source]
        lengths = np.array([len(at) for at in self._punctuations])
        width = max(len(rows.path), int(lengths.max()))
        padded = np.array([[*at, *[-1] * (width - len(at))] for at in self._punctuations], np.int64)
        number = padded[-1 - source[~of_row], 0]
        padded[:, 0] = origins.levels_of(padded[:, 0])
        table = np.full((len(source), width + 1), -1)
        table[~of_row, :width] = padded[-1 - source[~of_row]]
        for place, level in enumerate(rows.path):
            table[of_row, place] = level[source[of_row]]
        order = np.zeros(len(source), np.int64)
        order[of_row] = rows.order[source[of_row]]
        numbers = np.zeros(len(source), np.int64)
        numbers[~of_row] = number
        # The place is the level behind the path of the row or punctuation.
        ends = np.where(of_row, len(rows.path), lengths[np.where(of_row, 0, -1 - source)])
        table[np.arange(len(source)), ends] = places
        return tuple(table.T), numbers, order


def _row(kind: RowType, value: Any, side: str) -> Row:
    try:
        return kind.of(value)
    except UnfitValueError as error:
        raise UnfitValueError(f"the {side} of a forwarded record: {error.cause}") from None


def headers_of(texts: Sequence[str | None]) -> list[TextHeaders]:
    """The headers of records that are texts, from their JSON in topics."""
    return [TextHeaders(text) for text in texts]


# The argument of a processor's `init`: access to stores, output, punctuations, and metadata of the task and record.


class ProcessorContext(WithWords):
    """The context of a processor, with the names of Kafka's `ProcessorContext`. It is valid for one epoch.

    Wrong use raises an error. It counts as the error of the current record, and names the line of the processor's code.
    """

    _words = CONTEXT

    def __init__(
        self,
        partition: int,
        task: str,
        stores: Mapping[str, AnyStore],
        forwarded: Forwarded,
        schedules: Schedules,
        origins: Origins,
        moment: Moment,
    ) -> None:
        self._partition = partition
        self._task = task
        self._stores = stores
        self._forwarded = forwarded
        self._schedules = schedules
        self._origins = origins
        self._moment = moment
        self._processor: Any = None
        self._in_init = True
        self._closing = False

    def store(self, name: str) -> AnyStore:
        """A store that the step declares. Raises UnfitValueError."""
        if name not in self._stores:
            raise UnfitValueError(not_named(name, "stores", self._stores))
        return self._stores[name]

    def forward(self, record: Any, flow: str | None = None) -> None:
        """Forward a record to the next steps. `flow`: the target, if the step has `flows`. Raises UnfitValueError."""
        self._moment.reject_outside()
        if self._closing:
            raise UnfitValueError("`close` cannot forward records: it runs at the end of each epoch, wherever that is")
        if self._in_init:
            raise UnfitValueError("`init` cannot forward records: it runs in every epoch, also where none comes")
        if self._moment.in_batch:
            raise UnfitValueError("`process_batch` returns what it forwards")
        self._forwarded.add(record, flow)

    def schedule(self, interval: str, kind: PunctuationType, callback: Callback) -> Cancellable:
        """Schedule a punctuation: `callback(time)` runs once per `interval`, such as "30s".

        `kind`: "stream_time" or "wall_clock". `time`: ms. Outside of `init`, the callback must be a method of the
        processor, because later epochs find it by name. Raises UnfitValueError.
        """
        self._moment.reject_outside()
        if not callable(callback):
            raise UnfitValueError(f"what a punctuation calls is a function, not {callback!r:.100}")
        if self._in_init:
            return self._schedules.of_init(interval, kind, callback)
        return self._schedules.later(interval, kind, callback, self._method(callback), self._moment.at)

    def schedules(self, callback: Callback) -> list[Cancellable]:
        """The active schedules of a method, including those of earlier epochs."""
        self._moment.reject_outside()
        return self._schedules.running(getattr(callback, "__name__", ""))

    @property
    def stream_time(self) -> int:
        """The greatest timestamp of the task's records so far, including the current one, ms. -1 before the first."""
        self._moment.reject_outside()
        return self._moment.stream_time

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self._partition

    @property
    def task_id(self) -> str:
        """The name of the task: its subtopology and partition, such as `clicks_1`."""
        return self._task

    @property
    def topic(self) -> str | None:
        """The topic of the current record. None in a punctuation, and for rows that are released without a record."""
        self._moment.reject_outside()
        number = self._moment.record
        return None if number is None else self._origins.topic(number)

    @property
    def offset(self) -> int | None:
        """The offset of the current record in its topic. None where `topic` is None."""
        self._moment.reject_outside()
        number = self._moment.record
        return None if number is None else self._origins.offset(number)

    def begin(self, processor: Any) -> None:
        """Called after `init`, before the first record. Restores the schedules of earlier epochs."""
        self._in_init = False
        self._processor = processor
        self._schedules.restore(self._method_called)

    def end(self) -> None:
        """Called after the last record, before `close`."""
        self._closing = True

    def _method_called(self, name: str) -> Callable[[int], object]:
        found: Callable[[int], object] | None = getattr(self._processor, name, None)
        if found is None:
            kind = type(self._processor).__name__
            raise UnfitValueError(
                f"a punctuation of {kind}.{name} is scheduled, and {kind} has no such method any more"
            )
        return found

    def _method(self, callback: Callback) -> str:
        name = getattr(callback, "__name__", "")
        if getattr(callback, "__self__", None) is not self._processor or not hasattr(self._processor, name):
            raise UnfitValueError(
                "outside of `init` a punctuation calls a method of the processor, which later epochs find by its name, "
                f"and not {callback!r:.100}"
            )
        return str(name)
