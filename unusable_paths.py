"""Errors of the operating system at paths that Headwater cannot use, raised as MachineError.

Something else lies there than Headwater put there, its rights are missing, or the disk is full or fails.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from .errors import MachineError

Given = ParamSpec("Given")
Found = TypeVar("Found")

_TOLD = frozenset(
    {errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
    | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE}
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
