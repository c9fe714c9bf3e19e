"""The file of LMDB."""

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
from ..store import StoreUnusableError

# Reads the header of an LMDB file before it is mapped, because reading a map beyond the end of the file kills the
# process.
#
# The layout is that of `MDB_page` and `MDB_meta` in LMDB's mdb.c (0.9, 64 bits). The first two pages are meta pages,
# and the one with the higher transaction number is valid.

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


# Adds a checksum to each row, because LMDB has none and would return a changed byte unnoticed.
#
# A stored value is the value followed by a CRC-32 (4 bytes, little endian) of the stored key and the value. The CRC-32
# of a message that ends with its own CRC-32 is the same number for all messages, so reading compares with that number.

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


# Decides whether files that are written without sync can be trusted when they are opened again.
#
# Stores let the operating system write whenever it likes, because the changelog has everything. If a process dies,
# nothing is lost. If the machine stops, a file may be torn. So a marker file with the boot id exists from before the
# first unsynced write until everything is synced. A marker with another boot id means that the files must not even be
# opened. A second marker says that a process has found the files damaged.

_MARKER = "unsynced"
_DAMAGED = "damaged"


def is_trusted(directory: Path) -> bool:
    """Whether the files of `directory` are whole, as far as is known.

    Nothing was unsynced when an earlier boot of the machine ended, and nobody has found them damaged.
    """
    if is_damaged(directory):
        return False
    try:
        return (directory / _MARKER).read_text() == boot_id()
    except FileNotFoundError:
        return True


def is_synced(directory: Path) -> bool:
    """Whether the last writer has closed the files, so that everything is on the disk."""
    return not os.path.exists(f"{directory}/{_MARKER}")


def is_damaged(directory: Path) -> bool:
    """Whether a process has found damage in the files."""
    return os.path.exists(f"{directory}/{_DAMAGED}")  # not by a Path: each use of a store asks this


def mark_damaged(directory: Path, reason: str) -> None:
    """Tell all processes that use the files to give them up. A reader may lack the right to write; this is ignored."""
    with suppress(OSError):
        write_text(directory / _DAMAGED, reason)


def damage(directory: Path) -> str:
    """The damage that was found; empty if none."""
    try:
        return (directory / _DAMAGED).read_text()
    except FileNotFoundError:
        return ""


def mark_unsynced(directory: Path) -> None:
    """Record durably that unsynced writes follow. Cheap if it is recorded already."""
    marker = directory / _MARKER
    if marker.exists():
        return
    write_whole(marker, boot_id(), durably=True)
    sync_directory(directory)


def mark_synced(directory: Path) -> None:
    """Record that everything is synced and nobody has written since."""
    (directory / _MARKER).unlink(missing_ok=True)
    sync_directory(directory)


# Recognizes LMDB's errors that come from the machine: a full or failing disk, no memory, missing rights.
#
# py-lmdb has a class for a few of the system's error numbers. Others are its plain `Error`, whose text ends with the
# system's words for the number.

_OF_CLASS = {lmdb.DiskError: errno.ENOSPC, lmdb.MemoryError: errno.ENOMEM, lmdb.ReadonlyError: errno.EACCES}
_TOLD = (
    *(errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ENODEV, errno.ENXIO, errno.ESTALE),
)
_OF_TEXT = {os.strerror(number): number for number in _TOLD}

_CUT_SHORT = (
    "make room on that disk, or raise the limit of a file's size (ulimit -f), and run again; if there is room, look at "
    "the disk: the log of the system says what is wrong with it"
)
"""LMDB reports an incomplete write as "Input/output error", too (`mdb_page_flush` in mdb.c)."""


def number_of(error: lmdb.Error) -> int | None:
    """The system's number of an LMDB error; None if it is not one of the system's."""
    if type(error) in _OF_CLASS:
        return _OF_CLASS[type(error)]
    return _OF_TEXT.get(str(error).rpartition(": ")[2]) if type(error) is lmdb.Error else None


@contextmanager
def machine_errors_told(directory: Path) -> Iterator[None]:
    """Raise StoreUnusableError if the system refuses the files of a store. A missing file is not covered."""
    try:
        yield
    except lmdb.Error as error:
        number = number_of(error)
        if number is None:
            raise
        refused = StoreUnusableError(directory, number, os.strerror(number))
        if number == errno.EIO:
            refused.hint = _CUT_SHORT
        raise refused from error
    except OSError as error:
        if not MachineError.explains(error):
            raise
        raise StoreUnusableError(
            Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else directory,
            error.errno,
            error.strerror or str(error),
        ) from error
