"""The hash murmur2 as Kafka's default partitioner computes it, for whole arrays at once.

The constants are Kafka's (`org.apache.kafka.common.utils.Utils.murmur2`), so the same bytes have the same hash there.
The expected values in the tests come from Kafka.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_MIX_SHIFT = np.uint32(24)


def murmur2(data: Bytes, starts: Ints, lengths: Ints) -> npt.NDArray[np.int32]:
    """The signed 32-bit hash of each byte string `data[start : start + length]`."""
    word_at = _words(data)
    counts = lengths >> 2
    hashes: _Words = lengths.astype(np.uint32) ^ _SEED
    rows = np.arange(len(lengths))
    for number in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > number]
        word = word_at[starts[rows] + 4 * number] * _M
        word ^= word >> _MIX_SHIFT
        hashes[rows] = (hashes[rows] * _M) ^ (word * _M)
    rest = lengths & 3
    rows = np.flatnonzero(rest)
    mask = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ (word_at[starts[rows] + 4 * counts[rows]] & mask)) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes.view(np.int32)


def _words(data: Bytes) -> _Words:
    """The little-endian word at each byte, so that one gather reads four bytes, aligned or not."""
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    return np.ndarray((len(data) + 1,), dtype=np.dtype("<u4"), buffer=padded.data, strides=(1,))
