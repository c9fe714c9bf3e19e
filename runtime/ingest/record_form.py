"""Records in record form, and rows that do not fit a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ..ir.topology import Topic
from ..log.errors import SeedError
from ..records.arrays import BadValueError, Int64s, cast_with_row
from ..records.headers import checked_headers
from ..records.record_json import FIELDS
from ..records.schema import is_bound, key_columns, topic_schema, value_columns
from ..records.types import Kind
from ..records.values import Convert, from_json, texts
from .incoming import Incoming, convert, event_times, missing_time, valid_times

# Converts records in record form, as `headwater read --format json` prints them, to the columns of a topic.


def parse_records(
    topic: Topic,
    rows: Sequence[Mapping[str, Any]],
    clock: int,
    values: Convert = from_json,
) -> Incoming:
    """Objects in record form as records of a topic. `values` converts the values of a column.

    Only `value` is required. Records without `timestamp` get one as in other seeds. Offsets are ignored. Raises
    BadValueError.
    """
    for row, record in enumerate(rows):
        _check_fields(row, record)
    columns = _columns(topic.name, rows, "key", key_columns(topic), values)
    columns |= _columns(topic.name, rows, "value", value_columns(topic), values)
    times = _timestamps(topic, rows, columns, clock, values)
    kinds = [int(Kind.TOMBSTONE if record["value"] is None else Kind.VALUE) for record in rows]
    headers = [_headers(row, record.get("headers")) for row, record in enumerate(rows)]
    some = any(header is not None for header in headers)
    table = pa.table(
        [
            *columns.values(),
            pa.array(kinds, pa.int8()),
            times,
            times,
            *([convert("headers", headers, pa.string(), lambda column, _: texts(column))] if some else []),
        ],
        schema=topic_schema(topic, headers=some),
    )
    return Incoming(table, _partitions(topic, rows, values))


def _from_ms(read: Convert, values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    return cast_with_row(
        read(values, pa.int64()), data_type, lambda some, to: some.cast(pa.timestamp("ms", to.tz)).cast(to)
    )


def _check_fields(row: int, record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping):
        raise BadValueError(row, "not an object")
    unknown = sorted(record.keys() - FIELDS)
    if unknown:
        raise BadValueError(row, f"a record has no {', '.join(map(str, unknown))}")
    if "value" not in record:
        raise BadValueError(row, "there is no value (null deletes)")
    for role in ("key", "value"):
        if not isinstance(record.get(role), Mapping | None):
            raise BadValueError(row, "neither an object nor null", role)


def _columns(
    topic: str,
    rows: Sequence[Mapping[str, Any]],
    role: str,
    types: Mapping[str, pa.DataType],
    values: Convert,
) -> dict[str, pa.Array]:
    objects = [record.get(role) or {} for record in rows]
    for row, found in enumerate(objects):
        unknown = sorted(found.keys() - types.keys())
        if unknown:
            raise BadValueError(row, f"the {role} of {topic} has no column {', '.join(map(str, unknown))}", role)
    return {
        f"{role}.{name}": convert(
            f"{role}.{name}",
            [found.get(name) for found in objects],
            data_type,
            partial(_from_ms, values) if role == "key" and is_bound(name, data_type) else values,
        )
        for name, data_type in types.items()
    }


def _timestamps(
    topic: Topic, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, pa.Array], clock: int, values: Convert
) -> pa.Array:
    given = convert("timestamp", [record.get("timestamp") for record in rows], pa.int64(), values)
    if not given.null_count:
        return valid_times(given, "timestamp")
    if topic.timestamp is not None:
        missing = given.is_null().to_pylist()
        absent = np.flatnonzero(missing)
        some = {name: column.take(pa.array(absent)) for name, column in columns.items()}
        try:
            times = event_times(topic, some, len(absent), clock)
        except BadValueError as error:
            row = int(absent[error.row])
            found = BadValueError(row, error.cause, error.column)
            raise missing_time(topic, found, rows[row]["value"]) from error
        given = _fill(given, absent, times)
    return valid_times(given.fill_null(clock), "timestamp")


def _fill(column: pa.Array, rows: Int64s, values: pa.Array) -> pa.Array:
    everywhere = column.fill_null(0).to_numpy(zero_copy_only=False).copy()
    everywhere[rows] = values.to_numpy()
    return pa.array(everywhere)


def _headers(row: int, headers: Any) -> str | None:
    try:
        return checked_headers(headers)
    except ValueError as error:
        raise BadValueError(row, str(error), "headers") from error


def _partitions(topic: Topic, rows: Sequence[Mapping[str, Any]], values: Convert) -> Int64s:
    column = convert("partition", [record.get("partition") for record in rows], pa.int32(), values)
    for row, partition in enumerate(column.to_pylist()):
        if partition is not None and not 0 <= partition < topic.partitions:
            cause = f"{topic.name} has partitions 0 to {topic.partitions - 1}, no {partition}"
            raise BadValueError(row, cause, "partition")
    return np.array(column.fill_null(-1), np.int64)


# Separates rows that fit a topic from those that do not, by the topic's `on_error`.
#
# `fail`: nothing is appended if a row does not fit, and the error lists the rows. `skip` and `dead_letter`: such rows
# are skipped, counted and reported. They are no records yet, so they get no dead letters: their source still has them.

MOST_REPORTED = 20
"""The most rows that are reported, and that are looked for if one is too many."""


@dataclass(frozen=True)
class RefusedRow:
    """A row that does not fit its topic. `source`: its file or function; `place`: the line or row there."""

    source: str
    place: str
    cause: str
    column: str | None = None

    @property
    def text(self) -> str:
        """Its location, and why it does not fit."""
        return SeedError(self.source, self.cause, self.place, self.column).message


@dataclass(frozen=True)
class RefusedRows:
    """Skipped rows: their number, and the first of them."""

    count: int = 0
    first: tuple[RefusedRow, ...] = ()


class Sieve:
    """Filters the rows of one seed or append, in their order."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic.name
        self._skips = topic.on_error != "fail"
        self._count = 0
        self._first: list[RefusedRow] = []

    @property
    def refused(self) -> RefusedRows:
        """The rows that were skipped so far."""
        return RefusedRows(self._count, tuple(self._first))

    def accepted(
        self, source: str, rows: Any, convert: Callable[[Any], Incoming], place: Callable[[int], str], first: int = 0
    ) -> Iterator[Incoming]:
        """The rows that fit, converted by `convert`.

        `rows`: a table or a list; `place`: the location of a row by its index.

        A failing piece is halved until single rows are left, so that a few bad rows among many cost little. Raises
        SeedError.
        """
        try:
            incoming = convert(rows)
        except BadValueError as error:
            if len(rows) == 1:
                self.reject(source, lambda: place(first), error.cause, error.column)
                return
            middle = len(rows) // 2
            yield from self.accepted(source, rows[:middle], convert, place, first)
            yield from self.accepted(source, rows[middle:], convert, place, first + middle)
            return
        if self._skips or not self._count:
            yield incoming

    def reject(self, source: str, place: Callable[[], str], cause: str, column: str | None = None) -> None:
        """Count a row that does not fit. Raises SeedError once enough rows are reported.

        `place` is called only for reported rows: each call reads the file again.
        """
        self._count += 1
        if len(self._first) < MOST_REPORTED:
            self._first.append(RefusedRow(source, place(), cause, column))
        elif not self._skips:
            self._fail("\nand more")

    def to_the_end(self, rows: Iterator[Incoming]) -> Iterator[Incoming]:
        """The same rows. Raises SeedError after the last one if rows do not fit and may not be skipped."""
        yield from rows
        if self._count and not self._skips:
            self._fail("")

    def _fail(self, more: str) -> None:
        first, *others = self._first
        cause = first.cause + "".join(f"\nand {row.text}" for row in others) + more
        way_out = f"correct them, or skip such rows with `on_error: skip` of {self._topic}"
        raise SeedError(first.source, cause, first.place, first.column, way_out)
