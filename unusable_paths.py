"""Paths at which something else lies than Headwater put there, or that it may not use, told with their way out."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from .errors import HeadwaterError

Given = ParamSpec("Given")
Found = TypeVar("Found")

_WAYS_OUT = {
    errno.EISDIR: "a folder is where a file belongs: move it away",
    errno.ENOTDIR: "a file is where a folder belongs: move it away",
    errno.ELOOP: "symbolic links lead in a circle there: remove them",
    errno.EACCES: "give this user the right to it, or choose another path in profiles.yml",
    errno.EPERM: "give this user the right to it, or choose another path in profiles.yml",
    errno.EROFS: "it is mounted for reading only: mount it for writing, or choose another path in profiles.yml",
}


class UnusablePathError(HeadwaterError):
    """A file or folder of the log or of a state directory that cannot be used: `path`, `cause`."""

    def __init__(self, path: str, cause: str, way_out: str) -> None:
        super().__init__(f"{path} cannot be used: {cause}", way_out)
        self.path = path
        self.cause = cause


def unusable_paths_told(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A decorator: what the system says of such a path is raised as an UnusablePathError; other errors pass."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            way_out = _WAYS_OUT.get(error.errno or 0)
            if way_out is None or error.filename is None:
                raise
            raise UnusablePathError(os.fsdecode(error.filename), os.strerror(error.errno or 0), way_out) from error

    return call
