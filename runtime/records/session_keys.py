"""The layout of stores of sessions and of sliding windows: one row for each key and segment of time, with all windows
of the key that end there.

A segment's key is that of a window that starts where the segment does (`window_keys`), so old segments lie together,
and expiry removes them as one range. The windows that a record can touch end close to it, so they are in few segments,
whose keys are known: no search is needed. A segment is as long as 8 gaps of sessions, or as one difference of sliding
windows, of which a key may have two for each record. Its length follows from these alone, as a change of them is a
change of the store, and one of the grace period is not.

A segment's value is the greatest end in it (ms, 8 bytes little endian, as the timestamp of any row), then a msgpack
array: start (ms), end (ms), row (bytes) of each session, by end and start.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgpack

from ..ir.topology import Store
from ..ir.windows import SessionWindow, SlidingWindow
from .arrays import Int64s
from .window_keys import split_window_keys

_GAPS = 8

Session = tuple[int, int, bytes]
"""End and start in ms, and the encoded row."""


def segment_length(window: SessionWindow | SlidingWindow) -> int:
    """The length of a segment in ms."""
    if isinstance(window, SlidingWindow):
        return max(window.difference_ms, 1)
    return _GAPS * max(window.gap_ms, 1)


def has_segments(store: Store) -> bool:
    """Whether the rows of a store are in segments."""
    return isinstance(store.window, SessionWindow | SlidingWindow)


def segments_of(ends: Int64s, length: int) -> Int64s:
    """The starts of the segments of this length of windows that end then, ms."""
    return ends - ends % length


def packed(sessions: Sequence[Session]) -> bytes:
    """The value of a segment. `sessions`: at least one, sorted."""
    flat = [part for end, start, row in sessions for part in (start, end, row)]
    body: bytes = msgpack.packb(flat)
    return sessions[-1][0].to_bytes(8, "little", signed=True) + body


def packed_each(starts: Int64s, ends: Int64s, rows: Sequence[bytes | None], begin: Int64s) -> list[bytes]:
    """The same of many segments, whose sessions lie one behind the other, sorted in each. `begin`: where those of each
    one begin, and at last where they end.
    """
    flat: list[int | bytes | None] = [None] * (3 * len(rows))
    flat[0::3], flat[1::3], flat[2::3] = starts.tolist(), ends.tolist(), rows
    pack, last = msgpack.Packer(autoreset=True).pack, ends[begin[1:] - 1].astype("<i8").view("V8").tolist()
    return [
        time + pack(flat[here:there]) for time, (here, there) in zip(last, pairwise((3 * begin).tolist()), strict=True)
    ]


def unpacked(value: bytes) -> list[Session]:
    """The sessions of a segment, sorted."""
    flat = msgpack.unpackb(value[8:])
    return list(zip(flat[1::3], flat[::3], flat[2::3], strict=True))


def split_sessions(keys: list[bytes]) -> tuple[Int64s, Int64s, list[bytes]]:
    """Starts and ends (ms), and encoded keys without them."""
    starts, rest = split_window_keys(keys)
    ends, plain = split_window_keys(rest)
    return starts, ends, plain
