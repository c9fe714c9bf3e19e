"""Reads whole files of the local file system: snapshots of stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

_PIECE = 1 << 20
"""Bytes: what a processor's cache holds, so that a piece is summed and written from there."""


def summed(path: Path) -> tuple[int, int]:
    """Size and crc32 of a file."""
    size, checksum = 0, 0
    for piece in pieces(path):
        size, checksum = size + len(piece), crc32(piece, checksum)
    return size, checksum


def pieces(path: Path, start: int = 0) -> Iterator[memoryview]:
    """The file's content from a byte on; each piece until the next is asked for."""
    data = memoryview(bytearray(_PIECE))
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while read := file.readinto(data):
            yield data[:read]
