"""What a log is to everything else: commits of applications, and records that commits list.

Data exists once a commit lists it. So writing records makes nothing visible, and removing those that no commit lists
takes nothing away. Whoever wants to read them gets ranges of them from `LogState`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .commits import CommitStore
from .ranges import Fetched, LogRange
from .records import Listed


@dataclass(frozen=True)
class LogFile:
    """A file of records as it lies there, listed by a commit or not. `modified`: ms since 1970, by the file's host."""

    path: str
    modified: int


class Log(Protocol):
    """Where the topics of a project's applications live. One instance may be used by many threads.

    Paths are relative to the log, with `/`.
    """

    def check(self) -> None:
        """Make sure, before anything starts, that the place can hold a log. Raises LogError."""
        ...

    def identity(self) -> str:
        """What tells this log from any other. A log gets it when `check` is first called, and its copies keep it.

        Empty where there is no log yet, and in a log that cannot tell: then one that is missing is not noticed. Raises
        LogError.
        """
        ...

    def applications(self) -> list[str]:
        """The applications that have committed something, by name."""
        ...

    def commits(self, application: str) -> CommitStore:
        """The commits of an application, of one that has not started too."""
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
        """Write the records of `table`, durably; what a commit of the application lists so that they exist.

        `name`: no two writes to a topic have the same. `partitions`: the partition of all rows or of each; rows of a
        partition keep their order. The table has the columns of `schema.topic_schema` or of `schema.CHANGELOG`. Without
        rows, nothing is written. Raises FileExistsError if the name is taken.
        """
        ...

    def read(
        self, within: LogRange, start: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Fetched]:
        """See `RangeReader.read`. `within`: given out by `LogState`, for commits of this log."""
        ...

    def files(self, application: str) -> Iterator[LogFile]:
        """All files of records of an application, listed or not."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file of records; one that is gone already is no error."""
        ...

    def drop(self, application: str) -> None:
        """Forget an application: its commits first, then its records. Nobody may be running it."""
        ...


def epoch_file_name(
    incarnation: str, generation: int, epoch: int, subtopology: str, partition: int, attempt: int
) -> str:
    """The name under which a task writes in one try of an epoch; no two writers ever have the same."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-e{epoch}-{subtopology}-{partition}-a{attempt}"
