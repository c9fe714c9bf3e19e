"""Reads the header of an LMDB file before it is mapped, because reading a map beyond the end of the file kills the
process.

The layout is that of `MDB_page` and `MDB_meta` in LMDB's mdb.c (0.9, 64 bits). The first two pages are meta pages, and
the one with the higher transaction number is valid.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

NAME = "data.mdb"

_META_PAGE = 0x08
_MAGIC = 0xBEEFC0DE
_VERSION = 1
# Page number, padding, flags, bounds | magic, version, address, map size | page size, the rest of both trees | last
# page, transaction.
_META = struct.Struct("<QHHHH IIQQ I44x48x QQ")
_PAGE_SIZE = 9  # its place in _META
_READS = 3  # a page may be seen half written by another process
_MOST_MAPPED = 1 << 46
"""In bytes: more than a process can map or any store has."""


class FileDamagedError(Exception):
    """The file is not a whole LMDB file."""


@dataclass(frozen=True)
class Meta:
    """The valid meta page. `pages`: all page numbers in use or free are below it."""

    page_size: int
    pages: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read the meta page of a file. Raises FileDamagedError."""
        for _ in range(_READS - 1):
            with suppress(FileDamagedError):
                return cls._read(path)
        return cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> Self:
        with path.open("rb") as file:
            first = file.read(_META.size)
            page_size = _META.unpack(first)[_PAGE_SIZE] if len(first) == _META.size else 0
            if page_size & (page_size - 1) or not 512 <= page_size <= 65536:
                raise FileDamagedError("its first page is not LMDB's")
            file.seek(page_size)
            second = file.read(_META.size)
        found = [meta for number, data in enumerate((first, second)) if (meta := _meta(data, number, page_size))]
        if len(found) < 2:
            raise FileDamagedError("its first pages are not LMDB's")
        return cls(page_size, max(found)[1] + 1)


def missing_bytes(path: Path) -> int:
    """How many bytes the file lacks up to its last page.

    LMDB itself may leave out pages at the end that were taken and freed in the same transaction. Raises
    FileDamagedError.
    """
    meta = Meta.of(path)
    return max(0, meta.page_size * meta.pages - path.stat().st_size)


def extend(path: Path) -> None:
    """Add the missing pages to the file, empty. LMDB recognizes an empty page as not its own.

    It never shortens the file, even if another process writes at the same time. Raises FileDamagedError, OSError.
    """
    missing = missing_bytes(path)
    if missing:
        meta = Meta.of(path)
        handle = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(handle, 0, meta.page_size * meta.pages)
        finally:
            os.close(handle)


def _meta(data: bytes, number: int, page_size: int) -> tuple[int, int] | None:
    """Transaction and last page, if this is a meta page with that number."""
    if len(data) < _META.size:
        return None
    page, _, flags, _, _, magic, version, _, mapped, found_size, last, transaction = _META.unpack(data)
    whole = (page, magic, version, found_size) == (number, _MAGIC, _VERSION, page_size) and flags & _META_PAGE
    return (transaction, last) if whole and page_size <= mapped <= _MOST_MAPPED and last < mapped // page_size else None
