"""Paths that Headwater cannot use: OS errors there, raised as MachineError, and links that leave the project.

Such an error means that a foreign file is in the way, permissions are missing, or the disk is full or fails.
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
Result = TypeVar("Result")

_REPORTED = frozenset(
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
    | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE}
)
"""Errors that no caller handles. Callers handle others themselves, such as EEXIST."""


def raises_machine_errors(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator that raises these OS errors as MachineError. Other errors pass unchanged."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in _REPORTED or error.filename is None:
                raise
            raise MachineError.from_error(error) from error

    return call


def in_utf8(path: Path) -> Path:
    """The path, if it is valid UTF-8: Arrow and the stores open no other files. Raises MachineError."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise MachineError(str(path), errno.EILSEQ, "a name in this path is not UTF-8") from None
    return path


def file_kind(mode: int) -> str:
    """The kind of file at a path, for messages: `a folder`, `a pipe`. `mode`: of `os.stat`."""
    kinds = (("a folder", S_ISDIR), ("a pipe", S_ISFIFO), ("a socket", S_ISSOCK), ("a file", S_ISREG))
    return next((name for name, matches in kinds if matches(mode)), "a device")


class OutsideProjectError(OSError):
    """A file of the project is, or lies behind, a symbolic link that leads out of the project. `filename`: its path."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EPERM, "this leads out of the project", name)


def is_outside(root: Path, path: Path) -> bool:
    """Whether a path lies outside the project's folder, directly or through symbolic links."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links, a name with a null character
        return True
