"""The layout of session stores: one row for each key and segment of time, with all sessions of the key that end there.

A segment's key is that of a window that starts where the segment does (`window_keys`), so old segments lie together,
and expiry removes them as one range. The sessions that a record can touch end at most a few gaps before it, so they are
in few segments, whose keys are known: no search is needed. A segment is as long as 8 gaps. Its length follows from the
gap alone, as a change of the gap is a change of the store, and one of the grace period is not.

A segment's value is the greatest end in it (ms, 8 bytes little endian, as the timestamp of any row), then a msgpack
array: start (ms), end (ms), row (bytes) of each session, by end and start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from ..topology import JoinWindow, SessionWindow, Store
from . import join_keys
from .arrays import Int64s
from .window_keys import split_window_keys

_GAPS = 8

Session = tuple[int, int, bytes]
"""End and start in ms, and the encoded row."""


def segment_length(gap: int) -> int:
    """The length of a segment in ms. `gap`: of the session window, ms."""
    return _GAPS * max(gap, 1)


def row_step(store: Store) -> int:
    """What the times are multiples of that the keys of a windowed store begin with, in ms."""
    if isinstance(store.window, JoinWindow):
        return join_keys.segment_length(store.window)
    return segment_length(store.window.gap_ms) if isinstance(store.window, SessionWindow) else 1


def segments_of(ends: Int64s, gap: int) -> Int64s:
    """The starts of the segments (ms) of sessions that end then."""
    return ends - ends % segment_length(gap)


def packed(sessions: Sequence[Session]) -> bytes:
    """The value of a segment. `sessions`: at least one, sorted."""
    flat = [part for end, start, row in sessions for part in (start, end, row)]
    body: bytes = msgpack.packb(flat)
    return sessions[-1][0].to_bytes(8, "little", signed=True) + body


def unpacked(value: bytes) -> list[Session]:
    """The sessions of a segment, sorted."""
    flat = msgpack.unpackb(value[8:])
    return list(zip(flat[1::3], flat[::3], flat[2::3], strict=True))


def split_sessions(keys: list[bytes]) -> tuple[Int64s, Int64s, list[bytes]]:
    """Starts and ends (ms), and encoded keys without them."""
    starts, rest = split_window_keys(keys)
    ends, plain = split_window_keys(rest)
    return starts, ends, plain
