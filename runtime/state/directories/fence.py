"""Keeps work away from a client's stores that is not the client's any more.

A job may begin late: its executor was suspended, or Spark has started it somewhere else. So each plan names the client
process and the assignment that it was made for. The process file of the state directory tells whose the directory is
now, and the number of the newest assignment that the client has worked for. The driver commits nothing of such a plan
either way; this keeps it from doing anything at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...tasks.errors import OldAssignmentError, WrongClientError
from .process_file import ProcessFile


def refuse_others(directory: Path, process_id: str, assignment: int) -> None:
    """Go on only for the client process that has the directory, and for its newest assignment.

    Raises WrongClientError, OldAssignmentError.
    """
    if _refused(directory, process_id, assignment).assignment == assignment:
        return
    with changing(directory):  # a newer assignment: work for older ones is refused from here on
        found = _refused(directory, process_id, assignment)
        if found.assignment < assignment:
            replace(found, assignment=assignment).written(directory)


@contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Read and write the process file with no other process in between that does so too."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _refused(directory: Path, process_id: str, assignment: int) -> ProcessFile:
    found = ProcessFile.read(directory)
    if found is None or found.process_id != process_id:
        raise WrongClientError(str(directory), process_id, None if found is None else found.process_id)
    if found.assignment > assignment:
        raise OldAssignmentError(str(directory), assignment, found.assignment)
    return found
