"""Reads copies of stores that commits list."""

from __future__ import annotations

from zlib import crc32

from ..commit.records import StoreSnapshot
from ..errors import SavedFileError
from ..log import Log


def damage_of(log: Log, copy: StoreSnapshot) -> str:
    """What is the matter with a copy of a store; empty if it is as it was saved."""
    size, checksum = 0, 0
    try:
        for piece in log.read_file(copy.path):
            size, checksum = size + len(piece), crc32(piece, checksum)
    except SavedFileError as error:
        return error.cause
    if size != copy.size:
        return f"{size:,} bytes long instead of {copy.size:,}"
    return "" if checksum == copy.checksum else "its checksum is wrong"
