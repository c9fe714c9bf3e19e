"""The process file of an application's directory on a client: its owner, and fencing by it."""

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

# The process file: the owner of an application's stores on a client, and an id that survives restarts.
#
# The owner is a process of the operating system (with Spark: the JVM that runs the workers). It is identified by boot,
# pid and start time, because pids are reused. It owns the directory until it ends, which may be some time after the
# driver with the directory's lock was killed. The process id belongs to the directory, so a client keeps its identity.
#
# The incarnation identifies the commits that the stores were made from. A full refresh gives an application a new one.
# So stores on a machine that was unreachable then are not taken for current state. The log's id identifies the log with
# those commits. So a missing log is not taken for a new one (see `check_same_log`).

PATIENCE_S = 60.0
"""How long to wait for the JVM of a killed driver, in seconds. It detects the end at once and then shuts down."""

FORMAT = 1
"""The newest format of an application's stores on a client. A version with another layout of rows or files increments
it, so that earlier versions reject them. A file without a number has format 1.
"""

_NAME = ".process.json"
_POLL_S = 0.05
_CLOCK_TOLERANCE_S = 2.0
"""Tolerance for start times since 1970. They are derived from the boot time, which changes when the clock is set."""
_SINCE_1970 = 1e9
"""A greater start time was written by an earlier version, in seconds since 1970."""


class NewerStateError(HeadwaterError):
    """The stores of a directory have the format of a newer version of Headwater: `path`, `format`."""

    def __init__(self, path: Path, format_: object) -> None:
        super().__init__(
            f"the stores in {path} are of format {format_}, this version reads formats up to {FORMAT}",
            "run it with the version that wrote them; or drop them, to be restored from the log: "
            "headwater clean --state",
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
    def from_pid(cls, pid: int) -> Self | None:
        """The current process with this pid, or None."""
        started = started_at(pid)
        return None if started is None else cls(boot_id(), pid, started)

    def is_alive(self) -> bool:
        """Whether this very process is still running."""
        started = started_at(self.pid, since_1970=self.started > _SINCE_1970)
        return self.boot_id == boot_id() and started is not None and abs(started - self.started) < _CLOCK_TOLERANCE_S


@dataclass(frozen=True)
class ProcessFile:
    """The content of a process file.

    `incarnation`: of the application. `log`: see `Log.identity`. Both are empty if unknown. `closed`: whether the last
    owner closed all stores and ended properly. `assignment`: the number of the client's newest assignment, see `fence`.
    """

    process_id: str
    owner: Owner
    incarnation: str = ""
    log: str = ""
    closed: bool = False
    assignment: int = 0

    @staticmethod
    def exists_in(directory: Path) -> bool:
        """Whether a directory has a process file, readable or not."""
        return (directory / _NAME).is_file()

    @classmethod
    @raises_machine_errors
    def read(cls, directory: Path) -> Self | None:
        """The process file of a directory; None if it is missing or cannot be read.

        Fields of later versions are ignored. Raises NewerStateError.
        """
        try:
            with open(f"{directory}/{_NAME}", "rb") as file:  # every epoch of every task reads it
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
        """Make `owner` the owner of a directory. The process id stays; a directory without one gets a new one.

        The previous owner must have ended: see `Owner.is_alive`.
        """
        file = cls.read(directory)
        return (cls(str(uuid.uuid4()), owner) if file is None else replace(file, owner=owner)).write(directory)

    @raises_machine_errors
    def write(self, directory: Path) -> Self:
        """Write this as the process file of a directory, atomically. Returns self."""
        make_folder(directory)
        content = {"format": FORMAT, **vars(self), "owner": vars(self.owner)}
        write_whole(directory / _NAME, json.dumps(content))
        return self

    @classmethod
    def take_over(cls, directory: Path, owner: Owner, patience_s: float = PATIENCE_S) -> Self:
        """Like `take`, but wait for the end of the previous owner.

        Raises LockError with that process if it still runs after `patience_s` seconds.
        """
        file = cls.read(directory)
        deadline = time.monotonic() + patience_s
        while file is not None and file.owner.pid != owner.pid and file.owner.is_alive():
            if time.monotonic() >= deadline:
                raise LockError(str(directory), file.owner.pid)
            time.sleep(_POLL_S)
        return cls.take(directory, owner)


# Fences jobs of earlier assignments from a client's stores.
#
# A job may start late: its executor was suspended, or Spark has started it on another one. So each plan names its
# client process and its assignment. The process file has the directory's current client process and its newest
# assignment. The driver would commit nothing of an outdated plan anyway; the fence keeps it from touching the stores.


def fence(directory: Path, process_id: str, assignment: int) -> None:
    """Reject work unless it is for the client process of the directory, and for its newest assignment.

    A newer assignment than the one in the process file is written there. Raises WrongClientError, OldAssignmentError.
    """
    if _fenced_file(directory, process_id, assignment).assignment == assignment:
        return
    with update_lock(directory):  # a newer assignment fences all older ones from here on
        file = _fenced_file(directory, process_id, assignment)
        if file.assignment < assignment:
            replace(file, assignment=assignment).write(directory)


@contextmanager
def update_lock(directory: Path) -> Iterator[None]:
    """Lock the process file for a read and a write. Other processes wait."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _fenced_file(directory: Path, process_id: str, assignment: int) -> ProcessFile:
    file = ProcessFile.read(directory)
    if file is None or file.process_id != process_id:
        raise WrongClientError(str(directory), process_id, None if file is None else file.process_id)
    if file.assignment > assignment:
        raise OldAssignmentError(str(directory), assignment, file.assignment)
    return file
