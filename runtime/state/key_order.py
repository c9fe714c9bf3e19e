"""The order of keys by their bytes, found by sorting numbers: several times as fast as sorting the keys themselves.

Keys are laid below each other as rows of a matrix, shorter ones filled up with zeros, with their lengths as the last
column. Columns that are alike in all keys are left out. What remains is read as numbers of eight bytes, often a single
one, and those are sorted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 64
"""Longer keys would make the matrix large. They are sorted by Arrow."""

Indices = npt.NDArray[np.int64]


def last_in_order(keys: pa.LargeBinaryArray) -> Indices:
    """Where each key comes for the last time, in the order of the keys' bytes. `keys` has no null."""
    words = _words(keys)
    if words is None:
        return _by_arrow(keys)
    # One word is sorted several times as fast where equal ones may change places.
    order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    differs = np.zeros(len(order), bool)
    differs[:1] = True
    for word in words:
        ordered = word[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    if differs.all():
        return order
    last: Indices = np.maximum.reduceat(order, np.flatnonzero(differs))
    return last


def _words(keys: pa.LargeBinaryArray) -> list[npt.NDArray[np.uint64]] | None:
    """The keys as numbers, the most significant first; None if a key is too long."""
    if not len(keys):
        return [np.empty(0, np.uint64)]
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(ends)
    longest = int(lengths.max())
    if longest > MOST_BYTES:
        return None
    flat = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    rows = np.zeros((len(keys), longest + 1), np.uint8)
    rows[:, longest] = lengths
    if lengths.min() == longest:
        rows[:, :longest] = flat.reshape(len(keys), longest)
    else:
        rows[:, :longest][np.arange(longest) < lengths[:, None]] = flat
    varying = np.flatnonzero((rows != rows[0]).any(axis=0))
    packed = np.zeros((len(keys), max(1, -(-len(varying) // 8)) * 8), np.uint8)
    packed[:, : len(varying)] = rows[:, varying]
    return [word.astype(np.uint64) for word in packed.view(">u8").T]


def _by_arrow(keys: pa.LargeBinaryArray) -> Indices:
    coded = keys.dictionary_encode()
    last = np.empty(len(coded.dictionary), np.int64)
    # Of several assignments to one index, numpy keeps the last.
    last[coded.indices.to_numpy()] = np.arange(len(keys))
    ordered: Indices = last[pc.sort_indices(coded.dictionary).to_numpy()]
    return ordered
