"""Paths at which something else lies than Headwater put there, or that it may not use, and disks that are full or fail:
told with their way out."""

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
"""Those that no caller has an answer to. Others, such as a file that is there already, mean something to callers."""


def unusable_paths_told(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A decorator: what the system says of such a path is raised as a MachineError; other errors pass."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in _TOLD or error.filename is None:
                raise
            raise MachineError.of(error) from error

    return call
