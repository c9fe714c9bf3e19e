"""The rows of a store as of the last commit, read by anyone while its owner goes on working.

A store stands at some position of its changelog, at or before the committed end. Its rows, with what the changelog has
from there on laid over them, are the committed state. Stores are opened where clients of this machine keep them; where
there is none, the changelog alone has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import HeadwaterError
from ..log.errors import RangeMissingError
from ..log.log import Log
from ..log.ranges import LogRange
from ..log.state import LogState
from ..operators.aggregates.registry import results
from ..operators.keyed.stored_rows import stored_columns
from ..records.keys.joins import split_side_keys
from ..records.keys.reading import decode_keys
from ..records.keys.session_segments import has_segments, split_sessions
from ..records.keys.timed import split_timed_keys
from ..records.keys.windows import first_visible_start, first_window_key, split_window_keys
from ..records.schema import changelog_topic
from ..records.types import parse_columns
from ..state.catch_up import changes, slices
from ..state.codec import RowCodec, timestamp_of
from ..state.directories.directory import StateDirectory
from ..state.directories.process_file import ProcessFile
from ..state.store import StateStore, StoreDamagedError
from ..state.synced_commit import is_of
from ..task_id import StoreId, TaskKey
from ..topology import Store
from ..windows import JoinWindow, SlidingWindow, Window
from .buffers import waiting_changes, waiting_rows
from .given_windows import WantedWindows, times_in_keys
from .joined_records import WantedRecords
from .rows import FoundRows, Row, key_types, moments, table_schema
from .sessions import WantedSessions
from .wanted import wanted_columns

_ROWS_AT_ONCE = 4096

Encoded = tuple[bytes, bytes]


class DamagedStoreError(HeadwaterError):
    """The files of a store on this machine are damaged: `store`, `partition`, `cause`."""

    def __init__(self, store: Store, partition: int, error: StoreDamagedError) -> None:
        if store.changelog:
            hint = "query again: the rows are then taken from the store's changelog; the next run restores the store"
        else:
            hint = "the store has no changelog to be restored from: the next run starts it empty"
        super().__init__(f"store {store.name}, partition {partition}, is damaged: {error.cause} ({error.path})", hint)
        self.store = store.name
        self.partition = partition
        self.cause = error.cause


@dataclass(frozen=True)
class StoreQuery:
    """Reads one store of an application. `subtopology`: the one that owns it; `open_store`: opens a copy of
    the store to read it.

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
        store cannot have, and DamagedStoreError.
        """
        for found in self._found_rows(key, start, end):
            yield from found.rows()

    def to_table(
        self, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> pa.Table:
        """The same rows as one table, see `rows.table_schema`."""
        schema = table_schema(self.store)
        found = [each.table(schema) for each in self._found_rows(key, start, end)]
        return pa.concat_tables([schema.empty_table(), *found])

    def _found_rows(self, key: Mapping[str, Any] | None, start: int | None, end: int | None) -> Iterator[FoundRows]:
        wanted = wanted_columns(self.store, key or {})
        state = LogState.load(self.log.commits(self.application))
        for partition in range(self.store.partitions):
            encoded = self._partition(state, partition, start, end)
            while batch := list(islice(encoded, _ROWS_AT_ONCE)):
                yield self._decoded(batch).where(wanted)

    def _partition(self, state: LogState, partition: int, start: int | None, end: int | None) -> Iterator[Encoded]:
        """The committed rows of one partition within bounds, by encoded key."""
        lower, upper = _bound(self.store, start), _bound(self.store, end)
        try:
            copy, changed = self._found(state, partition)
            task = TaskKey(self.application, self.subtopology, partition)
            clock = state.tasks.of(task).clocks.get(self.store.name, -1)
            # A store may still have rows that have expired by the committed clock: the next epoch deletes them.
            oldest = _oldest(self.store, clock)
            wanted = _wanted(self.store, start, end, oldest)
            low = max(filter(None, (lower, _bound(self.store, oldest))), default=b"")
            if wanted is not None:
                lower, upper = wanted.lower(self.store), None
                low = lower or b""
            for key, value in _merged(copy.range(lower, upper) if copy else iter(()), changed):
                if self.store.is_buffer:
                    yield from waiting_rows(self.store, key, value)
                elif key >= low and (upper is None or key < upper):
                    yield from self._there(key, value, oldest) if wanted is None else wanted.rows(key, value)
        except StoreDamagedError as error:
            raise DamagedStoreError(self.store, partition, error) from error

    def _there(self, key: bytes, value: bytes, oldest: int | None) -> Iterator[Encoded]:
        """The row, unless it has expired by its own time: a key-value store has rows of any time beside each other."""
        if self.store.is_windowed or oldest is None or timestamp_of(value) >= oldest:
            yield key, value

    def _found(self, state: LogState, partition: int) -> tuple[StateStore | None, dict[bytes, bytes | None]]:
        """The copy to read, and what the changelog has beyond it. A lost store without changelog has no rows."""
        while True:
            copy, at, position, ranges = self._start(state, partition)
            first = min((each.start for each in ranges), default=position)
            if at < first and not self.store.changelog:
                return None, {}
            changed: dict[bytes, bytes | None] = {}
            try:
                for step in slices(self.store.name, ranges, at, position):
                    for keys, values in changes(step, self.log):
                        changed.update(zip(keys, values, strict=True))
            except RangeMissingError as error:
                if not state.was_replaced(error):
                    raise
                continue  # of a store without changelog, the changes have reached it since
            return copy, changed

    def _start(self, state: LogState, partition: int) -> tuple[StateStore | None, int, int, tuple[LogRange, ...]]:
        """The copy to read, where it stands, and the changelog from there to its committed end."""
        while True:
            position, ranges, horizon = self._changelog(state, partition)
            copy = self._copy(state, partition, horizon) if position else None
            at = copy.position if copy else 0
            if at <= position:
                return copy, at, position, ranges
            if not state.refresh():  # left behind by commits that are gone: the next run wipes it
                return None, 0, position, ranges

    def _changelog(self, state: LogState, partition: int) -> tuple[int, tuple[LogRange, ...], int]:
        """Its end, its ranges, and the position before which deletions may be dropped."""
        topic = changelog_topic(self.application, self.store.name)
        # All of the same moment, as another thread may refresh the state.
        with state.lock:
            end = state.lane_ends(topic, partition).get(partition, 0)
            ranges = state.lane_ranges(topic, partition, partition)
            return end, ranges, state.horizon(topic, partition, partition)

    def _copy(self, state: LogState, partition: int, horizon: int) -> StateStore | None:
        """The copy on this machine that is furthest, of those that were not made of commits that are forgotten.

        One before the horizon may have rows whose deletions are dropped: the changelog from its beginning has not.
        """
        if self.state_dir is None or not self.state_dir.is_dir():
            return None
        store = StoreId(self.store.name, partition)
        clients = sorted(path.name for path in self.state_dir.iterdir())
        directories = [StateDirectory(self.state_dir, client, self.application) for client in clients]
        copies: list[tuple[int, StateStore]] = []
        for directory in directories:
            path = directory.store_path(store)
            if path.is_dir() and _incarnation(directory) in ("", state.incarnation) and is_of(self.log, path):
                try:
                    copy = self.open_store(path)
                    if (at := copy.position) >= horizon:
                        copies.append((at, copy))
                except StoreDamagedError:
                    if not self.store.changelog:
                        raise
        return max(copies, key=itemgetter(0), default=(0, None))[1]

    def _decoded(self, batch: list[Encoded]) -> FoundRows:
        if self.store.is_buffer:
            return waiting_changes(self.store, batch)
        keys, starts, ends = [key for key, _ in batch], None, None
        if isinstance(self.store.window, JoinWindow):
            plain, starts, _ = split_side_keys(pa.array(keys, pa.binary()))
            keys = plain.to_pylist()
        elif self.store.keeps_given_windows:
            keys, times = split_timed_keys(keys, times_in_keys(self.store))
            starts, ends = times[:, -1], times[:, 0] if self.store.type == "session" else None
        elif has_segments(self.store):
            starts, ends, keys = split_sessions(keys)
        elif self.store.type == "window":
            starts, keys = split_window_keys(keys)
            ends = starts + self.store.window.size_ms if isinstance(self.store.window, Window) else None
        types = key_types(self.store)
        key = dict(zip(types, decode_keys(pa.array(keys, pa.binary()), list(types.values())), strict=True))
        if starts is not None:
            key["window_start"] = moments(starts)
        if ends is not None:
            key["window_end"] = moments(ends)
        codec = RowCodec(stored_columns(self.store))
        decoded, timestamps = codec.decode([value for _, value in batch])
        columns = dict(zip(codec.types, decoded, strict=True))
        columns |= results(self.store.aggregates, columns, self.store.type == "session")
        return FoundRows(key, {name: columns[name] for name in parse_columns(self.store.value)}, timestamps)


def _incarnation(directory: StateDirectory) -> str:
    found = ProcessFile.read(directory.path)
    return "" if found is None else found.incarnation


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


def _wanted(
    store: Store, start: int | None, end: int | None, oldest: int | None
) -> WantedSessions | WantedRecords | WantedWindows | None:
    """Which rows are within bounds (ms), of a store whose keys begin with segments of time."""
    if store.keeps_given_windows:
        return WantedWindows(start, end, oldest, times_in_keys(store))
    if isinstance(store.window, JoinWindow):
        return WantedRecords(start, end, oldest)
    return WantedSessions(start, end, _oldest_end(store, oldest)) if has_segments(store) else None


def _bound(store: Store, moment: int | None) -> bytes | None:
    """The least key of windows that start at `moment` (ms). Bounds mean nothing to stores without windows."""
    return None if moment is None or store.type != "window" else first_window_key(moment)


def _oldest(store: Store, clock: int) -> int | None:
    """The first window start that has not expired at `clock` (ms); without a retention of its own, once it closed."""
    retention = store.kept_ms
    return None if retention is None or clock < 0 else first_visible_start(clock, retention)


def _oldest_end(store: Store, oldest: int | None) -> int | None:
    """The first end (ms) of windows of a store with segments that have not expired. `oldest`: see `_oldest`."""
    if oldest is None or not isinstance(store.window, SlidingWindow):
        return oldest
    return oldest + store.window.difference_ms
