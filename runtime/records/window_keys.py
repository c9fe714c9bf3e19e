"""Keys of rows in stores with times: of windows, sessions, processors and stream-stream joins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..ir.topology import Store
from ..ir.windows import JoinWindow, SessionWindow, SlidingWindow
from .arrays import Int64s

# The layout of keys in window stores: the window's start, then the key without the window.
#
# A start is ms since 1970 in 8 bytes, big endian, with its sign bit flipped. So byte order is the order of time. Old
# windows lie together, and expiry removes them as one range.

_WORD = 8
_SIGN = np.int64(-(2**63))
_NOTHING = pa.scalar(b"", pa.binary())


def window_keys(starts: Int64s, keys: pa.BinaryArray) -> pa.BinaryArray:
    """The keys of windows: window starts (ms) before encoded keys."""
    joined: pa.BinaryArray = pc.binary_join_element_wise(_binary(_big_endian(starts)), keys, _NOTHING)
    return joined


def split_window_keys(keys: Sequence[bytes]) -> tuple[Int64s, list[bytes]]:
    """The inverse of `window_keys`: window starts (ms) and encoded keys."""
    starts = np.frombuffer(b"".join([key[:_WORD] for key in keys]), ">i8").astype(np.int64) ^ _SIGN
    return starts, [key[_WORD:] for key in keys]


def without_window(key: bytes) -> bytes:
    """The encoded key of one of `window_keys`."""
    return key[_WORD:]


def first_window_key(start: int) -> bytes:
    """The smallest key of windows that start at `start` (ms) or later; empty if all windows do."""
    unsigned = start + 2**63
    return unsigned.to_bytes(_WORD, "big") if unsigned > 0 else b""


def range_in_segment(segment: int, key: bytes, first: int, last: int) -> tuple[bytes, bytes]:
    """The range of keys with the rows of one key in a segment, from the time `first` to `last`, both included (ms).

    Keys begin with the segment's start, the encoded key and a time.
    """
    prefix = first_window_key(segment) + key
    return prefix + first_window_key(first), prefix + first_window_key(last + 1)


def first_kept_key(clock: int, retention: int, step: int = 1) -> bytes:
    """The smallest key that has not expired at `clock` (ms). `step`: starts of rows are multiples of it, ms."""
    start = first_visible_start(clock, retention)
    return first_window_key(start - start % step)


def first_visible_start(clock: int, retention: int) -> int:
    """The first window start that has not expired at `clock` (ms). Starts up to `clock` - retention have expired."""
    return clock - retention + 1


# The layout of keys in window and session stores of processors, which read rows by key and time.
#
# The start of a segment of time, the encoded key, then the window's start, or the session's end and start. A segment
# has the rows with a window start, or a session end, in it. It is as long as in Kafka Streams' persistent stores: half
# the retention, and at least a minute. So ranges over keys have Kafka's order. The rows of a key in a span of time are
# a few ranges of keys, and old segments lie together, so they expire as one range.
#
# Times are ms.

LEAST_SEGMENT_MS = 60_000


def segment_length(retention: int) -> int:
    """The length of a segment, ms. `retention`: ms."""
    return max(retention // 2, LEAST_SEGMENT_MS)


def segment_of(time: int, length: int) -> int:
    """The start of the segment that contains a time."""
    return time - time % length


def timed_key(length: int, key: bytes, *times: int) -> bytes:
    """The key of a row with these times; the first one decides the segment."""
    return first_window_key(segment_of(times[0], length)) + key + b"".join(map(first_window_key, times))


def segment_start(key: bytes) -> int:
    """The start of the segment of a key."""
    return _time(key[:_WORD])


def plain_key(key: bytes, times: int) -> bytes:
    """The encoded key within the key of a row with this number of times."""
    return key[_WORD : -times * _WORD]


def times_of(key: bytes, times: int) -> tuple[int, ...]:
    """The times of a row with this number of times."""
    tail = key[-times * _WORD :]
    return tuple(_time(tail[start : start + _WORD]) for start in range(0, len(tail), _WORD))


def split_timed_keys(keys: Sequence[bytes], times: int) -> tuple[list[bytes], Int64s]:
    """Encoded keys, and a matrix of times (ms) with a row for each key and `times` columns."""
    tails = np.frombuffer(b"".join([key[-times * _WORD :] for key in keys]), ">i8").astype(np.int64) ^ _SIGN
    return [plain_key(key, times) for key in keys], tails.reshape(-1, times)


def _time(word: bytes) -> int:
    return int.from_bytes(word, "big") - 2**63


# Rows of session and sliding window stores: one row for each key and segment of time.
#
# A row contains all windows of the key that end in the segment. Its key is that of a window that starts where the
# segment does (`window_keys`), so old segments lie together and expire as one range. The windows that a record can
# touch end close to it, so they are in few segments with known keys: no search is needed. A segment is as long as 8
# gaps of sessions, or as one time difference of sliding windows, of which a key may have two for each record. The
# length depends on nothing else: a change of the gap changes the store anyway, a change of the grace period does not.
#
# A row's value is the greatest end in it (ms, 8 bytes little endian, like the timestamp of any row), then a msgpack
# array: start (ms), end (ms), row (bytes) of each session, by end and start.

_GAPS = 8

Session = tuple[int, int, bytes]
"""End and start in ms, and the encoded row."""


def window_segment_length(window: JoinWindow | SessionWindow | SlidingWindow) -> int:
    """The length of a segment of a store, ms. The grace period is no part of it: its change is no change of the store.

    In a join, all matches of a record are in few segments.
    """
    match window:
        case JoinWindow():
            return window.before_ms + window.after_ms + 1
        case SlidingWindow():
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


# The stores of stream-stream joins keep every record as a row of its own, equal records too.
#
# The store of one side: the start of a segment of time, the encoded key, the record's time, its number. A segment is as
# long as the times that match one record, so all matches of a record are in few segments, each of them a range of
# keys. Old segments lie together and expire as one range.
#
# The store of records without a match: side, time, encoded key, number, encoded like the columns of any key. So the
# rows of one side that are due form one range.
#
# Times are ms. Numbers distinguish records of one key and time, and grow in order of arrival.

_HEAD = 1 + 1 + 1 + _WORD
_TAIL = 1 + _WORD


def side_keys(window: JoinWindow, keys: pa.BinaryArray, times: Int64s, numbers: Int64s) -> pa.BinaryArray:
    """The keys of records in the store of their side, for encoded keys, times (ms) and numbers.

    segments of 10 ms; key b"k", time 25, number 3
    8 bytes   the segment's start 20, sign bit flipped   80 00 00 00 00 00 00 14
    1 byte    the encoded key                            6b
    8 bytes   the time 25, sign bit flipped              80 00 00 00 00 00 00 19
    8 bytes   the number 3                               00 00 00 00 00 00 00 03
    """
    tail = np.empty((len(times), 2), ">i8")
    tail[:, 0] = times ^ _SIGN
    tail[:, 1] = numbers
    plain = pc.binary_join_element_wise(keys, _binary(tail.view(np.uint8)), _NOTHING)
    return window_keys(times - times % window_segment_length(window), plain)


def split_side_keys(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """The inverse of `side_keys`: encoded keys, times and numbers."""
    words = _words(pc.binary_slice(keys, -2 * _WORD)).reshape(-1, 2)
    return pc.binary_slice(keys, _WORD, -2 * _WORD), words[:, 0] ^ _SIGN, words[:, 1]


def side_plain_key(key: bytes) -> bytes:
    """The encoded key of one of `side_keys`."""
    return key[_WORD : -2 * _WORD]


def unmatched_keys(keys: pa.BinaryArray, times: Int64s, of_this: bool, numbers: Int64s) -> pa.BinaryArray:
    """The keys of records without a match. `of_this`: the side, True for the left one; `times`: ms."""
    head = np.ones((len(times), _HEAD), np.uint8)
    head[:, 1] = of_this
    head[:, 3:] = _big_endian(times * 1000)
    tail = np.ones((len(times), _TAIL), np.uint8)
    tail[:, 1:] = _big_endian(numbers)
    joined: pa.BinaryArray = pc.binary_join_element_wise(_binary(head), keys, _binary(tail), _NOTHING)
    return joined


def unmatched_before(time: int, of_this: bool) -> tuple[bytes, bytes]:
    """The range of keys of records without a match, of one side, with times before `time` (ms)."""
    side = bytes([1, of_this])
    return side, side + b"\x01" + first_window_key(time * 1000)


def split_unmatched_keys(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """The inverse of `unmatched_keys`: encoded keys, times (ms) and numbers."""
    times, numbers = (
        _words(pc.binary_slice(keys, *bounds)) ^ _SIGN for bounds in ((_HEAD - _WORD, _HEAD), (-_WORD, None))
    )
    return pc.binary_slice(keys, _HEAD, -_TAIL), times // 1000, numbers


def _words(column: pa.BinaryArray) -> Int64s:
    """All bytes of a column as big-endian numbers of eight bytes. The column is no slice."""
    # The buffer of an empty column may be of any length.
    return np.frombuffer(column.buffers()[2] if len(column) else b"", ">i8").astype(np.int64)


def _big_endian(numbers: Int64s) -> npt.NDArray[np.uint8]:
    """Each number as a row of eight bytes; the order of the bytes is that of the numbers."""
    return (numbers ^ _SIGN).astype(">i8").view(np.uint8).reshape(-1, _WORD)


def _binary(matrix: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Each row of a matrix as a binary value."""
    width = matrix.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.binary(width), len(matrix), [None, data]).cast(pa.binary())


# The step between the times at the start of keys, for all layouts with a time at the start.


def row_step(store: Store) -> int:
    """The step of the times at the start of a windowed store's keys, ms: all are multiples of it."""
    if isinstance(store.window, JoinWindow | SessionWindow | SlidingWindow):
        return window_segment_length(store.window)
    if store.keeps_given_windows and store.retention_ms is not None:
        return segment_length(store.retention_ms)
    return 1


def first_row_key(store: Store, *bounds: int | None) -> bytes | None:
    """The first key of rows that may contain something at or after the latest of `bounds` (ms); None without bounds."""
    times = [bound for bound in bounds if bound is not None]
    # No earlier segment contains it, also none of an earlier version with shorter segments.
    return first_window_key(max(times) - row_step(store) + 1) if times else None
