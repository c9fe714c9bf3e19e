"""Rows with a checksum behind their value: LMDB has none, and would give a changed byte to whoever asks.

A stored value is the value and then a CRC-32 (4 bytes, little endian) of the stored key and the value. The CRC-32 of a
message that ends with its own is the same for all messages, so reading compares with one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, lt
from typing import Any
from zlib import crc32

import numpy as np

LENGTH = 4
"""Bytes of a checksum."""

_RESIDUE = {crc32(crc32(b"").to_bytes(LENGTH, "little"))}


class RowDamagedError(Exception):
    """Rows are not those that were written, or not where they belong."""


def sealed(keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    """The values as they are stored under `keys`."""
    checksums = np.fromiter(map(crc32, values, map(crc32, keys)), "<u4", len(keys))
    return list(map(add, values, checksums.view(f"V{LENGTH}").tolist()))


def unsealed(keys: Sequence[bytes], stored: Sequence[bytes]) -> list[bytes]:
    """The values behind what is stored under `keys`. Raises RowDamagedError."""
    if stored and set(map(crc32, stored, map(crc32, keys))) != _RESIDUE:
        raise RowDamagedError("a row is not what was written")
    return [value[:-LENGTH] for value in stored]


def refuse_disorder(keys: Sequence[bytes]) -> None:
    """Raise RowDamagedError where neighbours are not in order: a search would miss one of them."""
    if not all(map(lt, keys, keys[1:])):
        raise RowDamagedError("its keys are not in order")


def refuse_hidden(cursor: Any, missing: Sequence[bytes]) -> None:
    """Raise RowDamagedError where a row may be there under a changed key. `missing`: sorted, of which none was found.

    A search for a key whose row has changed ends beside that row, or among rows that are no neighbours of the key.
    """
    upper = b""
    for key in missing:
        if key < upper:
            continue  # between the same neighbours as the one before
        behind = [cursor.item()] if cursor.set_range(key) else []
        before = [cursor.item()] if (cursor.prev() if behind else cursor.last()) else []
        unsealed(*_columns(before + behind))
        refuse_disorder([each for each, _ in (*before, (key, b""), *behind)])
        if not behind:
            return  # nor is anything behind the keys that follow
        upper = behind[0][0]


def _columns(rows: Sequence[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in rows], [value for _, value in rows]
