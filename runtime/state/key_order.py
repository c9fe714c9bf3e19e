"""The order of keys by their bytes, found by sorting numbers: several times as fast as sorting the keys themselves.

Keys are laid below each other as rows of a matrix, shorter ones filled up with zeros, with their lengths as the last
column. Columns that are alike in all keys are left out. What remains is read as numbers of eight bytes, often a single
one, and those are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    if lengths.min() == longest:
        columns = list(flat.reshape(len(keys), longest).T)
    else:
        rows = np.zeros((len(keys), longest), np.uint8)
        rows[np.arange(longest) < lengths[:, None]] = flat
        columns = [*rows.T, lengths.astype(np.uint8)]
    varying = [column for column in columns if (column != column[0]).any()] or [np.zeros(len(keys), np.uint8)]
    return [_number(varying[first : first + 8]) for first in range(0, len(varying), 8)]


def _number(columns: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint64]:
    """The bytes of these columns, row by row, as a number: the first is the highest."""
    number = columns[0].astype(np.uint64)
    for column in columns[1:]:
        number <<= np.uint64(8)
        number |= column
    return number


def _by_arrow(keys: pa.LargeBinaryArray) -> Indices:
    coded = keys.dictionary_encode()
    last = np.empty(len(coded.dictionary), np.int64)
    # Of several assignments to one index, numpy keeps the last.
    last[coded.indices.to_numpy()] = np.arange(len(keys))
    ordered: Indices = last[pc.sort_indices(coded.dictionary).to_numpy()]
    return ordered
