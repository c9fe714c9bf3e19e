"""What a log is to all other modules: commits of applications, and records that commits list.

Data exists once a commit lists it. So writing records makes nothing visible, and removing records that no commit lists
loses nothing. Readers get ranges of records from `LogState`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..task_id import TaskKey
from .commit_records import Listed
from .commits import CommitStore
from .ranges import Fetched, LogRange


@dataclass(frozen=True)
class LogFile:
    """A file of records, listed by a commit or not. `modified`: ms since 1970, by the clock of the file's host."""

    path: str
    modified: int


@dataclass(frozen=True)
class SavedFile:
    """A file of the log that no records are in. `size`: bytes. `checksum`: their crc32."""

    path: str
    size: int
    checksum: int


class Log(Protocol):
    """Keeps the topics of a project's applications. Many threads may use one instance.

    Paths are relative to the log, with `/`.
    """

    def check(self) -> None:
        """Check that a log can be kept at this place. Raises LogError. A run calls it before all else."""
        ...

    def identity(self) -> str:
        """The log's id. A log gets it when `check` is first called, and its copies keep it.

        Empty if there is no log yet, or if the log has no ids: a missing log is then not noticed. Raises LogError.
        """
        ...

    def applications(self) -> list[str]:
        """The applications that have committed something, by name."""
        ...

    def commits(self, application: str) -> CommitStore:
        """The commits of an application, even of one that has not started."""
        ...

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Listed, ...]:
        """Write the records of `table` durably. They exist once a commit of the application lists the returned value.

        `name`: unique among all writes to a topic. `partitions`: the partition of all rows or of each; rows of a
        partition keep their order. The table has the columns of `schema.topic_schema` or of `schema.CHANGELOG`. Without
        rows, nothing is written. Raises FileExistsError if the name is taken.
        """
        ...

    def read(
        self, within: LogRange, start: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Fetched]:
        """See `RangeReader.read`. `within`: a range that a `LogState` of this log has returned."""
        ...

    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        """Keep a file durably. `fill` writes it: a new file at the local path that it is given.

        `path`: see `snapshot_path`. The file exists once a commit lists it. Raises FileExistsError if the path is
        taken, OSError, and what `fill` raises.
        """
        ...

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        """The content of a file from a byte on, in pieces, each until the next is asked for. Whether it is what was
        saved, the reader sees from its size and checksum. Raises SavedFileError if it cannot be read.
        """
        ...

    def files(self, application: str) -> Iterator[LogFile]:
        """All files of an application with records or snapshots of stores, listed or not."""
        ...

    def remove(self, path: str) -> None:
        """Remove one of `files`. It is no error if the file is gone already."""
        ...

    def drop(self, application: str) -> None:
        """Remove an application: its commits first, then its records. It must not be running."""
        ...

    def write_status(self, application: str, status: str) -> None:
        """Keep a text in place of the one before, for people who look at a run: readers find it whole or not at all.

        It is written about once a second and need not be durable. Nothing but what people are shown depends on it.
        Raises OSError, MachineError.
        """
        ...

    def read_status(self, application: str) -> str | None:
        """The text that `write_status` was given last; None if there is none."""
        ...

    def pause(self, application: str) -> None:
        """Keep, durably, that an application is paused: its driver looks at it. It stays so until `resume`, whatever
        becomes of the application's commits. Raises OSError, MachineError."""
        ...

    def resume(self, application: str) -> None:
        """The application is not paused any more. No error if it was not. Raises OSError, MachineError."""
        ...

    def paused_since(self, application: str) -> int | None:
        """When the application was paused, ms since 1970; None if it is not. Asked about twice a second."""
        ...


def epoch_file_name(incarnation: str, generation: int, epoch: int, task: TaskKey, attempt: int) -> str:
    """The name under which a task writes in one attempt of an epoch. It is unique among all writers."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-e{epoch}-{task.subtopology}-{task.partition}-a{attempt}"


def snapshot_path(application: str, store: str, name: str) -> str:
    """The place of a snapshot of a store. `name`: see `snapshot_name`."""
    return f"snapshots/{application}/{store}/{name}.snap"


def snapshot_name(incarnation: str, generation: int, partition: int, unique: str) -> str:
    """The name of a snapshot that a driver asks for. `unique`: among those of its generation."""
    return f"{incarnation[:8]}-g{generation}-s{partition}-{unique}"
