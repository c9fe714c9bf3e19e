"""Keys of rows in the stores of stream-stream joins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..ir.topology import Store
from ..ir.windows import JoinWindow, SessionWindow, SlidingWindow
from . import session_keys as session_segments
from . import window_keys as timed
from .arrays import Int64s
from .window_keys import first_window_key, window_keys

# These stores keep every record as a row of its own, equal records too.
#
# The store of one side: the start of a segment of time, the encoded key, the record's time, its number. A segment is as
# long as the times that match one record, so all matches of a record are in few segments, each of them a range of
# keys. Old segments lie together and expire as one range.
#
# The store of records without a match: side, time, encoded key, number, encoded like the columns of any key. So the
# rows of one side that are due form one range.
#
# Times are ms. Numbers distinguish records of one key and time, and grow in order of arrival.

_WORD = 8
_SIGN = np.int64(-(2**63))
_HEAD = 1 + 1 + 1 + _WORD
_TAIL = 1 + _WORD
_NOTHING = pa.scalar(b"", pa.binary())


def segment_length(window: JoinWindow) -> int:
    """The length of a segment, ms. The grace period is no part of it: its change is no change of the store."""
    return window.before_ms + window.after_ms + 1


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
    return window_keys(times - times % segment_length(window), plain)


def split_side_keys(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """The inverse of `side_keys`: encoded keys, times and numbers."""
    words = _words(pc.binary_slice(keys, -2 * _WORD)).reshape(-1, 2)
    return pc.binary_slice(keys, _WORD, -2 * _WORD), words[:, 0] ^ _SIGN, words[:, 1]


def plain_key(key: bytes) -> bytes:
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
    if isinstance(store.window, JoinWindow):
        return segment_length(store.window)
    if store.keeps_given_windows and store.retention_ms is not None:
        return timed.segment_length(store.retention_ms)
    if isinstance(store.window, SessionWindow | SlidingWindow):
        return session_segments.segment_length(store.window)
    return 1


def first_row_key(store: Store, *bounds: int | None) -> bytes | None:
    """The first key of rows that may contain something at or after the latest of `bounds` (ms); None without bounds."""
    times = [bound for bound in bounds if bound is not None]
    # No earlier segment contains it, also none of an earlier version with shorter segments.
    return first_window_key(max(times) - row_step(store) + 1) if times else None
