"""The protocol of a log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from .ranges import Columns, Fetched, LogRange, RangeReader, Rewritten
from .segments.segment import Segment

# The id of a log, as bytes. A log gets it when it is made, and a copy keeps it.
#
# A state directory remembers the log that its stores were made of (see `state.directories.process_file`). So a log that
# is missing, not mounted or moved is noticed, and an empty folder in its place is not taken for a new log.

NAME = "log.json"


class LogFileError(LogError):
    """The file with the log's id cannot be read: `path`."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is damaged: it should say which log this is", "put it back from a copy of the log")
        self.path = path


def new_id() -> bytes:
    """The content of the file of a log that is made now."""
    return json.dumps({"id": str(uuid.uuid4())}).encode() + b"\n"


def id_in(content: bytes, path: Path | str) -> str:
    """The id in the content of the file. Raises LogFileError."""
    try:
        return str(uuid.UUID(parsed(content)["id"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFileError(path) from error


# The sequence of an application's commits: numbered from 1. Each is created exactly once, by the first to do so.


class CommitStore(Protocol):
    """Keeps the commits of one application. Implementations must make `create` exclusive and durable.

    Old commits are folded: a snapshot has all that they say, and they are removed. Of each its checksum is kept. So a
    store that was brought forward with a folded commit can still tell whether it belongs to this log, and a reader that
    was suspended can tell a folded commit from one of an application that was fully refreshed.

    `save_snapshot` and `fold` are called in the background, perhaps by a driver that was suspended meanwhile and works
    on an application that was fully refreshed since. So they are told a commit with its identity, and must change
    nothing if there is another commit of that number, or none. This must hold at the moment of the change: a check
    before it is not enough where an application is dropped and begins again under the same names.
    """

    @property
    def application(self) -> str:
        """The application whose commits these are."""
        ...

    def place(self, number: int, *, snapshot: bool = False) -> str:
        """Where commit `number` is kept, or its snapshot, whether or not it is there: for messages."""
        ...

    def create(self, number: int, data: bytes) -> str:
        """Make commit `number` durably, whole or not at all. Returns its identity.

        Raises CommitExistsError if it exists or has existed and was folded, CommitGapError if `number - 1` is not
        there. A writer may be suspended at any place in this method until both have been folded.
        """
        ...

    def read(self, number: int) -> bytes | None:
        """The data of commit `number`; None if it is not there (yet, or any more).

        None also for another commit of a number that was folded: `create` was ended before it could take that back.
        """
        ...

    def identity(self, number: int) -> str | None:
        """The identity of commit `number`, different from that of any other commit of this number; None if it is not
        there.

        A driver asks for it many times a second, so it costs less than reading the commit.
        """
        ...

    def checksum(self, number: int) -> int | None:
        """The crc32 of commit `number`, which may be folded; None if there was no such commit.

        None also for one that was folded more than `KEPT_CHECKSUMS` commits ago.
        """
        ...

    def first(self) -> int:
        """The lowest number of a commit that is there: 1 until some were folded; 0 if there are no commits.

        It may list all of them. It is called again and again only for an application that has no commits.
        """
        ...

    def latest(self) -> int:
        """The highest number; 0 if there are no commits. It may list all of them, so call it only at a start.

        Raises LogError if the commits are known to have been lost: an entry or snapshots are there without commits.
        """
        ...

    def snapshots(self) -> list[int]:
        """The numbers of all snapshots, the newest first, whether they are whole or not."""
        ...

    def read_snapshot(self, number: int) -> bytes | None:
        """The data of a snapshot; None if it is not there any more."""
        ...

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """Keep the folded state after commit `number` durably: before this returns, whole or not at all. It takes the
        place of a snapshot of this number.

        `identity`: of that commit. If that is not there, nothing is done. Returns whether the snapshot is kept.
        """
        ...

    def fold(self, before: int, identity: str) -> None:
        """Remove the commits and the snapshots before `before`, which is the number of a commit and of a snapshot, and
        snapshots whose commit is not there.

        `identity`: of that commit. If that is not there, nothing is done. In this order, so that it may end at any
        place and be called again: the checksums of the commits are durable; the snapshots go; the commits go, the
        lowest first. A checksum that was kept once is never replaced.
        """
        ...


KEPT_CHECKSUMS = 10_000_000
"""At least the checksums of so many commits are kept, which at 4 bytes are 40 MB: of two months at 500 ms."""


@dataclass(frozen=True)
class LastCommit:
    """The last commit that a state was made of: its number (0: of none), identity and crc32."""

    number: int
    identity: str | None
    checksum: int

    def is_kept_in(self, commits: CommitStore) -> bool:
        """Whether it is there; if not, it was folded, and there are later ones.

        Raises FullyRefreshedError if there are other commits in their place.
        """
        if not self.number:
            return not commits.first()
        identity = commits.identity(self.number)
        if identity == self.identity:
            return True
        if commits.read(self.number) is None and commits.checksum(self.number) == self.checksum:
            return False
        raise FullyRefreshedError(commits.application)


# The one name by which other packages know segments, so that only the log knows in which files records lie.

Listed = Segment
"""Records that were written, as a commit lists them. Only the log knows what is in it; others pass it on."""


# What a log is to all other modules: commits of applications, and records that commits list.
#
# Data exists once a commit lists it. So writing records makes nothing visible, and removing records that no commit
# lists loses nothing. Readers get ranges of records from `LogState`.


@dataclass(frozen=True)
class LogFile:
    """A file of records, listed by a commit or not. `modified`: ms since 1970, by the clock of the file's host.

    `size`: bytes.
    """

    path: str
    modified: int
    size: int = 0


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

    def remove_leftovers(self) -> None:
        """Remove what processes left behind that ended in the midst of something, once it is certain that they have.

        `check` does this too; runs that last call it every few minutes. Raises OSError, MachineError, LogError.
        """
        ...

    def identity(self) -> str:
        """The log's id. A log gets it when `check` is first called, and its copies keep it.

        Empty if there is no log yet, or if the log has no ids: a missing log is then not noticed. Raises LogError.
        """
        ...

    def look_seconds(self) -> float:
        """How long a driver waits between two looks for commits of others, in seconds.

        0, where a look costs nothing: it then looks many times a second. What a driver sees later, it reads and
        commits later; nothing else depends on it.
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

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Listed, ...]:
        """Write records durably that are to take the place of others, in one file. The returned value, one for each
        part, is listed by a `RewriteRecord`.

        `name`: see `rewritten_file_name`. The records have the columns that `read` gives, and all parts the same, but
        for `_headers`. If no part has records, nothing is written. Raises FileExistsError if the name is taken.
        """
        ...

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`. `within`: a range that a `LogState` of this log has returned."""
        ...

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """See `RangeReader.ahead`."""
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

        It is written about once a second, or every fifth look (`look_seconds`), and need not be durable. Nothing but
        what people are shown depends on it. Raises OSError, MachineError, LogError.
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
        """When the application was paused, ms since 1970; None if it is not. Asked twice a second, or as often as
        `look_seconds` says."""
        ...


class Writer(Protocol):
    """Writes records of a log. Used by one thread."""

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Listed, ...]:
        """As `Log.write`, but the records need not be durable before `sync`."""
        ...

    def sync(self) -> None:
        """Make all durable that was written: no commit may list it before. Raises OSError, MachineError, LogError."""
        ...


class BatchingLog(Protocol):
    """A `Log` for which it is less work to make several files durable at once. Other logs lack the method."""

    def writer(self) -> AbstractContextManager[Writer]:
        """A writer for an epoch. What was not synced at the end need not stay."""
        ...


def writer_of(log: Log) -> AbstractContextManager[Writer]:
    """A writer of any log."""
    making = getattr(log, "writer", None)
    return cast(BatchingLog, log).writer() if callable(making) else nullcontext(_OneByOne(log))


class _OneByOne:
    """The writer of a log that has none."""

    def __init__(self, log: Log) -> None:
        self.write = log.write

    def sync(self) -> None:
        """See `Writer.sync`: all is durable."""


def epoch_file_name(incarnation: str, generation: int, epoch: int, task: TaskKey, attempt: int) -> str:
    """The name under which a task writes in one attempt of an epoch. It is unique among all writers."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-e{epoch}-{task.subtopology}-{task.partition}-a{attempt}"


def rewritten_file_name(incarnation: str, generation: int, unique: str) -> str:
    """The name of a file that takes the place of others. `unique`: among those of its generation."""
    prefix = f"{incarnation[:8]}-" if incarnation else ""
    return f"{prefix}g{generation}-m-{unique}"


def snapshot_path(application: str, store: str, name: str) -> str:
    """The path of a snapshot of a store. `application`: its place, see `placed`. `name`: see `snapshot_name`."""
    return f"snapshots/{application}/{store}/{name}.snap"


def snapshot_name(incarnation: str, generation: int, partition: int, unique: str) -> str:
    """The name of a snapshot that a driver asks for. `unique`: among those of its generation."""
    return f"{incarnation[:8]}-g{generation}-s{partition}-{unique}"
