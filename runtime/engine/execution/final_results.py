"""Final results: the rows of windows that close, each emitted once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...ir.topology import Store
from ...ir.windows import AnyWindow, JoinWindow, SessionWindow, Window
from ...records.arrays import Int64s
from ...records.key_order import last_in_order
from ...records.keys import decode_keys
from ...records.schema import WINDOW_COLUMNS
from ...records.types import Kind, parse_columns
from ...records.window_keys import (
    first_window_key,
    has_segments,
    row_step,
    split_window_keys,
    unpack_segment,
    window_keys,
    without_window,
)
from ..operators.tables import FinalResults
from .keyed.groups import bytes_of, group_codes, last_rows, places_in_runs, window_column, window_times
from .keyed.stored_rows import StoredRows, session_keys, stored_columns, visible_columns
from .node import Edges, EpochStore, TaskEpoch
from .rows import Rows, concat

# Finds the rows of a windowed table that close in an epoch, and the change that closes each by moving the clock.


@dataclass(frozen=True)
class Closing:
    """The progress of closing in an epoch. The arrays have one entry for each place.

    `places`: the changes without columns, then a row for time that passes without one. `clock`: of the table after each
    place, ms. `upto`: windows with an end up to this (ms) are closed after the place. `before`: the same before the
    epoch.

    Example: changes at the times 5, 12, 9 and 25; a window closes 10 ms after its end.

        clock       [5, 12, 12, 25]
        upto        [-5, 2, 2, 15]
        at([2, 15, 16])    [1, 3, 4]: the last window stays open
    """

    places: Rows
    clock: Int64s
    upto: Int64s
    before: int

    @classmethod
    def of(cls, store: Store, rows: Rows, behind: int, epoch: TaskEpoch) -> Closing:
        """Windows close `behind` ms after their end, by the clock of `store`. `rows`: the changes of its table."""
        before = epoch.clock_before(store.name)
        places = concat([rows.bare(), *epoch.places_of_time()])
        # A record that moves the clock is never late, so the row of its window has the timestamp of the record.
        clock = np.maximum(np.maximum.accumulate(places.timestamp), before)
        return cls(places, clock, clock - behind, before - behind)

    def at(self, ends: Int64s) -> Int64s:
        """The places that close windows with these `ends` (ms). For a window that stays open: the number of places."""
        place: Int64s = np.searchsorted(self.upto, ends)
        return place


def closed_rows(store: Store, rows: Rows, closing: Closing, opened: EpochStore) -> tuple[Rows, Int64s]:
    """(The rows that close, the place of each). Sorted by place, window start (sessions: end, start) and key bytes.

    `rows`: the changes of the epoch, all or a part. `opened`: the store of the table, with the rows before the epoch.
    """
    found, changed = _updated(store, rows, closing)
    if len(closing.upto) and closing.upto[-1] > closing.before:
        found = concat([found, _unchanged(store, rows, closing, opened, changed)])
    return _in_order(store, found, closing)


def _updated(store: Store, rows: Rows, closing: Closing) -> tuple[Rows, set[bytes]]:
    """(Rows of this epoch that exist when they close, keys of all rows that changed before they closed)."""
    ends = window_times(rows.keys[WINDOW_COLUMNS[1]])
    at = closing.at(ends)
    # A session that was emitted before may still be merged with a later one, if its store keeps it longer.
    until = np.flatnonzero((np.arange(len(rows)) <= at) & (at < len(closing.upto)) & (ends > closing.before))
    some = rows.take(until)
    keys = _places(store, some)
    code, first = group_codes(keys)
    last = last_rows(code, len(first))
    changed = set(bytes_of(keys.take(pa.array(last))))
    return some.take(np.sort(last[some.kind[last] == Kind.VALUE])), changed


def _unchanged(store: Store, rows: Rows, closing: Closing, opened: EpochStore, changed: set[bytes]) -> Rows:
    """The rows of earlier epochs that close in this one, without the keys in `changed`."""
    upto = int(closing.upto[-1])
    held = _held_in_segments if has_segments(store) else _held
    found = [(key, row) for key, row in held(store, opened, closing.before, upto) if key not in changed]
    first, plain = split_window_keys([key for key, _ in found])
    assert not isinstance(store.window, JoinWindow | None)
    if isinstance(store.window, SessionWindow):
        end, (start, plain) = first, split_window_keys(plain)
    else:
        start, end = first, first + store.window.length_ms
    types = parse_columns(store.key)
    key = dict(zip(types, decode_keys(pa.array(plain, pa.binary()), list(types.values())), strict=True))
    key |= zip(WINDOW_COLUMNS, (window_column(start), window_column(end)), strict=True)
    stored = StoredRows.of(stored_columns(store), [row for _, row in found])
    value = visible_columns(store, stored)
    made = closing.places.take(closing.at(end)).with_columns(key, {name: value[name] for name in rows.value})
    return replace(made, kind=np.full(len(found), Kind.VALUE, np.int8), timestamp=stored.timestamp)


def _in_order(store: Store, found: Rows, closing: Closing) -> tuple[Rows, Int64s]:
    """(The rows with the paths of the places that close them, these places). A new path level numbers the rows."""
    order = last_in_order(_places(store, found))
    at = closing.at(window_times(found.keys[WINDOW_COLUMNS[1]]))
    order = order[np.argsort(at[order], kind="stable")]
    at, places = at[order], closing.places
    closed = found.take(order)
    closed = replace(
        closed,
        path=(*(level[at] for level in places.path), places_in_runs(at)),
        order=places.order[at],
        headers=None if places.headers is None else places.headers.take(pa.array(at)),
        state=None,
    )
    return closed, at


def _places(store: Store, rows: Rows) -> pa.BinaryArray:
    """Sort keys of rows that close at one place: start, then key; for sessions end, start, then key."""
    plain, start, end = session_keys(rows.keys)
    keys = window_keys(start, plain)
    return window_keys(end, keys) if store.type == "session" else keys


def _held(store: Store, opened: EpochStore, after: int, upto: int) -> Iterator[tuple[bytes, bytes]]:
    """(Sort key, encoded row) of stored rows with `after` < window end <= `upto`, ms. Sort key: see `_places`."""
    assert isinstance(store.window, Window)
    length = store.window.length_ms
    return opened.range(first_window_key(after - length + 1), first_window_key(upto - length + 1))


def _held_in_segments(store: Store, opened: EpochStore, after: int, upto: int) -> Iterator[tuple[bytes, bytes]]:
    """The same for sessions and sliding windows, from the segments that may contain them."""
    first = max(after + 1, 0) // row_step(store) * row_step(store)
    for key, segment in opened.range(first_window_key(first), first_window_key(upto + 1)):
        # The first 8 bytes of a segment's value are its greatest end.
        if int.from_bytes(segment[:8], "little", signed=True) <= after:
            continue
        plain = without_window(key)
        for end, start, row in unpack_segment(segment):
            if after < end <= upto:
                place = first_window_key(start) + plain
                yield first_window_key(end) + place if store.type == "session" else place, row


# The operator of `emit: on_close`: emits each row of a windowed aggregate once, when its window closes.
#
# The record that moves the step's clock past the end (and grace) closes the row. The row is emitted behind the other
# results of this record. Kafka Streams searches closed rows after the record is in its store, where they may have
# expired already; here they are emitted first. The committed clock says which rows were emitted. So a repeated epoch
# emits the same rows, and no row is emitted twice.


def emit_closed(node: FinalResults, edges: Edges, epoch: TaskEpoch) -> None:
    """See `FinalResults`."""
    rows = edges[node.flow]
    assert isinstance(node.store.window, AnyWindow)
    closing = Closing.of(node.store, rows, node.store.window.closed_after_ms, epoch)
    edges[node.flow], _ = closed_rows(node.store, rows, closing, epoch.store(node.store))
