"""Rows of stores, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from ...errors import HeadwaterError
from ..engine.execution.aggregates.registry import results
from ..engine.execution.keyed.stored_rows import stored_columns
from ..engine.execution.suppress_buffer import ChangeCodec, decoded_keys, waiting_key, window_ends
from ..environment import parse_duration
from ..ir.topology import Agg, Store, StoreType
from ..ir.windows import AnyWindow, JoinWindow, SessionWindow, SlidingWindow, Window
from ..log.commit.descriptions import StoreDescription
from ..log.errors import RangeMissingError
from ..log.log import Log
from ..log.ranges import LogRange
from ..log.state import LogState
from ..records.join_keys import first_row_key, split_side_keys
from ..records.keys import decode_keys
from ..records.schema import changelog_topic
from ..records.session_keys import has_segments, split_sessions, unpack_segment
from ..records.types import parse_columns
from ..records.window_keys import (
    first_visible_start,
    first_window_key,
    split_timed_keys,
    split_window_keys,
    without_window,
)
from ..state.catch_up import changes, slices
from ..state.codec import RowCodec, timestamp_of
from ..state.directory import StateDirectory
from ..state.offset_checkpoint import belongs_to_log
from ..state.process_file import ProcessFile
from ..state.store import StateStore, StoreDamagedError
from ..task_id import StoreId, TaskKey
from .rows import FoundRows, Row, WantedWindows, key_types, moments, table_schema, times_in_keys, wanted_columns

# The rows of buffers for queries: the changes that wait.

Encoded = tuple[bytes, bytes]


def waiting_rows(store: Store, key: bytes, value: bytes) -> Iterator[Encoded]:
    """The encoded key and the row of the change that a stored row holds; none where it holds no change."""
    found = waiting_key(store, key)
    if found is not None:
        yield found, value


def waiting_changes(store: Store, batch: Sequence[Encoded]) -> FoundRows:
    """Changes with their columns. Those of a deletion are null."""
    key = decoded_keys(store, pa.array([key for key, _ in batch], pa.binary()))
    times = window_ends(key) if store.type == "window_changes" else None
    changes = ChangeCodec(store).decode([row for _, row in batch], times)
    return FoundRows(key, changes.values, changes.timestamp)


# The rows of the stores of a join of streams for queries: of each record, whose key has its time among others.


@dataclass(frozen=True)
class WantedRecords:
    """The records of a store from `start` and `oldest` on and before `end`, ms."""

    start: int | None
    end: int | None
    oldest: int | None

    def lower(self, store: Store) -> bytes | None:
        """The first key of the first segment that may have some."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The record of a key, if it is wanted."""
        time = int(split_side_keys(pa.array([key], pa.binary()))[1][0])
        late_enough = all(bound is None or time >= bound for bound in (self.start, self.oldest))
        if late_enough and (self.end is None or time < self.end):
            yield key, value


# The rows of stores with segments for queries: each session or sliding window of a segment as a row of its own.


@dataclass(frozen=True)
class WantedSessions:
    """The sessions of a store that start within bounds (ms, the second one excluded) and end at `oldest` or later."""

    start: int | None
    end: int | None
    oldest: int | None

    def lower(self, store: Store) -> bytes | None:
        """The first key of a segment that may have some: no session ends before it starts."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The sessions of a segment. Their keys are start, end, and the key without the window (`split_sessions`)."""
        plain = without_window(key)
        for end, start, row in unpack_segment(value):
            there = self.oldest is None or end >= self.oldest
            if there and (self.start is None or start >= self.start) and (self.end is None or start < self.end):
                yield first_window_key(start) + first_window_key(end) + plain, row


# The rows of a store as of the last commit, read by anyone while its owner goes on working.
#
# A store stands at some position of its changelog, at or before the committed end. Its rows, with what the changelog
# has from there on laid over them, are the committed state. Stores are opened where clients of this machine keep them;
# where there is none, the changelog alone has everything.

_ROWS_AT_ONCE = 4096


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
            clock = state.tasks.last_commit(task).clocks.get(self.store.name, -1)
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
            if path.is_dir() and _incarnation(directory) in ("", state.incarnation) and belongs_to_log(self.log, path):
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


# A store as its rows were written: the project may declare it otherwise by now, or under another name.


@dataclass(frozen=True)
class WrittenStore:
    """`store`: as it was committed, with its name then. `subtopology`: the one that had it then. `description`: what
    the commits say of it.
    """

    store: Store
    subtopology: str
    description: StoreDescription


def written_store(state: LogState, declared: Store, former: Iterable[str]) -> WrittenStore | None:
    """The store whose rows an application has; None if it has committed none of its name.

    `former`: names that the store had before, the last one first.
    """
    committed = state.topology
    name = next((each for each in (declared.name, *former) if each in committed.stores), None)
    owner = next((part for part, each in committed.subtopologies.items() if name in each.stores), None)
    if name is None or owner is None:
        return None
    found = committed.stores[name]
    if found == StoreDescription.from_store(declared):
        return WrittenStore(replace(declared, name=name), owner, found)
    return WrittenStore(_store(name, found, declared), owner, found)


def _store(name: str, found: StoreDescription, declared: Store) -> Store:
    """A store that gives the rows of a description. `declared`: has what no description says."""
    settings = found.settings or StoreDescription.from_store(declared).settings  # a log of before they were recorded
    kept = settings.get("retention", "forever")
    same_backend = settings.get("backend", declared.backend) == declared.backend
    return Store(
        name,
        found.partitions,
        found.key,
        found.value,
        cast(StoreType, found.type),
        _window(found, parse_duration(settings.get("grace", "0s"))),
        None if kept == "forever" else parse_duration(kept),
        tuple(
            Agg(each.name, each.function, None if each.of is None else each.name, each.of, options=each.options)
            for each in found.aggregates
        ),
        settings.get("backend", declared.backend),
        declared.options if same_backend else {},
        found.changelog,
    )


def _window(found: StoreDescription, grace: int) -> AnyWindow | JoinWindow | None:
    if found.within is not None:
        return JoinWindow(*found.within, grace)
    match found.window:
        case None:
            return None
        case (gap,):
            return SessionWindow(gap, grace)
        case (difference, 0):
            return SlidingWindow(difference, grace)
        case lengths:
            size, advance = lengths
            return Window(size, advance, grace)
