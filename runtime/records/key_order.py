"""Keys as numbers, which are sorted, and told apart, several times as fast as the keys themselves.

Keys are laid below each other as rows of a matrix, shorter ones filled up with zeros, with their lengths as the last
column. Columns that are alike in all keys are left out. What remains is read as numbers of eight bytes, often a single
one, and those are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 64
"""Longer keys would make the matrix large. They are sorted by Arrow."""

SHORT_BYTES = 16
"""Up to this length it is quicker to read keys as numbers and to look these up than to look up the keys."""

_WORD = 8

Indices = npt.NDArray[np.int64]
Column = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]


def last_in_order(keys: pa.Array) -> Indices:
    """Where each key comes for the last time, in the order of the keys' bytes. `keys` are binary, without nulls."""
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


def as_numbers(keys: pa.Array) -> Numbers | None:
    """A number for each key, equal where the keys are: for short keys of one length that differ in up to eight places.

    None for other keys. `keys`: binary or texts, without nulls.
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
    """The keys as numbers, the most significant first; None if a key is too long."""
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
    """Where the first key begins and each one ends."""
    large = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    offsets = np.frombuffer(keys.buffers()[1], np.int64 if large else np.int32)
    return offsets[keys.offset : keys.offset + len(keys) + 1]


def _flat(keys: pa.Array, ends: npt.NDArray[Any]) -> Column:
    return np.frombuffer(keys.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]


def _varying(columns: Sequence[Column], keys: int) -> list[Column]:
    """The columns that are not alike in all keys, at least one."""
    return [column for column in columns if (column != column[0]).any()] or [np.zeros(keys, np.uint8)]


def _number(columns: Sequence[Column]) -> Numbers:
    """The bytes of these columns, row by row, as a number: the first is the highest."""
    number = columns[0].astype(np.uint64)
    for column in columns[1:]:
        number <<= np.uint64(8)
        number |= column
    return number


def _by_arrow(keys: pa.Array) -> Indices:
    coded = keys.dictionary_encode()
    last = np.empty(len(coded.dictionary), np.int64)
    # Of several assignments to one index, numpy keeps the last.
    last[coded.indices.to_numpy()] = np.arange(len(keys))
    ordered: Indices = last[pc.sort_indices(coded.dictionary).to_numpy()]
    return ordered
