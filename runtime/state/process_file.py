"""The process file of a client's state directory: whose stores these are, and a process id that outlives restarts.

The owner is a process of the operating system (with Spark: the executor's JVM), named by boot, pid and start time, as
pids are used again. Its ownership ends when it is gone. The process id is what assignors know the client by: it stays
with the directory, so that tasks come back to where their state is.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from .machine import boot_id, started_at

_NAME = ".process.json"
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
    """What the file of a client says."""

    process_id: str
    owner: Owner

    @classmethod
    def read(cls, client_path: Path) -> Self | None:
        """The file of a client's directory; None when there is none or it cannot be understood.

        Fields of later versions are passed over.
        """
        try:
            content = json.loads((client_path / _NAME).read_text())
            owner = content["owner"]
            return cls(
                str(uuid.UUID(content["process_id"])),
                Owner(str(owner["boot_id"]), int(owner["pid"]), float(owner["started"])),
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def take(cls, client_path: Path, owner: Owner) -> Self:
        """Make `owner` the owner of a client's directory, under the process id that it has, or a new one.

        Whoever owned it must be gone: see `Owner.is_alive`.
        """
        found = cls.read(client_path)
        taken = cls(str(uuid.uuid4()) if found is None else found.process_id, owner)
        client_path.mkdir(parents=True, exist_ok=True)
        temporary = client_path / f"{_NAME}.{os.getpid()}"
        temporary.write_text(json.dumps(asdict(taken)))
        temporary.replace(client_path / _NAME)
        return taken
