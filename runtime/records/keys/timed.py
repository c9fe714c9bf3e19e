"""The layout of keys in window and session stores of processors, whose rows are asked for by key and time.

The start of a segment of time, the encoded key, then the window's start, or the session's end and start. A segment has
the rows whose window starts, or whose session ends, in it, and is as long as in Kafka Streams' persistent stores: half
as long as rows are kept, and at least a minute. So ranges over keys have Kafka's order; the rows of a key in some span
of time are a few ranges of keys, and old segments lie together, which expiry removes as one range.

Times are ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Int64s
from .windows import first_window_key

LEAST_SEGMENT_MS = 60_000
_WORD = 8
_SIGN = np.int64(-(2**63))


def segment_length(retention: int) -> int:
    """The length of a segment, ms."""
    return max(retention // 2, LEAST_SEGMENT_MS)


def segment_of(time: int, length: int) -> int:
    """The start of the segment that a time is in."""
    return time - time % length


def timed_key(length: int, key: bytes, *times: int) -> bytes:
    """The key of a row; the first of its times decides its segment."""
    return first_window_key(segment_of(times[0], length)) + key + b"".join(map(first_window_key, times))


def segment_start(key: bytes) -> int:
    """The start of the segment of a key."""
    return _time(key[:_WORD])


def plain_key(key: bytes, words: int) -> bytes:
    """The encoded key of a row that has so many times."""
    return key[_WORD : -words * _WORD]


def times_of(key: bytes, words: int) -> tuple[int, ...]:
    """The times of a row that has so many of them."""
    tail = key[-words * _WORD :]
    return tuple(_time(tail[place : place + _WORD]) for place in range(0, len(tail), _WORD))


def split_timed_keys(keys: Sequence[bytes], words: int) -> tuple[list[bytes], Int64s]:
    """Encoded keys, and a row of so many times for each."""
    tails = np.frombuffer(b"".join([key[-words * _WORD :] for key in keys]), ">i8").astype(np.int64) ^ _SIGN
    return [plain_key(key, words) for key in keys], tails.reshape(-1, words)


def _time(word: bytes) -> int:
    return int.from_bytes(word, "big") - 2**63
