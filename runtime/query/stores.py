"""Rows of stores, for queries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from ..log.state import LogState
from ..records.keys import decode_keys
from ..records.types import parse_columns
from ..records.window_keys import (
    first_row_key,
    first_visible_start,
    first_window_key,
    has_segments,
    split_sessions,
    split_side_keys,
    split_timed_keys,
    split_window_keys,
    times_of,
    unpack_segment,
    without_window,
)
from ..state.catch_up import LastChanges, read_slice, slices
from ..state.codec import RowCodec, timestamp_of
from ..state.directory import StateDirectory
from ..state.offset_checkpoint import belongs_to_log
from ..state.process_file import ProcessFile
from ..state.store import StateStore, StoreDamagedError
from ..task_id import StoreId, TaskKey
from ..tasks.plan import StoreInput
from .rows import FoundRows, Row, key_types, table_schema, to_timestamps, wanted_columns

# Rows of buffers, for queries: the waiting changes.

Encoded = tuple[bytes, bytes]


def waiting_rows(store: Store, key: bytes, value: bytes) -> Iterator[Encoded]:
    """The encoded key and the row of the change in a stored row; nothing if it contains no change."""
    change_key = waiting_key(store, key)
    if change_key is not None:
        yield change_key, value


def waiting_changes(store: Store, batch: Sequence[Encoded]) -> FoundRows:
    """Changes as columns. The values of a deletion are null."""
    key = decoded_keys(store, pa.array([key for key, _ in batch], pa.binary()))
    times = window_ends(key) if store.type == "window_changes" else None
    changes = ChangeCodec(store).decode([row for _, row in batch], times)
    return FoundRows(key, changes.new.values, changes.new.timestamp)


# Rows of stores whose keys begin with segments of time, for queries.


@dataclass(frozen=True)
class Wanted:
    """The rows with starts from `start` to before `end`, and ends of `oldest` or later, in ms.

    `unpack`: start, end, key and row of each row in a stored one.
    """

    start: int | None
    end: int | None
    oldest: int | None
    unpack: Callable[[bytes, bytes], Iterable[tuple[int, int, bytes, bytes]]]

    def lower(self, store: Store) -> bytes | None:
        """The first key of the first segment that may have such rows: no window ends before it starts."""
        return first_row_key(store, self.start, self.oldest)

    def rows(self, key: bytes, value: bytes) -> Iterator[Encoded]:
        """The wanted rows in a stored one."""
        for start, end, row_key, row in self.unpack(key, value):
            visible = self.oldest is None or end >= self.oldest
            if visible and (self.start is None or start >= self.start) and (self.end is None or start < self.end):
                yield row_key, row


def _joined_record(key: bytes, value: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """A record of a stream-stream join: its time is in its key."""
    time = int(split_side_keys(pa.array([key], pa.binary()))[1][0])
    yield time, time, key, value


def _given_window(words: int, key: bytes, value: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """A window of a processor: its times are in its key, see `times_in_keys`."""
    times = times_of(key, words)
    yield times[-1], times[0], key, value


def _sessions(key: bytes, value: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """The sessions, or sliding windows, of a segment. Their keys are start, end, and the key without the window."""
    plain = without_window(key)
    for end, start, row in unpack_segment(value):
        yield start, end, first_window_key(start) + first_window_key(end) + plain, row


def times_in_keys(store: Store) -> int:
    """Number of times at the end of a store's keys: the start of a window, or the end and the start of a session."""
    return 2 if store.type == "session" else 1


# Rows of a store as of the last commit, read by any process while its owner continues.
#
# A store is at a position of its changelog, at or before the committed end. Its rows, overlaid with the changelog from
# that position on, are the committed state. A copy of the store on this machine is used; without one, the changelog
# alone has all rows.

_ROWS_AT_ONCE = 4096


class DamagedStoreError(HeadwaterError):
    """The files of a store on this machine are damaged: `store`, `partition`, `cause`."""

    def __init__(self, store: Store, partition: int, error: StoreDamagedError) -> None:
        if store.changelog:
            hint = "query again: rows are then read from the store's changelog; the next run restores the store"
        else:
            hint = "the store has no changelog to restore it from: the next run starts with an empty store"
        super().__init__(f"store {store.name}, partition {partition}, is damaged: {error.cause} ({error.path})", hint)
        self.store = store.name
        self.partition = partition
        self.cause = error.cause


@dataclass(frozen=True)
class StoreQuery:
    """Reads one store of an application. `subtopology`: its owner; `open_store`: opens a copy of the store for reading.

    `state_dir`: where clients on this machine keep stores, None if they keep none.
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

        `start`, `end`: the range of window starts in ms, without `end`. Raises StoreKeyError for a key that the store
        cannot have, and DamagedStoreError.
        """
        for batch in self._found_rows(key, start, end):
            yield from batch.rows()

    def to_table(
        self, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> pa.Table:
        """The same rows as one table, see `rows.table_schema`."""
        schema = table_schema(self.store)
        tables = [batch.table(schema) for batch in self._found_rows(key, start, end)]
        return pa.concat_tables([schema.empty_table(), *tables])

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
            # A store may still have rows that are expired by the committed clock: the next epoch deletes them.
            oldest = _oldest(self.store, clock)
            wanted = _wanted(self.store, start, end, oldest)
            low = max(filter(None, (lower, _bound(self.store, oldest))), default=b"")
            if wanted is not None:
                lower, upper = wanted.lower(self.store), None
                low = lower or b""
            for key, value in _merged(copy.range(lower, upper) if copy else iter(()), changed):
                if value is None:
                    continue
                if self.store.is_buffer:
                    yield from waiting_rows(self.store, key, value)
                elif key >= low and (upper is None or key < upper):
                    yield from self._unless_expired(key, value, oldest) if wanted is None else wanted.rows(key, value)
        except StoreDamagedError as error:
            raise DamagedStoreError(self.store, partition, error) from error

    def _unless_expired(self, key: bytes, value: bytes, oldest: int | None) -> Iterator[Encoded]:
        """The row, unless it has expired by its own timestamp: rows of a key-value store are not sorted by time."""
        if self.store.is_windowed or oldest is None or timestamp_of(value) >= oldest:
            yield key, value

    def _found(self, state: LogState, partition: int) -> tuple[StateStore | None, dict[bytes, bytes | None]]:
        """The copy to read, and later changes of the changelog. A lost store without a changelog has no rows."""
        while True:
            copy, rest = self._start(state, partition)
            first = min((range_.start for range_ in rest.ranges), default=rest.position)
            if rest.applied < first and not self.store.changelog:
                return None, {}
            changed = LastChanges()
            try:
                for step in slices(rest, rest.applied):
                    for records in read_slice(step, self.log):
                        changed.add(records)
            except RangeMissingError as error:
                if not state.was_replaced(error):
                    raise
                continue  # of a store without a changelog: the changes have reached it since
            return copy, dict(zip(*changed.changes(), strict=True))

    def _start(self, state: LogState, partition: int) -> tuple[StateStore | None, StoreInput]:
        """The copy to read, and how it gets to the committed position."""
        while True:
            planned = StoreInput.committed(state, StoreId(self.store.name, partition))
            copy = self._copy(state, partition, planned.horizon) if planned.position else None
            at = copy.position if copy else 0
            if at <= planned.position:
                return copy, replace(planned, applied=at)
            if not state.refresh():  # left behind by removed commits: the next run wipes it
                return None, planned

    def _copy(self, state: LogState, partition: int, horizon: int) -> StateStore | None:
        """The copy on this machine with the highest position, without copies made of removed commits.

        A copy before the horizon may have rows whose deletions are missing in the changelog. Reading the whole
        changelog is then right.
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
            key["window_start"] = to_timestamps(starts)
        if ends is not None:
            key["window_end"] = to_timestamps(ends)
        codec = RowCodec(stored_columns(self.store))
        decoded, timestamps = codec.decode([value for _, value in batch])
        columns = dict(zip(codec.types, decoded, strict=True))
        columns |= results(self.store.aggregates, columns, self.store.type == "session")
        return FoundRows(key, {name: columns[name] for name in parse_columns(self.store.value)}, timestamps)


def _incarnation(directory: StateDirectory) -> str:
    process = ProcessFile.read(directory.path)
    return "" if process is None else process.incarnation


def _merged(rows: Iterator[Encoded], changed: Mapping[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes | None]]:
    """Rows by key, with those of `changed`, sorted too, inserted or in place of others. None: the row is deleted."""
    rest = deque(changed.items())
    for key, value in rows:
        while rest and rest[0][0] < key:
            yield rest.popleft()
        if not rest or rest[0][0] != key:  # else the changed row comes before the next one
            yield key, value
    yield from rest


def _wanted(store: Store, start: int | None, end: int | None, oldest: int | None) -> Wanted | None:
    """The filter by bounds (ms) for a store whose keys begin with segments of time, else None."""
    if store.keeps_given_windows:
        return Wanted(start, end, oldest, partial(_given_window, times_in_keys(store)))
    if isinstance(store.window, JoinWindow):
        return Wanted(start, end, oldest, _joined_record)
    return Wanted(start, end, _oldest_end(store, oldest), _sessions) if has_segments(store) else None


def _bound(store: Store, moment: int | None) -> bytes | None:
    """The least key of windows that start at `moment` (ms). Stores without windows have no bounds."""
    return None if moment is None or store.type != "window" else first_window_key(moment)


def _oldest(store: Store, clock: int) -> int | None:
    """The first window start that has not expired at `clock` (ms); without a retention, the first open window."""
    retention = store.kept_ms
    return None if retention is None or clock < 0 else first_visible_start(clock, retention)


def _oldest_end(store: Store, oldest: int | None) -> int | None:
    """The first window end (ms) that has not expired, of a store with segments. `oldest`: see `_oldest`."""
    if oldest is None or not isinstance(store.window, SlidingWindow):
        return oldest
    return oldest + store.window.difference_ms


# A store as its rows were written: the project may have changed its declaration or its name since.


@dataclass(frozen=True)
class WrittenStore:
    """`store`: as it was committed, with its name then. `subtopology`: its owner then. `description`: as committed."""

    store: Store
    subtopology: str
    description: StoreDescription


def written_store(state: LogState, declared: Store, former: Iterable[str]) -> WrittenStore | None:
    """The committed store of an application; None if it has committed none of these names.

    `former`: earlier names of the store, the last one first.
    """
    committed = state.topology
    name = next((name for name in (declared.name, *former) if name in committed.stores), None)
    owner = next((part for part, description in committed.subtopologies.items() if name in description.stores), None)
    if name is None or owner is None:
        return None
    description = committed.stores[name]
    if description == StoreDescription.from_store(declared):
        return WrittenStore(replace(declared, name=name), owner, description)
    return WrittenStore(_store(name, description, declared), owner, description)


def _store(name: str, description: StoreDescription, declared: Store) -> Store:
    """The store that wrote the rows of a description. `declared`: for settings that no description has."""
    settings = description.settings or StoreDescription.from_store(declared).settings  # older logs have none
    kept = settings.get("retention", "forever")
    same_backend = settings.get("backend", declared.backend) == declared.backend
    return Store(
        name,
        description.partitions,
        description.key,
        description.value,
        cast(StoreType, description.type),
        _window(description, parse_duration(settings.get("grace", "0s"))),
        None if kept == "forever" else parse_duration(kept),
        tuple(
            Agg(
                aggregate.name,
                aggregate.function,
                None if aggregate.of is None else aggregate.name,
                aggregate.of,
                options=aggregate.options,
            )
            for aggregate in description.aggregates
        ),
        settings.get("backend", declared.backend),
        declared.options if same_backend else {},
        description.changelog,
    )


def _window(description: StoreDescription, grace: int) -> AnyWindow | JoinWindow | None:
    if description.within is not None:
        return JoinWindow(*description.within, grace)
    match description.window:
        case None:
            return None
        case (gap,):
            return SessionWindow(gap, grace)
        case (difference, 0):
            return SlidingWindow(difference, grace)
        case lengths:
            size, advance = lengths
            return Window(size, advance, grace)
