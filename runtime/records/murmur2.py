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
    words = _words(data)
    alike = len(lengths) > 0 and bool((lengths == lengths[0]).all() and (np.diff(starts) == lengths[0]).all())
    hashes: _Words = lengths.astype(np.uint32) ^ _SEED
    if alike:
        _mix_alike(hashes, words, int(starts[0]), int(lengths[0]))
    else:
        _mix(hashes, words, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes.view(np.int32)


def _mix(hashes: _Words, word_at: _Words, starts: Ints, lengths: Ints) -> None:
    """Mix the bytes of each string into its hash."""
    counts = lengths >> 2
    rows = np.arange(len(lengths))
    for number in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > number]
        hashes[rows] = _mixed(hashes[rows], word_at[starts[rows] + 4 * number])
    rest = lengths & 3
    rows = np.flatnonzero(rest)
    mask = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ (word_at[starts[rows] + 4 * counts[rows]] & mask)) * _M


def _mix_alike(hashes: _Words, word_at: _Words, start: int, length: int) -> None:
    """The same for strings of one length, one after the other: nothing has to be picked out, which takes most."""
    every = slice(start, start + (len(hashes) - 1) * length + 1, length or None)
    for number in range(length >> 2):
        hashes[:] = _mixed(hashes, word_at[4 * number :][every])
    if length & 3:
        mask = np.uint32((1 << 8 * (length & 3)) - 1)
        hashes ^= word_at[4 * (length >> 2) :][every] & mask
        hashes *= _M


def _mixed(hashes: _Words, word: _Words) -> _Words:
    word = word * _M
    word ^= word >> _MIX_SHIFT
    return (hashes * _M) ^ (word * _M)


def _words(data: Bytes) -> _Words:
    """The little-endian word at each byte, so that one gather reads four bytes, aligned or not."""
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    return np.ndarray((len(data) + 1,), dtype=np.dtype("<u4"), buffer=padded.data, strides=(1,))
