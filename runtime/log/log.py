"""The protocol of a log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..dataclass_json import parsed
from ..task_id import TaskKey
from .errors import FullyRefreshedError, LogError
from .ranges import RangeReader, Rewritten
from .segments.segment import Segment

# The id of a log. A log gets it when it is created, and a copy keeps it.
#
# A state directory notes the log of its stores (see `state.directories.process_file`). So a log that is missing, not
# mounted or moved is noticed, and an empty folder in its place is not used as a new log.

NAME = "log.json"


class LogFileError(LogError):
    """The file with the log's id cannot be read: `path`."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is damaged: it should say which log this is", "put it back from a copy of the log")


def new_id() -> bytes:
    """The content of the id file for a new log."""
    return json.dumps({"id": str(uuid.uuid4())}).encode() + b"\n"


def id_in(content: bytes, path: Path | str) -> str:
    """The id from the content of the id file. Raises LogFileError."""
    try:
        return str(uuid.UUID(parsed(content)["id"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFileError(path) from error


# The commits of an application are numbered from 1. Each is created exactly once, by the first driver that does it.


class CommitStore(Protocol):
    """Stores the commits of one application. Implementations must make `create` exclusive and durable.

    Old commits are folded: a snapshot contains their whole state, and they are removed. Their checksums are kept. So a
    store that applied a folded commit can still check that it belongs to this log, and a suspended reader can
    distinguish a folded commit from a commit of an application that was fully refreshed.

    `save_snapshot` and `fold` are called in the background, possibly by a driver that was suspended while its
    application was fully refreshed. So they get a commit's identity, and must change nothing if this number has another
    commit or none. This must hold at the moment of the change: a check before it is not enough if the application can
    be dropped and restarted under the same names.
    """

    @property
    def application(self) -> str:
        """The application of these commits."""
        ...

    def path(self, number: int, *, snapshot: bool = False) -> str:
        """The path of commit `number`, or of its snapshot, for messages. It need not exist."""
        ...

    def create(self, number: int, data: bytes) -> str:
        """Create commit `number`, atomically and durably. Returns its identity.

        Raises CommitExistsError if it exists, or existed and was folded, CommitGapError if `number - 1` does not exist.
        A writer may be suspended anywhere in this method until both have been folded.
        """
        ...

    def read(self, number: int) -> bytes | None:
        """The data of commit `number`; None if it does not exist, or not any more.

        None also for a second commit with the number of a folded one: its `create` was killed before it could remove
        it.
        """
        ...

    def identity(self, number: int) -> str | None:
        """The identity of commit `number`, unique among all commits of this number; None if it does not exist.

        Drivers call it many times a second, so it is cheaper than reading the commit.
        """
        ...

    def checksum(self, number: int) -> int | None:
        """The crc32 of commit `number`, folded or not; None if it never existed.

        None also for a commit folded more than `KEPT_CHECKSUMS` commits ago.
        """
        ...

    def first(self) -> int:
        """The number of the first commit that is not folded: 1 before the first folding, 0 without commits.

        It may list all commits. It is polled only for an application without commits.
        """
        ...

    def latest(self) -> int:
        """The highest number; 0 without commits. It may list all commits, so call it only at a start.

        Raises LogError if the commits were lost: the application's entry or snapshots exist without commits.
        """
        ...

    def snapshots(self) -> list[int]:
        """The numbers of all snapshots, newest first, including damaged ones."""
        ...

    def read_snapshot(self, number: int) -> bytes | None:
        """The data of a snapshot; None if it does not exist any more."""
        ...

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """Save the folded state after commit `number`, atomically and durably. It replaces a snapshot of this number.

        `identity`: of that commit. Without that commit, nothing is done. Returns whether the snapshot was saved.
        """
        ...

    def fold(self, before: int, identity: str) -> None:
        """Remove the commits and snapshots before `before`, a number with a commit and a snapshot.

        Snapshots without their commit are removed too. `identity`: of commit `before`. Without that commit, nothing is
        done. The order allows a crash at any point, and another call: the checksums of the commits become durable,
        snapshots are removed, then commits, lowest first. A stored checksum is never replaced.
        """
        ...


KEPT_CHECKSUMS = 10_000_000
"""The least number of checksums that are kept: 40 MB at 4 bytes each, two months at 500 ms."""


@dataclass(frozen=True)
class LastCommit:
    """The last commit that a state includes: its number (0: no commit), identity and crc32."""

    number: int
    identity: str | None
    checksum: int

    def is_kept_in(self, commits: CommitStore) -> bool:
        """Whether the commit exists; if not, it was folded, and later ones exist.

        Raises FullyRefreshedError if the application has other commits now.
        """
        if not self.number:
            return not commits.first()
        identity = commits.identity(self.number)
        if identity == self.identity:
            return True
        if commits.read(self.number) is None and commits.checksum(self.number) == self.checksum:
            return False
        raise FullyRefreshedError(commits.application)


# Other packages use only this name for segments: the log alone knows the files of records.

Listed = Segment
"""Written records, as a commit lists them. Opaque outside of the log."""


# The interface of a log: commits of applications, and records that commits list.
#
# Data exists once a commit lists it. So written records are invisible before, and records that no commit lists can be
# removed. Readers get ranges of records from `LogState`.


@dataclass(frozen=True)
class LogFile:
    """A file of records, listed by a commit or not.

    `modified`: ms since 1970, by the file host's clock. `size`: bytes.
    """

    path: str
    modified: int
    size: int = 0


@dataclass(frozen=True)
class SavedFile:
    """A file of the log without records, such as a store's snapshot.

    `size`: bytes. `checksum`: crc32 of the content.
    """

    path: str
    size: int
    checksum: int


NewRecords = tuple[str, str, pa.Table | pa.RecordBatch, int | npt.NDArray[np.integer], int]
"""The arguments of `RecordWriter.write` after the application."""


class RecordWriter(Protocol):
    """Writes new records."""

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
        /,
    ) -> tuple[Listed, ...]:
        """Write records durably. They exist once a commit of the application lists the returned value.

        `name`: unique among all writes to a topic. `partitions`: one partition for all rows, or one for each row; rows
        of a partition keep their order. `table`: the columns of `schema.topic_schema` or `schema.CHANGELOG`. Without
        rows, nothing is written. Raises FileExistsError if the name is taken.
        """
        ...


class Log(RecordWriter, RangeReader, Protocol):
    """Stores the topics of a project's applications. Thread-safe. `read` takes ranges from a `LogState` of this log.

    Paths are relative to the log, with `/`.
    """

    def check(self) -> None:
        """Check that a log can be stored here. Raises LogError. A run calls it first of all."""
        ...

    def remove_leftovers(self) -> None:
        """Remove temporary files of processes that have certainly ended.

        `check` does this too; long runs call it every few minutes. Raises OSError, MachineError, LogError.
        """
        ...

    def identity(self) -> str:
        """The log's id. A log gets it with the first call of `check`; copies keep it.

        Empty for a log that does not exist yet, or has no ids: a missing log is not noticed then. Raises LogError.
        """
        ...

    def look_seconds(self) -> float:
        """How long a driver waits before it polls for commits of others again, in seconds.

        0 if polls cost nothing: a driver then polls many times a second. The interval affects latency only.
        """
        ...

    def applications(self) -> list[str]:
        """The names of applications with commits, sorted."""
        ...

    def commits(self, application: str) -> CommitStore:
        """The commits of an application, which need not have started."""
        ...

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Listed, ...]:
        """Write replacements of other records durably, in one file.

        A `RewriteRecord` lists the returned values, one for each part. `name`: see `rewritten_file_name`. The records
        have the columns that `read` gives. All parts have the same ones, apart from `_headers`. If no part has records,
        nothing is written. Raises FileExistsError if the name is taken.
        """
        ...

    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        """Save a file durably. `fill` creates it at the local path that it gets.

        `path`: see `snapshot_path`. The file exists once a commit lists it. Raises FileExistsError if the path is
        taken, OSError, and errors of `fill`.
        """
        ...

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        """The content of a file from byte `start` on, in pieces; each is valid until the next.

        The caller checks size and checksum. Raises SavedFileError if it cannot be read.
        """
        ...

    def files(self, application: str) -> Iterator[LogFile]:
        """All files of an application with records or snapshots of stores, listed or not."""
        ...

    def remove(self, path: str) -> None:
        """Remove one of `files`. No error if it does not exist."""
        ...

    def drop(self, application: str) -> None:
        """Remove an application: its commits first, then its records. It must not be running."""
        ...

    def write_status(self, application: str, status: str) -> None:
        """Replace the status text of a run atomically.

        It is written about once a second, or at every fifth poll (`look_seconds`), and need not be durable: it is only
        shown to users. Raises OSError, MachineError, LogError.
        """
        ...

    def read_status(self, application: str) -> str | None:
        """The last text of `write_status`; None if there is none."""
        ...

    def pause(self, application: str) -> None:
        """Mark an application as paused, durably; its driver polls this. It lasts until `resume`, even if the
        application's commits are removed. Raises OSError, MachineError."""
        ...

    def resume(self, application: str) -> None:
        """Remove the mark of `pause`. No error if the application is not paused. Raises OSError, MachineError."""
        ...

    def paused_since(self, application: str) -> int | None:
        """When the application was paused, ms since 1970; None if it is not.

        Called twice a second, or at every poll.
        """
        ...


class Writer(RecordWriter, Protocol):
    """Writes records to a log. They need not be durable before `sync`. Used by one thread."""

    def sync(self) -> None:
        """Make all writes durable. No commit may list them before. Raises OSError, MachineError, LogError."""
        ...


class BatchingLog(Protocol):
    """A `Log` that makes several files durable at once with less work. Other logs lack the method."""

    def writer(self) -> AbstractContextManager[Writer]:
        """A writer for an epoch. Writes without a later `sync` may be lost."""
        ...


def writer_of(log: Log) -> AbstractContextManager[Writer]:
    """A writer for any log."""
    make_writer = getattr(log, "writer", None)
    return cast(BatchingLog, log).writer() if callable(make_writer) else nullcontext(_DurableWriter(log))


class _DurableWriter:
    """The writer for a log without `writer`: each write is durable."""

    def __init__(self, log: Log) -> None:
        self.write = log.write

    def sync(self) -> None:
        """See `Writer.sync`. All writes are durable already."""


def epoch_file_name(incarnation: str, generation: int, epoch: int, task: TaskKey, attempt: int) -> str:
    """The name of the files that a task writes in one attempt of an epoch, unique among all writers."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-e{epoch}-{task.subtopology}-{task.partition}-a{attempt}"


def rewritten_file_name(incarnation: str, generation: int, unique: str) -> str:
    """The name of a file that replaces others. `unique`: within its generation."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-m-{unique}"


def snapshot_path(application: str, store: str, name: str) -> str:
    """The path of a snapshot of a store. `application`: its name in the log. `name`: see `snapshot_name`."""
    return f"snapshots/{application}/{store}/{name}.snap"


def snapshot_name(incarnation: str, generation: int, partition: int, unique: str) -> str:
    """The name of a snapshot that a driver requests. `unique`: within its generation."""
    return f"{incarnation[:8]}-g{generation}-s{partition}-{unique}"
