"""What a log is to everything else: commits of applications, and segments of records that commits list.

Data exists once a commit lists it. So writing a segment makes nothing visible, and removing one that no commit lists
takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .commits import CommitStore
from .records import Segment


@dataclass(frozen=True)
class LogFile:
    """A segment file as it lies there, listed by a commit or not. `modified`: ms since 1970, by the file's host."""

    path: str
    modified: int


class Log(Protocol):
    """Where the topics of a project's applications live. One instance may be used by many threads.

    Paths are relative to the log, with `/`: `segments/<application>/<topic>/<name>.seg`.
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

    def write_segments(
        self,
        path: str,
        topic: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Segment, ...]:
        """Write one file with the records of `table`, durably; its segments, without bases, are for a commit to list.

        `partitions`: the partition of all rows or of each; rows of a partition keep their order. The table has the
        columns of `schema.topic_schema`, or of `schema.CHANGELOG`; without rows, nothing is written. Raises
        FileExistsError if the path is taken.
        """
        ...

    def read_batches(
        self, segment: Segment, batches: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batches with these numbers, ascending (None: all), with these columns (None: all) in this order.

        A column `_headers` is null where no record has headers. Raises SegmentMissingError, CorruptSegmentError,
        MissingColumnsError.
        """
        ...

    def files(self, application: str) -> Iterator[LogFile]:
        """All segment files of an application, listed or not."""
        ...

    def remove(self, path: str) -> None:
        """Remove a segment file; one that is gone already is no error."""
        ...

    def drop(self, application: str) -> None:
        """Forget an application: its commits first, then its segments. Nobody may be running it."""
        ...


def segment_path(application: str, topic: str, name: str) -> str:
    """The path of a segment file of an application."""
    return f"segments/{application}/{topic}/{name}.seg"


def epoch_segment_name(
    incarnation: str, generation: int, epoch: int, subtopology: str, partition: int, attempt: int
) -> str:
    """The name of the file that a task writes in one try of an epoch; no two writers ever have the same."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-e{epoch}-{subtopology}-{partition}-a{attempt}"
