"""Files and folders for their owner only: records may be anybody's secrets, and a umask is the business of a shell.

What is there already keeps its rights; `headwater debug` tells where others have some.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FILE = 0o600
FOLDER = 0o700

_OTHERS = 0o077


def make_folder(path: Path) -> list[Path]:
    """Make a folder and those above it that are not there; the ones made, from the top. Raises OSError."""
    if path.is_dir():
        return []
    made = make_folder(path.parent)
    try:
        path.mkdir(FOLDER)
    except FileExistsError:
        if not stat.S_ISDIR(path.stat().st_mode):  # or a link that leads nowhere, which this says
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return made  # another process was quicker
    path.chmod(FOLDER)
    return [*made, path]


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: a file that is made is the owner's only. Raises OSError."""
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


def write_text(path: Path, text: str) -> None:
    """Write a file, in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file."""
    with open(path, "wb", opener=opener) as file:
        file.write(content)


def open_to_others(path: Path) -> str:
    """Who else has rights to what is at `path`, in words; empty where nobody has, or nothing is there."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user ({found.st_uid})"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may get into {path} (mode {mode:o})" if mode & _OTHERS else ""
