"""The rows of a store as of the last commit, read by anyone while its owner goes on working.

A store stands at some position of its changelog, at or before the committed end. Its rows, with what the changelog has
from there on laid over them, are the committed state. Stores are opened where clients of this machine keep them; where
there is none, the changelog alone has everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import HeadwaterError
from .log.errors import SegmentMissingError
from .log.keys import decode_keys
from .log.log import Log
from .log.reader import TopicReader
from .log.records import Segment
from .log.schema import WINDOW_COLUMNS, changelog_topic
from .log.state import LogState
from .log.values import BadValueError, from_json, parse_text, to_json
from .operators.aggregates import results
from .operators.stored_rows import WINDOW_BYTES, stored_columns, window_keys
from .state.changelog import Slice, slices
from .state.codec import RowCodec
from .state.directory import StateDirectory, StoreId
from .state.process_file import ProcessFile
from .state.store import StateStore
from .topology import GlobalTable, Store
from .types import parse_columns

_ROWS_AT_ONCE = 4096
_SIGN = np.int64(-(2**63))

Encoded = tuple[bytes, bytes]


class StoreKeyError(HeadwaterError):
    """A key that the store's rows cannot have: `column`."""

    exit_code = 2

    def __init__(self, store: str, column: str, cause: str) -> None:
        super().__init__(f"store {store}, key column {column}: {cause}")
        self.store = store
        self.column = column


@dataclass(frozen=True)
class Row:
    """One row. Values as in the record form's JSON; of a window store `key` has its bounds, ms. `timestamp`: ms."""

    key: Mapping[str, Any]
    value: Mapping[str, Any]
    timestamp: int


@dataclass(frozen=True)
class StoreQuery:
    """Reads one store of an application. `subtopology`: the one that owns it; `open_store`: the store's backend.

    `state_dir`: where clients of this machine keep stores, None where there are none.
    """

    application: str
    subtopology: str
    store: Store
    log: Log
    state_dir: Path | None
    open_store: Callable[[Path], StateStore]

    def rows(
        self, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> Iterator[Row]:
        """Rows by partition and key. `key`: values of some or all key columns, as JSON or as text.

        `start`, `end`: bounds of window starts, ms, the second one excluded. Raises StoreKeyError for a key that the
        store cannot have.
        """
        wanted = _wanted(self.store, key or {})
        state = LogState.load(self.log.commits(self.application))
        for partition in range(self.store.partitions):
            encoded = self._partition(state, partition, start, end)
            while batch := list(islice(encoded, _ROWS_AT_ONCE)):
                yield from self._decoded(batch, wanted)

    def _partition(self, state: LogState, partition: int, start: int | None, end: int | None) -> Iterator[Encoded]:
        """The committed rows of one partition within bounds, by encoded key."""
        lower, upper = _bound(self.store, start), _bound(self.store, end)
        copy, changed = self._found(state, partition)
        clock = state.clocks(self.subtopology, partition).get(self.store.name, -1)
        low = max(bound for bound in (lower, _bound(self.store, _oldest(self.store, clock)), b"") if bound is not None)
        for key, value in _merged(copy.range(lower, upper) if copy else iter(()), changed):
            if key >= low and (upper is None or key < upper):
                yield key, value

    def _found(self, state: LogState, partition: int) -> tuple[StateStore | None, dict[bytes, bytes | None]]:
        """The copy to read, and what the changelog has beyond it. A lost store without changelog has no rows."""
        while True:
            copy, at, position, segments = self._start(state, partition)
            first = min((segment.base_position for segment in segments), default=position)
            if at < first and not self.store.changelog:
                return None, {}
            changed: dict[bytes, bytes | None] = {}
            try:
                for step in slices(self.store.name, segments, at, position):
                    _lay_over(changed, step, self.log)
            except SegmentMissingError:
                if self.store.changelog or not state.refresh():
                    raise
                continue  # its changes have reached the store since
            return copy, changed

    def _start(self, state: LogState, partition: int) -> tuple[StateStore | None, int, int, list[Segment]]:
        """The copy to read, where it stands, and the changelog from there to its committed end."""
        while True:
            position, segments = self._changelog(state, partition)
            copy = self._copy(state, partition) if position else None
            at = copy.position if copy else 0
            if at <= position:
                return copy, at, position, segments
            if not state.refresh():  # left behind by commits that are gone: the next run wipes it
                return None, 0, position, segments

    def _changelog(self, state: LogState, partition: int) -> tuple[int, list[Segment]]:
        topic = changelog_topic(self.application, self.store.name)
        with state.lock:
            ends = state.lane_ends(topic, partition)
            return ends.get(partition, 0), list(state.lanes(topic, partition).get(partition, ()))

    def _copy(self, state: LogState, partition: int) -> StateStore | None:
        """The copy on this machine that is furthest, of those that were not made of commits that are forgotten."""
        if self.state_dir is None or not self.state_dir.is_dir():
            return None
        store = StoreId(self.store.name, partition)
        clients = sorted(path.name for path in self.state_dir.iterdir())
        directories = [StateDirectory(self.state_dir, client, self.application) for client in clients]
        copies = [
            self.open_store(directory.store_path(store))
            for directory in directories
            if directory.store_path(store).is_dir() and _incarnation(directory) in ("", state.incarnation)
        ]
        return max(copies, key=lambda copy: copy.position, default=None)

    def _decoded(self, batch: list[Encoded], wanted: Mapping[str, Any]) -> Iterator[Row]:
        keys, starts = [key for key, _ in batch], None
        if self.store.type == "window":
            starts = [_window_start(key) for key in keys]
            keys = [key[WINDOW_BYTES:] for key in keys]
        types = _key_types(self.store)
        key = dict(
            zip(types, map(to_json, decode_keys(pa.array(keys, pa.binary()), list(types.values()))), strict=True)
        )
        if starts is not None:
            key["window_start"] = starts
            if self.store.window is not None:
                key["window_end"] = [start + self.store.window.size_ms for start in starts]
        value, timestamps = self._values([value for _, value in batch])
        for number, timestamp in enumerate(timestamps):
            own = {name: column[number] for name, column in key.items()}
            if all(own[name] == asked for name, asked in wanted.items()):
                yield Row(own, {name: column[number] for name, column in value.items()}, timestamp)

    def _values(self, encoded: list[bytes]) -> tuple[dict[str, list[Any]], list[int]]:
        codec = RowCodec(stored_columns(self.store))
        decoded, timestamps = codec.decode(encoded)
        columns = dict(zip(codec.types, decoded, strict=True))
        columns |= results(self.store.aggregates, columns)
        return {name: to_json(columns[name]) for name in parse_columns(self.store.value)}, timestamps.tolist()


@dataclass(frozen=True)
class GlobalQuery:
    """Reads a global table from its topic: the last value of each key. `writer`: the application that feeds it."""

    table: GlobalTable
    writer: str
    log: Log

    def rows(self, key: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Rows in the order in which their keys came first. Raises StoreKeyError."""
        wanted = _wanted(self.table.store, key or {})
        rows: dict[str, Row] = {}
        for record in TopicReader(self.log, self.writer, self.table.topic).read():
            if record.key is None:
                continue
            name = json.dumps(record.key)
            if record.value is None:
                rows.pop(name, None)
            elif all(record.key[column] == asked for column, asked in wanted.items()):
                rows[name] = Row(record.key, record.value, record.timestamp)
        yield from rows.values()


def _incarnation(directory: StateDirectory) -> str:
    found = ProcessFile.read(directory.path)
    return "" if found is None else found.incarnation


def _key_types(store: Store) -> dict[str, pa.DataType]:
    return {name: kind for name, kind in parse_columns(store.key).items() if name not in WINDOW_COLUMNS}


def _wanted(store: Store, key: Mapping[str, Any]) -> dict[str, Any]:
    """The key columns asked for, in their JSON forms."""
    types = _key_types(store)
    wanted = {}
    for column, value in key.items():
        if column not in types:
            raise StoreKeyError(store.name, column, f"there is none; the key has {', '.join(types)}")
        try:
            text = isinstance(value, str) and not pa.types.is_string(types[column])
            array = parse_text(pa.array([value]), types[column]) if text else from_json([value], types[column])
        except BadValueError as error:
            raise StoreKeyError(store.name, column, error.cause) from error
        (wanted[column],) = to_json(array)
    return wanted


def _lay_over(changed: dict[bytes, bytes | None], step: Slice, log: Log) -> None:
    """Note what a slice of changelog changes."""
    for part in step.parts:
        skip, left = part.skip, part.rows
        for batch in log.read_batches(part.segment, part.batches, ("key", "value")):
            taken = batch.slice(skip, left)
            skip, left = 0, left - taken.num_rows
            changed.update(zip(taken.column(0).to_pylist(), taken.column(1).to_pylist(), strict=True))


def _merged(rows: Iterator[Encoded], changed: Mapping[bytes, bytes | None]) -> Iterator[Encoded]:
    """Rows by key, with those of `changed` in place of or between them; a None value takes one away."""
    rest = sorted(changed)
    next_changed = 0
    for key, value in rows:
        while next_changed < len(rest) and rest[next_changed] < key:
            yield from _there(rest[next_changed], changed)
            next_changed += 1
        if next_changed < len(rest) and rest[next_changed] == key:
            yield from _there(key, changed)
            next_changed += 1
        else:
            yield key, value
    for key in rest[next_changed:]:
        yield from _there(key, changed)


def _there(key: bytes, changed: Mapping[bytes, bytes | None]) -> Iterator[Encoded]:
    value = changed[key]
    if value is not None:
        yield key, value


def _bound(store: Store, moment: int | None) -> bytes | None:
    """The least key of windows that start at `moment` (ms). Bounds mean nothing to stores without windows."""
    if moment is None or store.type != "window":
        return None
    (bound,) = window_keys(np.array([moment], np.int64), pa.array([b""], pa.binary())).to_pylist()
    return bytes(bound)


def _oldest(store: Store, clock: int) -> int | None:
    """The first window start that has not expired at `clock` (ms): those up to `clock` - retention have."""
    retention = store.retention_ms
    if retention is None and store.window is not None:
        retention = store.window.size_ms + store.window.grace_ms
    return None if retention is None or clock < 0 else clock - retention + 1


def _window_start(key: bytes) -> int:
    (start,) = np.frombuffer(key[:WINDOW_BYTES], ">i8").astype(np.int64) ^ _SIGN
    return int(start)
