"""Keys of rows in window stores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrays import Int64s

# The layout of keys in window stores: the window's start, then the key without the window.
#
# A start is ms since 1970 in 8 bytes, big endian, with its sign bit flipped. So byte order is the order of time. Old
# windows lie together, and expiry removes them as one range.

_BYTES = 8
_SIGN = np.int64(-(2**63))


def window_keys(starts: Int64s, keys: pa.BinaryArray) -> pa.BinaryArray:
    """The keys of windows: window starts (ms) before encoded keys."""
    prefix = pa.py_buffer((starts ^ _SIGN).astype(">i8"))
    joined: pa.BinaryArray = pc.binary_join_element_wise(
        pa.Array.from_buffers(pa.binary(_BYTES), len(starts), [None, prefix]).cast(pa.binary()),
        keys,
        pa.scalar(b"", pa.binary()),
    )
    return joined


def split_window_keys(keys: Sequence[bytes]) -> tuple[Int64s, list[bytes]]:
    """The inverse of `window_keys`: window starts (ms) and encoded keys."""
    starts = np.frombuffer(b"".join([key[:_BYTES] for key in keys]), ">i8").astype(np.int64) ^ _SIGN
    return starts, [key[_BYTES:] for key in keys]


def without_window(key: bytes) -> bytes:
    """The encoded key of one of `window_keys`."""
    return key[_BYTES:]


def first_window_key(start: int) -> bytes:
    """The smallest key of windows that start at `start` (ms) or later; empty if all windows do."""
    unsigned = start + 2**63
    return unsigned.to_bytes(_BYTES, "big") if unsigned > 0 else b""


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
_WORD = 8


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
