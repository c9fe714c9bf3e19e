"""Records and Arrow batches as processors see them, and the errors for wrong use of contexts and stores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .....suggestions import closest, guess
from ....dataclass_json import parsed
from ....python_functions.results import UnfitValueError, cast_column
from ....records.arrays import Bools, Int8s, Int64s, to_numpy
from ....records.headers import TextHeaders, checked_headers
from ....records.schema import invalid_timestamps, timestamp_error
from ....records.types import Kind
from ..keyed.groups import places_in_runs
from ..node import RowFailedError
from ..rows import Rows, physical_key

# Columns of the batches that a processor returns or stores: looked up by name, and cast to the declared types.

Columns: TypeAlias = Any
"""A `pa.RecordBatch` or a `pa.Table`."""


def column_of(rows: Columns, name: str, kind: pa.DataType, what: str) -> pa.Array:
    """A column by name, cast to `kind`. `what`: the batch's purpose, for messages. Raises UnfitValueError."""
    if not isinstance(rows, pa.RecordBatch | pa.Table):
        raise UnfitValueError(f"{what!r} takes many rows as an Arrow RecordBatch or Table, not {type(rows).__name__}")
    if name not in rows.schema.names:
        raise UnfitValueError(f"a batch for {what!r} lacks the column {name!r}; it has {', '.join(rows.schema.names)}")
    if rows.schema.names.count(name) > 1:
        raise UnfitValueError(f"a batch for {what!r} has more than one column {name!r}")
    try:
        return cast_column(rows.column(name), kind)
    except UnfitValueError as error:
        raise UnfitValueError(f"the column {name!r} of a batch for {what!r}: {error.cause}") from None


def times_of(rows: Columns, name: str, what: str) -> Int64s:
    """A column of record timestamps: int64, ms, without nulls. Raises UnfitValueError."""
    column = column_of(rows, name, pa.int64(), what)
    if column.null_count:
        raise UnfitValueError(f"the column {name!r} of a batch for {what!r} cannot be null")
    times: Int64s = to_numpy(column)
    wrong = np.flatnonzero(invalid_timestamps(times))
    if len(wrong):
        found = int(times[wrong[0]])
        where = f"row {wrong[0]} of the column {name!r} of a batch for {what!r}"
        raise UnfitValueError(f"{where}: the timestamp {timestamp_error(found)}: {found}")
    return times


def reject_other_columns(rows: Columns, known: Iterable[str], what: str) -> None:
    """Raise UnfitValueError for a column outside `known`."""
    wanted = list(known)
    for name in rows.schema.names:
        if name not in wanted:
            raise UnfitValueError(f"a batch for {what!r} has a column {name!r}; known are {', '.join(wanted)}")


# A record, as a processor receives and forwards it.


class Record(NamedTuple):
    """A record. `key`, `value`: objects with an attribute for each column, or None.

    `timestamp`: ms since 1970. `headers`: texts by name. In a forwarded record, key and value may also be mappings by
    column. As with every named tuple, `record._replace(value=...)` returns a copy with another value.
    """

    key: Any
    value: Any
    timestamp: int
    headers: Mapping[str, str] | None = None


def copied_headers(headers: Any) -> Any:
    """A copy of the headers of a record, for the next processor."""
    return headers.copy() if isinstance(headers, TextHeaders) else dict(headers or {})


def header_text(headers: Any) -> str:
    """Headers as JSON, the form in topics. Raises UnfitValueError unless they map texts to texts in UTF-8."""
    if not isinstance(headers, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str) for name, text in headers.items()
    ):
        raise UnfitValueError(f"headers are texts by name, not {headers!r:.100}")
    if isinstance(headers, TextHeaders) and headers.unchanged and headers.source:
        return headers.source
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnfitValueError(f"headers are texts that UTF-8 can write, not {headers!r:.100}") from None
    return text


# Records as Arrow batches, for processors with `process_batch`.
#
# A batch has the columns of key and value. A key column with the name of a value column is called `key.<name>`. Three
# more columns describe the records: `_timestamp` (ms), `_headers` (JSON or null), and `_kind` (1, or 0 for a null
# value).

META = {"_timestamp": pa.int64(), "_headers": pa.string(), "_kind": pa.int8()}
ROW = "_row"
"""The column of a result with the input record of each row: its number in the input batch, from 0."""


def batch_of(rows: Rows, start: int, end: int) -> pa.RecordBatch:
    """The rows from `start` (included) to `end` (excluded) as a batch.

    Example: one row with the key column k and the value column x.

        {"k": "p", "x": 1, "_timestamp": 100, "_headers": None, "_kind": 1}
    """
    headers = pa.nulls(len(rows), pa.string()) if rows.headers is None else rows.headers
    columns = {
        **rows.columns,
        "_timestamp": pa.array(rows.timestamp),
        "_headers": headers,
        "_kind": pa.array(rows.kind),
    }
    return pa.RecordBatch.from_pydict(columns).slice(start, end - start)


def rows_of_batch(batch: Columns, key: Mapping[str, pa.DataType], value: Mapping[str, pa.DataType], came: Rows) -> Rows:
    """The rows of a batch that a processor returned. `came`: its input rows. Raises UnfitValueError.

    Timestamps and headers come from the input rows, unless the batch has these columns. Paths begin with those of the
    input rows.

    Example: input rows with the paths 4 and 9, timestamps 100 and 200, orders 70 and 71.

        batch       k ["a", "b", "c"], y [1.0, 2.0, 3.0], _kind [1, 0, 1], _row [0, 0, 1]
        path        [4, 4, 9], [0, 1, 0]     the levels of the input row, then the place among its rows
        timestamp   [100, 100, 200]
        order       [70, 70, 71]
        y           [1.0, None, 3.0]         null where the value is null
    """
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        raise UnfitValueError(f"`process_batch` returns an Arrow RecordBatch or Table, not {type(batch).__name__}")
    keys = {name: physical_key(name, dict(value)) for name in key}
    reject_other_columns(batch, [*keys.values(), *value, *META, ROW], "forward")
    source = _sources(batch, len(came))
    plain = came.take(source)
    given = batch.schema.names
    timestamp = times_of(batch, "_timestamp", "forward") if "_timestamp" in given else plain.timestamp
    kind = _kinds(batch) if "_kind" in given else np.full(len(batch), int(Kind.VALUE), np.int8)
    headers = _headers(batch) if "_headers" in given else plain.headers
    made = Rows((*plain.path, places_in_runs(source)), kind, timestamp, plain.order, headers)
    return made.with_columns(
        {name: column_of(batch, keys[name], of, "forward") for name, of in key.items()},
        {name: _of_values(column_of(batch, name, of, "forward"), kind == Kind.VALUE) for name, of in value.items()},
    )


def _kinds(batch: Columns) -> Int8s:
    """The `_kind` column, int8: 1 for a value, 0 for a null value."""
    column = column_of(batch, "_kind", META["_kind"], "forward")
    known = pa.array([int(Kind.TOMBSTONE), int(Kind.VALUE)], META["_kind"])
    wrong = np.flatnonzero(~to_numpy(pc.is_in(column, known)))
    if len(wrong):
        found = column[int(wrong[0])].as_py()
        raise UnfitValueError(f"row {wrong[0]}: `_kind` is 1, or 0 where the value is null, not {found}")
    kinds: Int8s = to_numpy(column)
    return kinds


def _headers(batch: Columns) -> pa.Array:
    """The `_headers` column in the form of topics. Equal texts are checked once."""
    found = column_of(batch, "_headers", META["_headers"], "forward").dictionary_encode()
    texts = []
    for number, text in enumerate(found.dictionary.to_pylist()):
        try:
            texts.append(_header(text))
        except (ValueError, UnfitValueError):
            row = pc.index(found.indices, number).as_py()
            raise UnfitValueError(
                f'row {row}: `_headers` is null, or JSON with texts by name such as {{"source": "web"}}, or with pairs '
                f"of a name and a value, not {text!r:.100}"
            ) from None
    return pa.DictionaryArray.from_arrays(found.indices, pa.array(texts, pa.string())).dictionary_decode()


def _header(text: str) -> str | None:
    """Checks headers in JSON. Returns the text, or None for empty headers. Raises ValueError, UnfitValueError."""
    found = parsed(text)
    if isinstance(found, dict):
        header_text(found)
    return text if checked_headers(found) else None


def _of_values(column: pa.Array, there: Bools) -> pa.Array:
    """A value column, null where the record's value is null. `there`: whether each record has a value."""
    return column if there.all() else column.take(pa.array(np.arange(len(there)), mask=~there))


def _sources(batch: Columns, came: int) -> Int64s:
    """The number of the input record of each row, int64, ascending. `came`: the number of input records."""
    if ROW not in batch.schema.names:
        if len(batch) != came:
            raise UnfitValueError(
                f"a batch of {len(batch)} records was made of {came}: its column `{ROW}` has to say, by their numbers "
                "from 0, which record each one comes from"
            )
        return np.arange(came)
    column = column_of(batch, ROW, pa.int64(), "forward")
    found: Int64s = np.zeros(0, np.int64) if column.null_count else to_numpy(column)
    if len(found) != len(batch) or (np.diff(found) < 0).any() or (len(found) and not 0 <= found[0] <= found[-1] < came):
        raise UnfitValueError(f"`{ROW}` of a batch has numbers from 0 to {came - 1}, none below the one before it")
    return found


# The record or punctuation that a processor works on at the moment.

Item = TypeVar("Item")


@dataclass(slots=True)
class Moment:
    """The current record or punctuation of a task's processors. Mutable: updated for each record.

    - `stream_time`: the task's stream time, ms. It includes the current record. -1 before the first record.
    - `timestamp`: of the current record, or the time of the punctuation, ms.
    - `record`: the number of the current record. None in a punctuation, before the first record, and for rows that
      other steps or processors release without a record.
    - `row`: the current row. None in a punctuation and before the first record.
    - `at`: the position in the epoch, see `punctuation.Position`.
    - `in_batch`: whether `process_batch` is running.
    - `order`: the `_order` of the task's record from which the current one comes, or which the punctuation follows.
    - `failed`: the error that a processor raised for a record.
    - `thread`: the thread in which processors are called.
    - `ended`: whether the epoch has ended.
    - `misused`: the error that was raised in another thread.
    """

    stream_time: int
    timestamp: int
    record: int | None = None
    row: int | None = None
    at: tuple[int, ...] = (-1,)
    in_batch: bool = False
    order: int = -1
    failed: RowFailedError | None = None
    thread: int = field(default_factory=get_ident)
    ended: bool = False
    misused: str = ""

    def reject_outside(self) -> None:
        """Raise UnfitValueError if a context, a store or a schedule is used after its epoch, or in another thread.

        After the epoch, a change would be lost. In another thread, its position among the records would be random.
        """
        if self.ended:
            raise UnfitValueError(
                "contexts, stores and schedules are of one epoch, and that of this one has ended: take those that "
                "`init` is given in each epoch, and keep them in the processor alone"
            )
        if get_ident() != self.thread:
            self.misused = (
                "contexts, stores and schedules are used in the thread in which the processor is called, and not in "
                "another one: have that return what it has found, and forward or store it before `process` returns"
            )
            raise UnfitValueError(self.misused)

    @classmethod
    def at_start(cls, before: int) -> Moment:
        """The moment before the first record of an epoch. `before`: the stream time at that moment, ms."""
        return cls(before, max(before, 0))


class OfEpoch(Iterator[Item], Generic[Item]):
    """An iterator over rows of a store, valid in one epoch only.

    A class, because a generator that has raised an error is empty afterwards. A processor that kept it would then see
    no rows although some exist.
    """

    def __init__(self, found: Iterator[Item], moment: Moment) -> None:
        self._found = found
        self._moment = moment

    def __next__(self) -> Item:
        self._moment.reject_outside()
        return next(self._found)


# Errors for unknown methods of a context or store, with a suggestion.

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class Words:
    """The methods of an object that processors use, for error messages.

    `of`: the object. `here`: its methods. `kafka`: names of methods in Kafka Streams -> the equivalent here.
    """

    of: str
    here: tuple[str, ...]
    kafka: Mapping[str, str] = field(default_factory=dict)

    def unknown(self, word: str) -> AttributeError:
        """The error for an unknown method."""
        close = closest(_CAPITAL.sub("_", word), self.here)
        said = self.kafka.get(word) or next((f"`{each}`" for each in close), None)
        guess = f"did you mean {said}? " if said else ""
        return AttributeError(f"{self.of} has no `{word}`: {guess}It has {', '.join(self.here)}")


class WithWords:
    """An object that processors use. `_words`: its methods, for the error of an unknown one."""

    _words: ClassVar[Words]

    if not TYPE_CHECKING:  # a type checker reports unknown methods itself

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError, with a list of the methods."""
            raise self._words.unknown(name)


def not_named(name: object, word: str, known: Iterable[str]) -> str:
    """The message for a store or flow that the step does not declare. `word`: the YAML key that would declare it."""
    names = list(known)
    return f"{name!r} is not one of the step's `{word}`: {guess(str(name), names, ', '.join(names) or 'none')}"


_TIMED_KAFKA = {
    "backwardFetch": "`fetch` with `reverse=True`",
    "fetchAll": "`fetch_all`",
    "backwardAll": "`all` with `reverse=True`",
}
KEY_VALUE = Words(
    "a key-value store",
    (
        *("get", "put", "put_all", "put_if_absent", "delete", "range", "prefix", "all", "count"),
        *("get_many", "put_many", "delete_many"),
    ),
    {
        "reverseRange": "`range` with `reverse=True`",
        "reverseAll": "`all` with `reverse=True`",
        "prefixScan": "`prefix`",
        "approximateNumEntries": "`count`",
        "fetch": "`get`, or a store of `type: window`",
    },
)
WINDOW = Words(
    "a window store",
    ("put", "fetch", "fetch_all", "all", "get_many", "put_many", "delete_many"),
    {
        **_TIMED_KAFKA,
        "backwardFetchAll": "`fetch_all` with `reverse=True`",
        "get": "`fetch(key, start)`",
        "delete": "`put(key, None, start)`",
        "remove": "`put(key, None, start)`",
    },
)
SESSION = Words(
    "a session store",
    (
        *("put", "remove", "fetch_session", "find_sessions", "find_all_sessions", "fetch", "fetch_all", "all"),
        *("get_many", "put_many", "delete_many"),
    ),
    {
        **_TIMED_KAFKA,
        "backwardFindSessions": "`find_sessions` with `reverse=True`",
        "get": "`fetch_session(key, start, end)`",
        "delete": "`remove`",
    },
)
CONTEXT = Words(
    "the context",
    ("store", "forward", "schedule", "schedules", "stream_time", "topic", "offset", "partition", "task_id"),
    {
        "getStateStore": "`store`",
        "get_state_store": "`store`",
        "currentStreamTimeMs": "`stream_time`",
        "current_stream_time_ms": "`stream_time`",
        "timestamp": "`record.timestamp`",
        "headers": "`record.headers`",
        "recordMetadata": "`topic`, `partition` and `offset`",
        "state": "`store`",
    },
)
