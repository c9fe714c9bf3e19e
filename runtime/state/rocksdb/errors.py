"""Recognizes RocksDB's errors: damage, and what comes from the machine.

`rocksdict` raises plain `Exception`s, whose texts are RocksDB's: the kind of error, the cause, and the system's words.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....errors import HeadwaterError, MachineError
from ..store import StoreUnusableError

_DAMAGE = ("Corruption:", "IO error: No such file or directory:", "Invalid argument:")
_REFUSED = "IO error:"
_TOLD = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ESTALE),
    )
}


class FilesDamagedError(Exception):
    """The files of a store are not as they were written."""


@contextmanager
def errors_told(directory: Path) -> Iterator[None]:
    """Raise FilesDamagedError for damage, and StoreUnusableError where the system refuses the files of a store."""
    try:
        yield
    except HeadwaterError:
        raise
    except FileNotFoundError as error:
        raise FilesDamagedError(f"its file {Path(error.filename or '').name} is not there") from error
    except OSError as error:
        if not MachineError.explains(error):
            raise
        place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else directory
        raise StoreUnusableError(place, error.errno, error.strerror or str(error)) from error
    except Exception as error:
        text = str(error)
        if type(error) is not Exception:
            raise
        if text.startswith(_DAMAGE):
            raise FilesDamagedError(text.splitlines()[0]) from error
        if text.startswith(_REFUSED):
            number = next((number for words, number in _TOLD.items() if words in text), None)
            raise StoreUnusableError(directory, number, text.removeprefix(_REFUSED).strip()) from error
        raise
