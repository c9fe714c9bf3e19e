"""Keys as numbers, which are sorted and compared several times as fast as the keys themselves.

Keys become rows of a matrix of bytes, padded with zeros, with their lengths as the last column. Columns that are equal
in all keys are dropped. Up to eight columns that remain form one 64-bit number, often the only one, for sorting:

    keys                    b"ba", b"a", b"ba", b"c"
    rows of the matrix      62 61 02, 61 00 01, 62 61 02, 63 00 01 (hexadecimal; the last byte is the length)
    numbers                 0x626102, 0x610001, 0x626102, 0x630001
    order by number         [1, 0, 2, 3]
    differs from the last   [True, True, False, True]
    last_in_order           [1, 2, 3]: the last of equal keys
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 64
"""Arrow sorts longer keys: they would make the matrix large."""

SHORT_BYTES = 16
"""Up to this length, lookups of keys as numbers are faster than lookups of the keys, conversion included."""

_WORD = 8

Indices = npt.NDArray[np.int64]
Column = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]


def last_in_order(keys: pa.Array) -> Indices:
    """The index of the last row of each distinct key, in the order of the keys' bytes. `keys`: binary, no nulls."""
    words = _words(keys)
    if words is None:
        return _by_arrow(keys)
    # An unstable sort is several times as fast, and the last of equal keys is taken below anyway.
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


def as_numbers(keys: pa.Array) -> Numbers | None:
    """A number for each key; equal keys have equal numbers.

    Only for short keys of one length that differ in up to eight bytes, else None. `keys`: binary or texts, no nulls.
    The keys b"k1x", b"k2x" differ in one byte: their numbers are 0x31 and 0x32.
    """
    if not len(keys):
        return np.empty(0, np.uint64)
    ends = _ends(keys)
    length = int(ends[1] - ends[0])
    if not 0 < length <= SHORT_BYTES or (np.diff(ends) != length).any():
        return None
    varying = _varying([*_flat(keys, ends).reshape(len(keys), length).T], len(keys))
    return _number(varying) if len(varying) <= _WORD else None


def _words(keys: pa.Array) -> list[Numbers] | None:
    """The keys as arrays of numbers, most significant first; None if a key is too long."""
    if not len(keys):
        return [np.empty(0, np.uint64)]
    ends = _ends(keys)
    lengths = np.diff(ends)
    longest = int(lengths.max())
    if longest > MOST_BYTES:
        return None
    flat = _flat(keys, ends)
    if lengths.min() == longest:
        columns = list(flat.reshape(len(keys), longest).T)
    else:
        rows = np.zeros((len(keys), longest), np.uint8)
        rows[np.arange(longest) < lengths[:, None]] = flat
        columns = [*rows.T, lengths.astype(np.uint8)]
    varying = _varying(columns, len(keys))
    return [_number(varying[first : first + _WORD]) for first in range(0, len(varying), _WORD)]


def _ends(keys: pa.Array) -> npt.NDArray[Any]:
    """The offsets of keys in their bytes: the start of the first key, then the end of each."""
    large = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    offsets = np.frombuffer(keys.buffers()[1], np.int64 if large else np.int32)
    return offsets[keys.offset : keys.offset + len(keys) + 1]


def _flat(keys: pa.Array, ends: npt.NDArray[Any]) -> Column:
    return np.frombuffer(keys.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]


def _varying(columns: Sequence[Column], keys: int) -> list[Column]:
    """The columns that differ between keys; a column of zeros if none does."""
    return [column for column in columns if (column != column[0]).any()] or [np.zeros(keys, np.uint8)]


def _number(columns: Sequence[Column]) -> Numbers:
    """Each row of these columns as a big-endian number."""
    number = columns[0].astype(np.uint64)
    for column in columns[1:]:
        number <<= np.uint64(8)
        number |= column
    return number


def _by_arrow(keys: pa.Array) -> Indices:
    coded = keys.dictionary_encode()
    last = np.empty(len(coded.dictionary), np.int64)
    # Of several assignments to one index, NumPy keeps the last.
    last[coded.indices.to_numpy()] = np.arange(len(keys))
    ordered: Indices = last[pc.sort_indices(coded.dictionary).to_numpy()]
    return ordered
