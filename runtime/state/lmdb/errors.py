"""Recognizes LMDB's errors that come from the machine: a full or failing disk, no memory, missing rights.

py-lmdb has a class for a few of the system's error numbers. Others are its plain `Error`, whose text ends with the
system's words for the number.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from ....errors import MachineError
from ..store import StoreUnusableError

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
