"""Makes files and folders that only their owner can read, whatever the umask, because records may be secret.

Rights of existing files stay as they are. `headwater debug` warns if others can read them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = 0o600
FOLDER = 0o700

_OTHERS = 0o077


def make_folder(path: Path) -> list[Path]:
    """Make a folder and the missing ones above it. Returns those that were made, from the top. Raises OSError."""
    if os.path.isdir(path):
        return []
    made = make_folder(path.parent)
    try:
        path.mkdir(FOLDER)
    except FileExistsError:
        refuse_dangling(path)
        if not stat.S_ISDIR(path.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return made  # another process has made it first
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        # The folder above is there: the file system, such as /proc, has no folders but its own.
        raise PermissionError(errno.EPERM, "this file system lets nobody make a folder here", str(path)) from None
    path.chmod(FOLDER)
    return [*made, path]


def refuse_dangling(path: Path) -> None:
    """Raise an OSError (ENOLINK) if a path, or a folder above it, is a symbolic link to something that is not there.

    To the system that is the same as a missing file. But it was meant to be something: a disk that is not mounted.
    """
    for each in (path, *path.parents):
        if not each.is_symlink():
            continue
        try:
            each.stat()
        except FileNotFoundError:  # and no ELOOP, of which the system says itself that links lead in a circle
            reason = f"it is a symbolic link to {os.readlink(each)}, which is not there"
            raise OSError(errno.ENOLINK, reason, str(each)) from None


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: only the owner can read a file that it makes. Raises OSError."""
    if not flags & os.O_CREAT:
        return os.open(path, flags)
    try:
        handle = os.open(path, flags | os.O_EXCL, FILE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, FILE)
    os.fchmod(handle, FILE)  # whatever the umask has left
    return handle


@contextmanager
def path_told(path: Path) -> Iterator[None]:
    """Have errors of the system name the file: those of `write`, `flush` and `fsync` name none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file, in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file."""
    with path_told(path), open(path, "wb", opener=opener) as file:
        file.write(content)


def open_to_others(path: Path) -> str:
    """A sentence about who else has rights to `path`. Empty if nobody has, or nothing is there."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user ({found.st_uid})"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may get into {path} (mode {mode:o})" if mode & _OTHERS else ""
