"""Paths that Headwater cannot use: errors of the operating system there, raised as MachineError, and links out of a
project.

An error means that something else lies there than Headwater put there, its rights are missing, or the disk is full or
fails.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import ParamSpec, TypeVar

from .errors import MachineError

Given = ParamSpec("Given")
Found = TypeVar("Found")

_TOLD = frozenset(
    {
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENOLINK,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
    }
    | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOLINK}
)
"""Errors that no caller handles. Callers do handle others, such as a file that exists already."""


def unusable_paths_told(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A decorator that raises these errors as MachineError. Other errors pass unchanged."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in _TOLD or error.filename is None:
                raise
            raise MachineError.of(error) from error

    return call


def in_utf8(path: Path) -> Path:
    """The path, below which Arrow and the stores open files. They take names in UTF-8 only. Raises MachineError."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise MachineError(str(path), errno.EILSEQ, "a name in this path is not UTF-8") from None
    return path


def kind_of(mode: int) -> str:
    """What lies at a path that is no regular file, in words. `mode`: of `os.stat`."""
    kinds = (("a folder", S_ISDIR), ("a pipe", S_ISFIFO), ("a socket", S_ISSOCK), ("a file", S_ISREG))
    return next((word for word, is_one in kinds if is_one(mode)), "a device")


class OutsideProjectError(OSError):
    """A file of the project is a symbolic link, or lies behind one, that leads out of the project: `filename`."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EPERM, "this leads out of the project", name)


def leaves(root: Path, path: Path) -> bool:
    """Whether a path leads out of the project's folder, directly or through symbolic links."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links, a name with a null character
        return True
