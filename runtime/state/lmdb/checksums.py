"""Adds a checksum to each row, because LMDB has none and would return a changed byte unnoticed.

A stored value is the value followed by a CRC-32 (4 bytes, little endian) of the stored key and the value. The CRC-32 of
a message that ends with its own CRC-32 is the same number for all messages, so reading compares with that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, lt
from typing import Any
from zlib import crc32

import numpy as np

LENGTH = 4
"""Bytes in a checksum."""

_RESIDUE = {crc32(crc32(b"").to_bytes(LENGTH, "little"))}


class RowDamagedError(Exception):
    """Rows are not as they were written, or not in their place."""


def sealed(keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    """The values with checksums, as they are stored under `keys`."""
    checksums = np.fromiter(map(crc32, values, map(crc32, keys)), "<u4", len(keys))
    return list(map(add, values, checksums.view(f"V{LENGTH}").tolist()))


def unsealed(keys: Sequence[bytes], stored: Sequence[bytes]) -> list[bytes]:
    """The values of what is stored under `keys`. Raises RowDamagedError."""
    if stored and set(map(crc32, stored, map(crc32, keys))) != _RESIDUE:
        raise RowDamagedError("a row is not what was written")
    return [value[:-LENGTH] for value in stored]


def refuse_disorder(keys: Sequence[bytes]) -> None:
    """Raise RowDamagedError if keys are not in order, because a search could then miss one of them."""
    if not all(map(lt, keys, keys[1:])):
        raise RowDamagedError("its keys are not in order")


def refuse_hidden(cursor: Any, missing: Sequence[bytes]) -> None:
    """Raise RowDamagedError if a missing row may be stored under a changed key.


    `missing`: sorted keys that were not found. If the key of a stored row has changed, a search for the original key
    ends beside that row, or between rows that are no neighbours of the key.
    """
    upper = b""
    for key in missing:
        if key < upper:
            continue  # it has the same neighbours as the previous key
        behind = [cursor.item()] if cursor.set_range(key) else []
        before = [cursor.item()] if (cursor.prev() if behind else cursor.last()) else []
        unsealed(*_columns(before + behind))
        refuse_disorder([each for each, _ in (*before, (key, b""), *behind)])
        if not behind:
            return  # the following keys are behind all rows, too
        upper = behind[0][0]


def _columns(rows: Sequence[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in rows], [value for _, value in rows]
