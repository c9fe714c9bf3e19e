"""The context of a processor, and what it forwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from ....python_functions.objects import Row, RowType
from ....python_functions.results import UnfitValueError
from ....records.arrays import Int64s
from ....records.schema import timestamp_error
from ....records.types import Kind, parse_columns
from ...operators.operator import Flow
from ..order.origins import Origins
from ..rows import Rows, concat
from .batches import CONTEXT, Moment, Record, header_text, not_named, rows_of_batch
from .punctuation import Callback, Cancellable, Position, PunctuationType, Schedules
from .stores import AnyStore

# The records that a processor forwards, collected one by one, as rows on the edges behind it.


@dataclass(frozen=True)
class Output:
    """An edge: the types of its records, and what was forwarded there.

    `rows`: the row that each comes from, or -1 - the number of its punctuation. `places`: among all that the record or
    punctuation has forwarded, to all edges. `done`: what was forwarded before these.
    """

    key: RowType
    value: RowType
    rows: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)
    keys: list[Row | None] = field(default_factory=list)
    values: list[Row | None] = field(default_factory=list)
    done: list[Rows] = field(default_factory=list)

    @classmethod
    def of(cls, flow: Flow) -> Output:
        """One of these columns."""
        return cls(RowType(parse_columns(flow.key)), RowType(parse_columns(flow.value)))

    def clear(self) -> None:
        """Forget the records that were forwarded one by one."""
        for each in (self.rows, self.places, self.timestamps, self.headers, self.keys, self.values):
            each.clear()


class Forwarded:
    """What one processor has forwarded in an epoch.

    `behind`: by edge, what takes each record at once, in this order.
    """

    def __init__(self, outputs: Mapping[str, Output], named: bool, moment: Moment) -> None:
        self.behind: Mapping[str, Sequence[Callable[[Record], None]]] = {}
        self._outputs = outputs
        self._names = {id(output): name for name, output in outputs.items()}
        self._named = named
        self._only = None if named else next(iter(outputs.values()))
        self._moment = moment
        self._from: tuple[int | None, Position] | None = None
        self._place = 0
        self._punctuations: list[Position] = []

    def add(self, record: Any, flow: str | None) -> None:
        """Take a record that is forwarded now. Raises UnfitValueError."""
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
        text = _header_text(headers) if headers else None
        if self._from != (moment.row, moment.at):
            self._from, self._place = (moment.row, moment.at), 0
            if moment.row is None:
                self._punctuations.append(moment.at)
        output.rows.append(-len(self._punctuations) if moment.row is None else moment.row)
        output.places.append(self._place)
        output.timestamps.append(timestamp)
        output.headers.append(text)
        output.keys.append(key)
        output.values.append(value)
        self._place += 1
        if self.behind:
            self._pass_on(output, key, value, timestamp, headers)

    def _pass_on(self, output: Output, key: Row | None, value: Row | None, timestamp: int, headers: Any) -> None:
        for take in self.behind.get(self._names[id(output)], ()):
            there = key is not None and any(each is not None for each in tuple(key))
            taken = Record(
                output.key.copy(key) if there else None, output.value.copy(value), timestamp, dict(headers or {})
            )
            take(taken)

    def edges(self, rows: Rows, origins: Origins) -> dict[str, Rows]:
        """The rows on all edges. `rows`: those that the processor was given."""
        for output in self._outputs.values():
            self._finish(output, rows, origins)
        return {name: concat(output.done) for name, output in self._outputs.items()}

    def add_batches(self, made: Any, start: int, end: int, rows: Rows, origins: Origins) -> None:
        """Take what a processor of batches has made of the rows from `start` to `end`. Raises UnfitValueError."""
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
        """Make rows of the records that were forwarded one by one. There is a part at least, to have the columns."""
        if output.rows or not output.done:
            output.done.append(self._edge(output, rows, origins))
            output.clear()

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
        source = np.array(output.rows, np.int64)
        path, numbers, order = self._paths(source, np.array(output.places, np.int64), rows, origins)
        kinds = [Kind.TOMBSTONE if value is None else Kind.VALUE for value in output.values]
        some = any(text is not None for text in output.headers)
        plain = Rows(
            path,
            np.array(kinds, np.int8),
            np.array(output.timestamps, np.int64),
            np.where(source < 0, origins.order_of(numbers), order),
            pa.array(output.headers, pa.string()) if some else None,
            {},
            (),
            (),
        )
        return plain.with_columns(output.key.to_columns(output.keys), output.value.to_columns(output.values))

    def _paths(
        self, source: Int64s, places: Int64s, rows: Rows, origins: Origins
    ) -> tuple[tuple[Int64s, ...], Int64s, Int64s]:
        """Their paths; the records that punctuations follow, 0 for others; the order of the rows that others are of."""
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
        # The place among what was forwarded stands behind the path that it goes on from.
        ends = np.where(of_row, len(rows.path), lengths[np.where(of_row, 0, -1 - source)])
        table[np.arange(len(source)), ends] = places
        return tuple(table.T), numbers, order


def _row(kind: RowType, value: Any, side: str) -> Row:
    try:
        return kind.of(value)
    except UnfitValueError as error:
        raise UnfitValueError(f"the {side} of a forwarded record: {error.cause}") from None


def _header_text(headers: Any) -> str:
    try:
        return header_text(headers)
    except ValueError as error:
        raise UnfitValueError(str(error)) from None


def headers_of(texts: Sequence[str | None]) -> list[dict[str, str]]:
    """The headers of records, from their texts in topics."""
    return [json.loads(text) if text else {} for text in texts]


# What a processor is given in `init`: its stores, where records go, the times of punctuations, and where it is.


class ProcessorContext:
    """The names are those of Kafka's `ProcessorContext`. It serves one epoch, as the processor does.

    What it raises when it is used wrongly is the error of the record at work, with the line that did it.
    """

    if not TYPE_CHECKING:  # a type checker knows which there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say which words there are. Raises AttributeError."""
            raise CONTEXT.unknown(name)

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
        """One of the stores that the step names."""
        if name not in self._stores:
            raise UnfitValueError(not_named(name, "stores", self._stores))
        return self._stores[name]

    def forward(self, record: Any, flow: str | None = None) -> None:
        """Give a record to the next steps, or to the flow of this name if the step has `flows`."""
        self._moment.refuse_outside()
        if self._closing:
            raise UnfitValueError("`close` cannot forward records: it runs at the end of each epoch, wherever that is")
        if self._in_init:
            raise UnfitValueError("`init` cannot forward records: it runs in every epoch, also where none comes")
        if self._moment.in_batch:
            raise UnfitValueError("`process_batch` returns what it forwards")
        self._forwarded.add(record, flow)

    def schedule(self, interval: str, kind: PunctuationType, callback: Callback) -> Cancellable:
        """Call `callback(time)` again and again: `kind` is "stream_time" or "wall_clock", `interval` such as "30s".

        Outside of `init` the callback is a method of the processor, which later epochs find by its name.
        """
        self._moment.refuse_outside()
        if not callable(callback):
            raise UnfitValueError(f"what a punctuation calls is a function, not {callback!r:.100}")
        if self._in_init:
            return self._schedules.of_init(interval, kind, callback)
        return self._schedules.later(interval, kind, callback, self._method(callback), self._moment.at)

    def schedules(self, callback: Callback) -> list[Cancellable]:
        """The schedules of a method that are not cancelled, also those of earlier epochs."""
        self._moment.refuse_outside()
        return self._schedules.running(getattr(callback, "__name__", ""))

    @property
    def stream_time(self) -> int:
        """The greatest timestamp of the records that the task has taken, with the one at work, ms; -1 before any."""
        self._moment.refuse_outside()
        return self._moment.stream_time

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self._partition

    @property
    def task_id(self) -> str:
        """How the task is shown: its subtopology's name and the partition, such as `clicks_1`."""
        return self._task

    @property
    def topic(self) -> str | None:
        """The topic of the record at work; None in a punctuation, and for what comes as time alone passes."""
        self._moment.refuse_outside()
        number = self._moment.record
        return None if number is None else self._origins.topic(number)

    @property
    def offset(self) -> int | None:
        """The offset of the record at work in its topic; None where `topic` is."""
        self._moment.refuse_outside()
        number = self._moment.record
        return None if number is None else self._origins.offset(number)

    def begin(self, processor: Any) -> None:
        """`init` is done: records follow."""
        self._in_init = False
        self._processor = processor
        self._schedules.restore(self._method_called)

    def end(self) -> None:
        """All records are processed."""
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
