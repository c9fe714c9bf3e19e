"""The process file beside an application's stores on a client: whose they are, and an id that outlives restarts.

The owner is a process of the operating system (with Spark: the JVM that has the workers), named by boot, pid and start
time, as pids are used again. Its ownership ends when it is gone, which may be some time after the driver that holds the
lock of the directory was killed. The process id stays with the directory, so that a client is known again.

The incarnation says of which commits the stores were made. An application that is started anew gets another one, so
what lies on machines that were not reached meanwhile does not pass for state of its successor. The log's id says where
those commits are: so a log that is missing does not pass for a new one (see `known_log`).
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from ...private_files import make_folder
from ...unusable_paths import unusable_paths_told
from ..tasks.errors import LockError
from .machine import boot_id, started_at
from .whole_files import write_whole

PATIENCE_S = 60.0
"""How long to wait for the JVM of a killed driver: it notices at once, and then shuts down."""

_NAME = ".process.json"
_POLL_S = 0.05
_CLOCK_TOLERANCE_S = 2.0
"""A start time is derived from the boot time, which moves when the clock is set."""


@dataclass(frozen=True)
class Owner:
    """A process of the operating system. `started`: seconds since 1970."""

    boot_id: str
    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process that has this pid now, or None."""
        started = started_at(pid)
        return None if started is None else cls(boot_id(), pid, started)

    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        started = started_at(self.pid)
        return self.boot_id == boot_id() and started is not None and abs(started - self.started) < _CLOCK_TOLERANCE_S


@dataclass(frozen=True)
class ProcessFile:
    """What the file of a client says. `incarnation`: of the application, `log`: see `Log.identity`; empty where none
    is known. `closed`: whether the last owner came to its end as it should, with all stores closed.
    """

    process_id: str
    owner: Owner
    incarnation: str = ""
    log: str = ""
    closed: bool = False

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Whether a directory has one, be it readable or not."""
        return (directory / _NAME).is_file()

    @classmethod
    @unusable_paths_told
    def read(cls, directory: Path) -> Self | None:
        """The file of a directory; None when there is none or it cannot be understood.

        Fields of later versions are passed over.
        """
        try:
            content = json.loads((directory / _NAME).read_text())
            owner = content["owner"]
            return cls(
                str(uuid.UUID(content["process_id"])),
                Owner(str(owner["boot_id"]), int(owner["pid"]), float(owner["started"])),
                str(content.get("incarnation", "")),
                str(content.get("log", "")),
                content.get("closed") is True,
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def take(cls, directory: Path, owner: Owner) -> Self:
        """Make `owner` the owner of a directory, under the process id that it has, or a new one.

        Whoever owned it must be gone: see `Owner.is_alive`.
        """
        found = cls.read(directory)
        return (cls(str(uuid.uuid4()), owner) if found is None else replace(found, owner=owner)).written(directory)

    @unusable_paths_told
    def written(self, directory: Path) -> Self:
        """Put this into the file of a directory, whole or not at all."""
        make_folder(directory)
        write_whole(directory / _NAME, json.dumps(asdict(self)))
        return self

    @classmethod
    def take_over(cls, directory: Path, owner: Owner, patience_s: float = PATIENCE_S) -> Self:
        """As `take`, once the process that owned the directory so far has ended.

        Raises LockError, which names that process, if it still runs after `patience_s` seconds.
        """
        found = cls.read(directory)
        deadline = time.monotonic() + patience_s
        while found is not None and found.owner.pid != owner.pid and found.owner.is_alive():
            if time.monotonic() >= deadline:
                raise LockError(str(directory), found.owner.pid)
            time.sleep(_POLL_S)
        return cls.take(directory, owner)
