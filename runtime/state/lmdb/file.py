"""The file of an LMDB environment: its header, checksums, markers and errors."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import add, lt
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import lmdb
import numpy as np

from ....errors import MachineError
from ....private_files import write_text
from ...log.durable_files import sync_directory
from ..machine import boot_id
from ..offset_checkpoint import write_whole
from ..store import ERRNO_BY_MESSAGE, StoreUnusableError

# Reads the header of an LMDB file before the file is mapped: reading a map beyond the end of the file crashes the
# process.
#
# The layout is the one of `MDB_page` and `MDB_meta` in LMDB's mdb.c (0.9, 64 bits). The first two pages are meta pages;
# the one with the higher transaction number is valid.

NAME = "data.mdb"

_META_PAGE = 0x08
_MAGIC = 0xBEEFC0DE
_VERSION = 1
# Page number, padding, flags, bounds | magic, version, address, map size | page size, the rest of both trees | last
# page, transaction.
_META = struct.Struct("<QHHHH IIQQ I44x48x QQ")
_PAGE_SIZE = 9  # its index in _META
_READS = 3  # another process may be writing the page
_MAX_MAPPED = 1 << 46
"""An upper bound of map sizes in bytes, above the address space of a process."""


class FileDamagedError(Exception):
    """The file is not a complete LMDB file."""


@dataclass(frozen=True)
class Meta:
    """The valid meta page. `pages`: the number of pages, used and free ones."""

    page_size: int
    pages: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the meta page of a file. Raises FileDamagedError."""
        for _ in range(_READS - 1):
            with suppress(FileDamagedError):
                return cls._read_once(path)
        return cls._read_once(path)

    @classmethod
    def _read_once(cls, path: Path) -> Self:
        with path.open("rb") as file:
            first = file.read(_META.size)
            page_size = _META.unpack(first)[_PAGE_SIZE] if len(first) == _META.size else 0
            if page_size & (page_size - 1) or not 512 <= page_size <= 65536:
                raise FileDamagedError("its first page is not LMDB's")
            file.seek(page_size)
            second = file.read(_META.size)
        metas = [meta for number, data in enumerate((first, second)) if (meta := _parse(data, number, page_size))]
        if len(metas) < 2:
            raise FileDamagedError("its first pages are not LMDB's")
        return cls(page_size, max(metas)[1] + 1)


def missing_bytes(path: Path) -> int:
    """The number of bytes that the file lacks up to its last page.

    LMDB itself may omit pages at the end that were allocated and freed in the same transaction. Raises
    FileDamagedError.
    """
    meta = Meta.read(path)
    return max(0, meta.page_size * meta.pages - path.stat().st_size)


def extend(path: Path) -> None:
    """Add the missing pages to the file, empty. LMDB detects an empty page as invalid.

    It never shortens the file, even if another process writes at the same time. Raises FileDamagedError, OSError.
    """
    missing = missing_bytes(path)
    if missing:
        meta = Meta.read(path)
        handle = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(handle, 0, meta.page_size * meta.pages)
        finally:
            os.close(handle)


def _parse(data: bytes, number: int, page_size: int) -> tuple[int, int] | None:
    """Transaction and last page of a valid meta page with this number, or None."""
    if len(data) < _META.size:
        return None
    page, _, flags, _, _, magic, version, _, mapped, size, last, transaction = _META.unpack(data)
    valid = (page, magic, version, size) == (number, _MAGIC, _VERSION, page_size) and flags & _META_PAGE
    return (transaction, last) if valid and page_size <= mapped <= _MAX_MAPPED and last < mapped // page_size else None


# A checksum for each row: LMDB has none and would return a changed byte.
#
# A stored value is the value followed by a CRC-32 (4 bytes, little endian) of the stored key and the value. The CRC-32
# of a message that ends with its own CRC-32 is the same number for all messages, so a reader compares with that number:
# crc32(b"key" + b"value" + checksum) == crc32(checksum of b"") for all keys and values.

LENGTH = 4
"""The bytes of a checksum."""

_RESIDUE = {crc32(crc32(b"").to_bytes(LENGTH, "little"))}


class RowDamagedError(Exception):
    """Rows were changed, or are not under their keys."""


def with_checksums(keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    """The values with checksums, to be stored under `keys`."""
    checksums = np.fromiter(map(crc32, values, map(crc32, keys)), "<u4", len(keys))
    return list(map(add, values, checksums.view(f"V{LENGTH}").tolist()))


def without_checksums(keys: Sequence[bytes], stored: Sequence[bytes]) -> list[bytes]:
    """The values in the stored bytes of `keys`. Raises RowDamagedError for a wrong checksum."""
    if stored and set(map(crc32, stored, map(crc32, keys))) != _RESIDUE:
        raise RowDamagedError("a row is not what was written")
    return [value[:-LENGTH] for value in stored]


def require_order(keys: Sequence[bytes]) -> None:
    """Raise RowDamagedError if keys are not in ascending order: a search could miss one of them."""
    if not all(map(lt, keys, keys[1:])):
        raise RowDamagedError("its keys are not in order")


def require_absent(cursor: Any, missing: Sequence[bytes]) -> None:
    """Raise RowDamagedError if a missing row may be stored under a damaged key.

    `missing`: sorted keys that were not found. If the key of a stored row was changed, a search for the original key
    ends next to that row, or between rows that are not the neighbours of the key. So the checksums of both neighbours
    and their order are checked: between b"a" and b"c" a missing b"b" is fine; between b"c" and b"a" it is not.
    """
    upper = b""
    for key in missing:
        if key < upper:
            continue  # it has the same neighbours as the previous key
        after = [cursor.item()] if cursor.set_range(key) else []
        before = [cursor.item()] if (cursor.prev() if after else cursor.last()) else []
        without_checksums(*_columns(before + after))
        require_order([row_key for row_key, _ in (*before, (key, b""), *after)])
        if not after:
            return  # all further keys are greater than all rows, too
        upper = after[0][0]


def _columns(rows: Sequence[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in rows], [value for _, value in rows]


# Decides whether files that were written without sync can be trusted.
#
# Stores are not synced at commits, because the changelog has all rows. If a process is killed, nothing is lost. If the
# machine stops, a file may be torn. So a marker file with the boot id exists from before the first unsynced write until
# all is synced. With a marker of another boot the files must not even be opened. A second marker file says that a
# process has found the files damaged.

_MARKER = "unsynced"
_DAMAGED = "damaged"


def is_trusted(directory: Path) -> bool:
    """Whether the files of `directory` can be trusted: they were not found damaged, and had no unsynced changes at the
    end of an earlier boot.
    """
    if is_damaged(directory):
        return False
    try:
        return (directory / _MARKER).read_text() == boot_id()
    except FileNotFoundError:
        return True


def is_synced(directory: Path) -> bool:
    """Whether the last writer has closed the files, so that all changes are on the disk."""
    return not os.path.exists(f"{directory}/{_MARKER}")


def is_damaged(directory: Path) -> bool:
    """Whether a process has found damage in the files."""
    return os.path.exists(f"{directory}/{_DAMAGED}")  # a string is faster than a Path, and each use of a store needs it


def mark_damaged(directory: Path, reason: str) -> None:
    """Mark the files as damaged for all processes. Errors are ignored: a reader may lack the permission."""
    with suppress(OSError):
        write_text(directory / _DAMAGED, reason)


def damage(directory: Path) -> str:
    """The reason of `mark_damaged`; empty without damage."""
    try:
        return (directory / _DAMAGED).read_text()
    except FileNotFoundError:
        return ""


def mark_unsynced(directory: Path) -> None:
    """Record durably that unsynced writes follow. It is cheap if they are recorded already."""
    marker = directory / _MARKER
    if marker.exists():
        return
    write_whole(marker, boot_id(), durably=True)
    sync_directory(directory)


def mark_synced(directory: Path) -> None:
    """Record that all changes are synced. The caller has the write lock."""
    (directory / _MARKER).unlink(missing_ok=True)
    sync_directory(directory)


# Translates LMDB's errors of the operating system: a full or failing disk, no memory, missing permissions.
#
# py-lmdb has classes for a few error numbers. Others are its plain `Error`, with a text that ends with the system's
# message.

_ERRNO_BY_CLASS = {lmdb.DiskError: errno.ENOSPC, lmdb.MemoryError: errno.ENOMEM, lmdb.ReadonlyError: errno.EACCES}

_CUT_SHORT = (
    "make room on that disk, or raise the limit of a file's size (ulimit -f), and run again; if it has space, look at "
    "the disk: the log of the system says what is wrong with it"
)
"""The hint for EIO: LMDB also reports an incomplete write as "Input/output error" (`mdb_page_flush` in mdb.c)."""


def errno_of(error: lmdb.Error) -> int | None:
    """The errno of an LMDB error; None if it is not an error of the operating system."""
    if type(error) in _ERRNO_BY_CLASS:
        return _ERRNO_BY_CLASS[type(error)]
    return ERRNO_BY_MESSAGE.get(str(error).rpartition(": ")[2]) if type(error) is lmdb.Error else None


@contextmanager
def translated_errors(directory: Path) -> Iterator[None]:
    """Raise StoreUnusableError if the operating system rejects access to a store's files, except for a missing file."""
    try:
        yield
    except lmdb.Error as error:
        number = errno_of(error)
        if number is None:
            raise
        unusable = StoreUnusableError(directory, number, os.strerror(number))
        if number == errno.EIO:
            unusable.hint = _CUT_SHORT
        raise unusable from error
    except OSError as error:
        if not MachineError.explains(error):
            raise
        raise StoreUnusableError.from_os_error(error, directory) from error
