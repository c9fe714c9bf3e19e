"""Keys of rows that wait in joins."""

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

# The layout of keys in the stores of a join of two streams, which keep each record by itself, also equal ones.
#
# A store of one side: the start of a segment of time, the encoded key, the record's time, its number. A segment is as
# long as the times that fit to one record, so all records that one can find are in few segments, each of them a range
# of keys; old segments lie together, and expiry removes them as one range.
#
# The store of records without a match: side, time, encoded key, number, encoded like the columns of any key. So those
# of one side whose time has come are one range.
#
# Times are ms. Numbers tell records of one key and time apart, and grow in the order in which the records came.

_WORD = 8
_SIGN = np.int64(-(2**63))
_HEAD = 1 + 1 + 1 + _WORD
_TAIL = 1 + _WORD
_NOTHING = pa.scalar(b"", pa.binary())


def segment_length(window: JoinWindow) -> int:
    """The length of a segment, ms. It does not depend on the grace period, whose change is no change of the store."""
    return window.before_ms + window.after_ms + 1


def side_keys(window: JoinWindow, keys: pa.BinaryArray, times: Int64s, numbers: Int64s) -> pa.BinaryArray:
    """The keys of records in the store of their side."""
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
    """The keys of records of one side without a match."""
    head = np.ones((len(times), _HEAD), np.uint8)
    head[:, 1] = of_this
    head[:, 3:] = _big_endian(times * 1000)
    tail = np.ones((len(times), _TAIL), np.uint8)
    tail[:, 1:] = _big_endian(numbers)
    joined: pa.BinaryArray = pc.binary_join_element_wise(_binary(head), keys, _binary(tail), _NOTHING)
    return joined


def unmatched_before(time: int, of_this: bool) -> tuple[bytes, bytes]:
    """The range of keys of records of one side without a match whose times (ms) are before `time`."""
    side = bytes([1, of_this])
    return side, side + b"\x01" + first_window_key(time * 1000)


def split_unmatched_keys(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """Encoded keys, times and numbers."""
    times, numbers = (_words(pc.binary_slice(keys, *of)) ^ _SIGN for of in ((_HEAD - _WORD, _HEAD), (-_WORD, None)))
    return pc.binary_slice(keys, _HEAD, -_TAIL), times // 1000, numbers


def _words(column: pa.BinaryArray) -> Int64s:
    """The numbers of eight bytes each that the values of a new column are made of."""
    # The buffer of an empty column may be of any length.
    return np.frombuffer(column.buffers()[2] if len(column) else b"", ">i8").astype(np.int64)


def _big_endian(numbers: Int64s) -> npt.NDArray[np.uint8]:
    """Eight bytes of each number, in the order of the numbers."""
    return (numbers ^ _SIGN).astype(">i8").view(np.uint8).reshape(-1, _WORD)


def _binary(matrix: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """A value for each row of bytes."""
    width = matrix.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.binary(width), len(matrix), [None, data]).cast(pa.binary())


# How far apart the times lie with which the keys of rows begin, in stores of any layout that goes by time.


def row_step(store: Store) -> int:
    """What the times are multiples of that the keys of a windowed store begin with, in ms."""
    if isinstance(store.window, JoinWindow):
        return segment_length(store.window)
    if store.keeps_given_windows and store.retention_ms is not None:
        return timed.segment_length(store.retention_ms)
    if isinstance(store.window, SessionWindow | SlidingWindow):
        return session_segments.segment_length(store.window)
    return 1


def first_row_key(store: Store, *bounds: int | None) -> bytes | None:
    """The first key of the rows that may have something from the latest of these times (ms) on; None if all may."""
    times = [bound for bound in bounds if bound is not None]
    # No time before this can be that of their segment, nor of a shorter one of an earlier version.
    return first_window_key(max(times) - row_step(store) + 1) if times else None
