"""Rows of session and sliding window stores: one row for each key and segment of time.

A row contains all windows of the key that end in the segment. Its key is that of a window that starts where the segment
does (`window_keys`), so old segments lie together and expire as one range. The windows that a record can touch end
close to it, so they are in few segments with known keys: no search is needed. A segment is as long as 8 gaps of
sessions, or as one time difference of sliding windows, of which a key may have two for each record. The length depends
on nothing else: a change of the gap changes the store anyway, a change of the grace period does not.

A row's value is the greatest end in it (ms, 8 bytes little endian, like the timestamp of any row), then a msgpack
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
    """Whether the store keeps all windows of a segment in one row."""
    return isinstance(store.window, SessionWindow | SlidingWindow)


def segments_of(ends: Int64s, length: int) -> Int64s:
    """The starts of the segments of windows with these ends, ms. `length`: of a segment, ms."""
    return ends - ends % length


def pack_segment(sessions: Sequence[Session]) -> bytes:
    """The value of a segment. `sessions`: at least one, sorted."""
    flat = [part for end, start, row in sessions for part in (start, end, row)]
    body: bytes = msgpack.packb(flat)
    return sessions[-1][0].to_bytes(8, "little", signed=True) + body


def pack_segments(starts: Int64s, ends: Int64s, rows: Sequence[bytes | None], begin: Int64s) -> list[bytes]:
    """The values of many segments; their sessions lie one after another, sorted within each segment.

    `begin`: the first session of each segment, and at last the number of sessions. Two segments of 2 and 1 sessions:

        starts, ends   [1, 4, 5], [2, 6, 9]
        rows           [b"x", b"y", b"z"]
        begin          [0, 2, 3]
        flat           [1, 2, b"x", 4, 6, b"y", 5, 9, b"z"]: three entries for each session
        first value    6 as 8 bytes, msgpack of flat[0:6]
        second value   9 as 8 bytes, msgpack of flat[6:9]
    """
    flat: list[int | bytes | None] = [None] * (3 * len(rows))
    flat[0::3], flat[1::3], flat[2::3] = starts.tolist(), ends.tolist(), rows
    pack, last = msgpack.Packer(autoreset=True).pack, ends[begin[1:] - 1].astype("<i8").view("V8").tolist()
    return [
        time + pack(flat[here:there]) for time, (here, there) in zip(last, pairwise((3 * begin).tolist()), strict=True)
    ]


def unpack_segment(value: bytes) -> list[Session]:
    """The sessions of a segment, sorted."""
    flat = msgpack.unpackb(value[8:])
    return list(zip(flat[1::3], flat[::3], flat[2::3], strict=True))


def split_sessions(keys: list[bytes]) -> tuple[Int64s, Int64s, list[bytes]]:
    """Session keys split into starts (ms), ends (ms) and encoded keys."""
    starts, rest = split_window_keys(keys)
    ends, plain = split_window_keys(rest)
    return starts, ends, plain
