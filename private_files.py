"""Makes files and folders that only their owner can read, whatever the umask: records may be secret.

Permissions of existing files do not change. `headwater debug` warns if others can read them.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = 0o600
FOLDER = 0o700

_OTHERS = 0o077


def make_folder(path: Path) -> list[Path]:
    """Make a folder and its missing parents. Returns the new folders, from the top. Raises OSError."""
    if os.path.isdir(path):
        return []
    made = make_folder(path.parent)
    try:
        path.mkdir(FOLDER)
    except FileExistsError:
        raise_if_dangling(path)
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


def raise_if_dangling(path: Path) -> None:
    """Raise an OSError (ENOLINK) if a path, or a folder above it, is a symbolic link to a missing target.

    The system reports that as a missing file, but it may be a disk that is not mounted. Call this only after opening
    has failed: it looks at every parent folder.
    """
    for folder in (path, *path.parents):
        if not folder.is_symlink():
            continue
        try:
            folder.stat()
        except FileNotFoundError:  # not ELOOP: the system reports a circle of links itself
            reason = f"it is a symbolic link to {os.readlink(folder)}, which is not there"
            raise OSError(errno.ENOLINK, reason, str(folder)) from None


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: only the owner can read a file that it creates. Raises OSError."""
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
def naming_path(path: Path) -> Iterator[None]:
    """Add the file's path to errors of the system: those of `write`, `flush` and `fsync` name no file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file. Only its owner can read a new one. Raises OSError."""
    with naming_path(path), open(path, "wb", opener=opener) as file:
        file.write(content)


def write_whole(path: Path, content: bytes, ending: str = "partial") -> None:
    """Replace a file atomically. Of two concurrent writers one wins, and its file is complete. Raises OSError.

    A killed process may leave an unfinished file behind, with a name `.*.<ending>`.
    """
    make_folder(path.parent)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.{ending}")
    try:
        write_bytes(unfinished, content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def open_to_others(path: Path) -> str:
    """A sentence about other users' rights to `path`; empty if they have none, or nothing exists there."""
    try:
        status = path.stat()
    except OSError:
        return ""
    if status.st_uid != os.getuid():
        return f"{path} belongs to another user ({status.st_uid})"
    mode = stat.S_IMODE(status.st_mode)
    return f"others may get into {path} (mode {mode:o})" if mode & _OTHERS else ""
