"""Files that say which process holds a directory."""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ...errors import HeadwaterError
from ...private_files import make_folder
from ...unusable_paths import raises_machine_errors
from ..dataclass_json import parsed
from ..tasks.errors import LockError, OldAssignmentError, WrongClientError
from .machine import boot_id, started_at
from .offset_checkpoint import write_whole

# The process file beside an application's stores on a client: who owns them, and an id that survives restarts.
#
# The owner is a process of the operating system (with Spark: the JVM that runs the workers). It is identified by boot,
# pid and start time, because pids are reused. Its ownership ends when it is gone, which may be some time after the
# driver that holds the directory's lock was killed. The process id belongs to the directory, so that a client is
# recognized again.
#
# The incarnation says which commits the stores were made of. An application that is fully refreshed gets a new
# one. So stores on machines that could not be reached then are not taken for its state. The log's id says where
# those commits are. So a missing log is not taken for a new one (see `known_log`).

PATIENCE_S = 60.0
"""How long to wait for the JVM of a killed driver, in seconds. It notices the end at once and then shuts down."""

FORMAT = 1
"""The newest form of an application's stores on a client. A version that lays out their rows or files in another way
raises it, so that earlier ones leave them alone. A file without a number is of form 1.
"""

_NAME = ".process.json"
_POLL_S = 0.05
_CLOCK_TOLERANCE_S = 2.0
"""Start times since 1970 are derived from the time of the boot, which changes when the clock is set."""
_SINCE_1970 = 1e9
"""A start time beyond this is one that an earlier version has written, in seconds since 1970."""


class NewerStateError(HeadwaterError):
    """A newer version of Headwater has made the stores of a directory: `path`, `format`."""

    def __init__(self, path: Path, format_: object) -> None:
        super().__init__(
            f"the stores in {path} are of format {format_}, this version reads formats up to {FORMAT}",
            "run it with the version that has made them; or give them up, to be restored from the log: headwater clean "
            "--state",
        )
        self.path = path
        self.format = format_


@dataclass(frozen=True)
class Owner:
    """A process of the operating system. `started`: see `started_at`."""

    boot_id: str
    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process that has this pid now, or None."""
        started = started_at(pid)
        return None if started is None else cls(boot_id(), pid, started)

    def is_alive(self) -> bool:
        """Whether this very process is still running."""
        started = started_at(self.pid, since_1970=self.started > _SINCE_1970)
        return self.boot_id == boot_id() and started is not None and abs(started - self.started) < _CLOCK_TOLERANCE_S


@dataclass(frozen=True)
class ProcessFile:
    """The contents of a client's process file.

    `incarnation`: of the application. `log`: see `Log.identity`. Both are empty if unknown. `closed`: whether the last
    owner ended properly, with all stores closed. `assignment`: the number of the newest assignment that the client has
    worked for, see `fence`.
    """

    process_id: str
    owner: Owner
    incarnation: str = ""
    log: str = ""
    closed: bool = False
    assignment: int = 0

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Whether a directory has a process file, readable or not."""
        return (directory / _NAME).is_file()

    @classmethod
    @raises_machine_errors
    def read(cls, directory: Path) -> Self | None:
        """The file of a directory; None if it is missing or cannot be read.

        Fields of later versions are ignored. Raises NewerStateError.
        """
        try:
            with open(f"{directory}/{_NAME}", "rb") as file:  # each epoch of each task asks it
                content = parsed(file.read())
            if content.get("format", 1) not in range(1, FORMAT + 1):
                raise NewerStateError(directory, content["format"])
            owner = content["owner"]
            return cls(
                str(uuid.UUID(content["process_id"])),
                Owner(str(owner["boot_id"]), int(owner["pid"]), float(owner["started"])),
                str(content.get("incarnation", "")),
                str(content.get("log", "")),
                content.get("closed") is True,
                int(content.get("assignment", 0)),
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def take(cls, directory: Path, owner: Owner) -> Self:
        """Make `owner` the owner of a directory. Its process id stays; a directory without one gets a new one.

        The previous owner must be gone: see `Owner.is_alive`.
        """
        found = cls.read(directory)
        return (cls(str(uuid.uuid4()), owner) if found is None else replace(found, owner=owner)).written(directory)

    @raises_machine_errors
    def written(self, directory: Path) -> Self:
        """Write this to the file of a directory in one step."""
        make_folder(directory)
        content = {"format": FORMAT, **vars(self), "owner": vars(self.owner)}
        write_whole(directory / _NAME, json.dumps(content))
        return self

    @classmethod
    def take_over(cls, directory: Path, owner: Owner, patience_s: float = PATIENCE_S) -> Self:
        """Like `take`, but wait for the end of the previous owner.

        Raises LockError, which names that process, if it still runs after `patience_s` seconds.
        """
        found = cls.read(directory)
        deadline = time.monotonic() + patience_s
        while found is not None and found.owner.pid != owner.pid and found.owner.is_alive():
            if time.monotonic() >= deadline:
                raise LockError(str(directory), found.owner.pid)
            time.sleep(_POLL_S)
        return cls.take(directory, owner)


# Keeps work away from a client's stores that is not the client's any more.
#
# A job may begin late: its executor was suspended, or Spark has started it somewhere else. So each plan names the
# client process and the assignment that it was made for. The process file of the state directory tells whose the
# directory is now, and the number of the newest assignment that the client has worked for. The driver commits nothing
# of such a plan either way; this keeps it from doing anything at all.


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
