"""Errors of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError, MachineError
from .commit.descriptions import declaration_text

_DAMAGED = "put the files of the log back from a copy; `headwater log verify` says what else can be done"

_PUT_BACK = "put the file back from a copy of the log"
_DROP = "or drop these records: headwater log repair --drop-unreadable"
_UNREADABLE = f"{_PUT_BACK}; {_DROP}"


def lost_records_hint(application: str, topic: str, seeded: bool | None) -> str:
    """The hint for missing or damaged records of an application: remedies, the best first.

    `seeded`: whether the topic has a seed, None if that is not known.
    """
    if not application.endswith("-seed"):
        again = f"or rebuild them: {refresh_of(application)}; "
    elif seeded is False:
        again = ""
    else:
        condition = "" if seeded else ", if it has a seed,"
        again = f"or{condition} write the topic again: headwater seed {topic} --full-refresh; "
    return f"{_PUT_BACK}; {again}{_DROP}"


def lost_commits_hint(application: str, put_back: str = "", left: str = "") -> str:
    """The hint for missing or damaged commits of an application: remedies, the best first.

    `put_back`: the first remedy. `left`: files of the application of external topics in the log, which must be removed
    before it can restart.
    """
    first = put_back or "put the files of the log back from a copy"
    if application.startswith("~"):  # it maps applications to their names in the log
        return f"{first}: it cannot be rebuilt; `headwater log verify` lists what else is damaged"
    if not application.endswith("-seed"):
        return f"{first}; or restart it: {refresh_of(application)}"
    left = left or f"commits/{application} and applications/{application} in the log"
    return (
        f"{first}; or drop all seeded and appended records: remove {left}, then headwater build --full-refresh "
        "seeds again and restarts the topologies that read them"
    )


def refresh_of(application: str) -> str:
    """The command that restarts a topology and all topologies that read from it."""
    return f"headwater build --full-refresh --select '{application.partition('-')[2]}+'"


class LogError(HeadwaterError):
    """Base class of the log's errors."""


class CommitExistsError(LogError):
    """The commit exists already: another driver has taken over, or another append was first."""

    def __init__(self, application: str, number: int) -> None:
        super().__init__(f"commit {number} of {application} exists already")
        self.application = application
        self.number = number


class CommitGapError(LogError):
    """The commit before the one to create is missing: the application was fully refreshed meanwhile."""

    def __init__(self, application: str, number: int) -> None:
        super().__init__(f"cannot create commit {number} of {application}: there is no commit {number - 1}")


class CommitFormatError(LogError):
    """A commit or snapshot that this version cannot read. `found`: its format; None if it is no commit."""

    def __init__(self, found: object, supported: int) -> None:
        if found is None:
            super().__init__("not a commit record")
        else:
            super().__init__(
                f"the log was written in format {found}, this version reads formats up to {supported}",
                hint="use the version of Headwater that wrote it, or restart with --full-refresh",
            )
        self.found = found
        self.supported = supported


class CommitDamagedError(LogError):
    """A commit was changed, or is missing although later ones exist. `what`: the damage. `path`: of the commit."""

    def __init__(self, application: str, number: int, what: str, path: str) -> None:
        super().__init__(f"commit {number} of {application} is {what}: {path}", hint=lost_commits_hint(application))
        self.application = application
        self.number = number
        self.path = path


class SnapshotsDamagedError(LogError):
    """No snapshot of folded commits can be read. `snapshots`: their numbers, newest first, or empty.

    `first`: the first commit that is not folded.
    """

    def __init__(self, application: str, snapshots: Sequence[int], first: int) -> None:
        numbers = ", ".join(map(str, snapshots))
        what = f"no snapshot can be read ({numbers})" if snapshots else "the snapshots are missing"
        super().__init__(
            f"the commits of {application} before {first} are only in its snapshots, and {what}",
            hint=lost_commits_hint(application),
        )
        self.snapshots = tuple(snapshots)
        self.first = first


class CommitsMissingError(LogError):
    """All commits of an application are missing without a `--full-refresh`.

    They were in `folder`. The application's `entry` or snapshots still exist.
    """

    def __init__(self, application: str, folder: Path | str, entry: Path | str | None) -> None:
        left = str(folder) if entry is None else f"{entry} and {folder}"
        super().__init__(
            f"the commits of {application} are missing: {folder} was removed or emptied",
            lost_commits_hint(application, f"put {folder} back from a copy of the log", left),
        )
        self.entry = entry


class FullyRefreshedError(LogError):
    """The commits of a loaded state do not exist any more: the application was fully refreshed."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"{application} was fully refreshed, while its earlier commits were in use",
            hint="run this again",
        )
        self.application = application


class GenerationError(LogError):
    """A driver of an old generation commits: another driver has taken over."""

    def __init__(self, application: str, current: int, found: int) -> None:
        super().__init__(f"{application} is in generation {current}, a driver of generation {found} must stop")
        self.current = current
        self.found = found


class CommitOrderError(LogError):
    """A commit does not continue the previous ones: the log is damaged."""

    def __init__(self, number: int, topic: str, partition: int, expected: int, found: int) -> None:
        super().__init__(
            f"commit {number} puts records of {topic}, partition {partition}, at {found} where {expected} comes next",
            hint=_DAMAGED,
        )
        self.number = number
        self.expected = expected
        self.found = found


class SegmentsChangedError(LogError):
    """The records to replace are not listed any more: they were replaced or removed meanwhile.

    `start`, `end`: offsets; the end is exclusive.
    """

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(
            f"the records of {topic}, partition {partition}, with offsets {start} to {end - 1} were replaced meanwhile",
            hint="try again",
        )
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end


class RewriteOrderError(LogError):
    """A commit replaces records that the previous commits do not list: the log is damaged."""

    def __init__(self, number: int, missing: SegmentsChangedError) -> None:
        super().__init__(
            f"commit {number} replaces records of {missing.topic}, partition {missing.partition}, with offsets "
            f"{missing.start} to {missing.end - 1}, which are not there",
            hint=_DAMAGED,
        )


@dataclass(frozen=True)
class OffsetRange:
    """Records of a partition with offsets from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        offsets = f"offset {self.start}" if self.end - self.start == 1 else f"offsets {self.start} to {self.end - 1}"
        return f"{self.topic}, partition {self.partition}, {offsets}"


class SegmentError(LogError):
    """Base class of errors for committed records that cannot be read. `path`: of the file. `what`: the problem.

    `location`: the records; None if only the file is known.
    """

    def __init__(self, path: str, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.path = path
        self.what = what
        self.location: OffsetRange | None = None

    def set_location(self, location: OffsetRange) -> None:
        """Add the records to the message, for callers that know them."""
        self.location = location
        self.message = f"{location}, cannot be read: {self.what}"
        if self.hint == _UNREADABLE:
            writer = self.path.removeprefix("segments/").partition("/")[0]
            hint = lost_records_hint(writer, location.topic, seeded=None)
            self.hint = f"{hint}; `headwater log verify` lists all that is damaged"


class RangeMissingError(SegmentError):
    """Records that a commit lists are missing: they were replaced (reload the commits and try again), or deleted.

    `path`: of the file with them.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, f"segment {path} is missing from the log", _UNREADABLE)


class CorruptSegmentError(SegmentError):
    """The bytes of a segment differ from the committed ones. `batch`: its number; None for the schema."""

    def __init__(self, path: str, batch: int | None) -> None:
        part = "the schema" if batch is None else f"batch {batch}"
        super().__init__(path, f"{part} of segment {path} is damaged", _UNREADABLE)
        self.batch = batch


class MissingColumnsError(SegmentError):
    """A segment lacks columns of a reader: it was written when the topic had other columns."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        super().__init__(
            path,
            f"segment {path} has no column {', '.join(columns)}",
            hint="the topic was written with other columns; restart its writer with --full-refresh",
        )
        self.columns = tuple(columns)


class ColumnTypeError(SegmentError):
    """The stored type of a column cannot be read as the wanted type without loss.

    The topic was changed after its reader started: types are checked at a start.
    """

    def __init__(self, path: str, column: str, stored: str, wanted: str) -> None:
        name = column.removeprefix("value.")
        super().__init__(
            path,
            f"their column {name} is {stored} in segment {path}, and is read as {wanted}",
            hint="the topic's columns were changed meanwhile: restart its readers with the current project",
        )


class UnreadableFileError(MachineError):
    """The operating system reports an error for committed records, at `location`. See also MachineError."""

    def __init__(self, location: OffsetRange, error: MachineError) -> None:
        super().__init__(error.path, error.errno, "")
        self.message = f"{location}, cannot be read: {error.message}"
        self.what = error.message
        self.hint = error.hint


class RecordsTooLargeError(MachineError):
    """Not enough memory for committed records, at `locations`.

    `size`: bytes in the log, if known. See also MachineError.
    """

    def __init__(self, locations: Sequence[OffsetRange], size: int | None, error: MemoryError) -> None:
        machine_error = MachineError.from_error(error)
        super().__init__(None, machine_error.errno, "")
        size_text = "" if size is None else f" ({size:,} bytes in the log)"
        self.message = f"{machine_error.message} for the records of {'; '.join(map(str, locations))}{size_text}"
        self.hint = machine_error.hint


class UnsupportedFileSystemError(LogError):
    """A file system that cannot store commits: it cannot create a file exclusively."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(
            f"{path} cannot hold a log: hard links do not work there ({cause})",
            hint="put the log on a local file system",
        )


class SeedError(LogError):
    """Invalid records of a seed or append. `source`: the file or function. `location`: the line or row, if known."""

    def __init__(
        self, source: str, cause: str, location: str | None = None, column: str | None = None, hint: str | None = None
    ) -> None:
        where = ", ".join(filter(None, (source, location, column and f"column {column}")))
        super().__init__(f"{where}: {cause}", hint)
        self.source = source
        self.location = location
        self.column = column
        self.cause = cause


class SeedChangedError(LogError):
    """A seed differs from the committed one, which may have been processed. `difference`: as a text for users."""

    def __init__(self, topic: str, source: str, difference: str) -> None:
        super().__init__(
            f"the seed of {topic} has changed since it was committed: {source}: {difference}",
            hint=f"put it back as it was, or {_seed_again(topic)}",
        )


class SeededMeanwhileError(LogError):
    """Another process has seeded the topic since this seed was compared with the committed one."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} has been seeded meanwhile", hint="try again")


def read_to_append(topic: str) -> str:
    """The command that prints the records of a topic for an append to another one (`headwater seed --append`)."""
    return f"headwater read {topic} --format json | jq -c 'del(.partition)'"


class TopicChangedError(LogError):
    """The declaration of a topic has changed since its records were written. `was`, `is_`: the differences, by field.

    `writer`: the application that writes it, None for an external topic; `seeded`: whether that has a seed. `movable`:
    whether a run can move the records to their new partitions.
    """

    def __init__(
        self,
        topic: str,
        was: Mapping[str, object],
        is_: Mapping[str, object],
        writer: str | None,
        seeded: bool,
        movable: bool = False,
    ) -> None:
        if movable:
            remedy = f"run the topologies that read it, which moves its records: headwater run --select '{topic}+'"
        elif writer is not None:
            remedy = f"restart its writer: headwater run --full-refresh --select '{writer.partition('-')[2]}+'"
        elif seeded:
            remedy = _seed_again(topic)
        else:
            remedy = (
                f"copy its records to a topic of another name: {read_to_append(topic)} | headwater seed OTHER --append"
            )
        super().__init__(
            f"{topic} had another declaration when its records were written: {declaration_text(was, is_)}",
            hint=f"declare it as it was, or {remedy}",
        )
        self.topic = topic
        self.was = dict(was)
        self.is_ = dict(is_)
        self.writer = writer
        self.seeded = seeded


def _seed_again(topic: str) -> str:
    return (
        f"seed it again: headwater seed {topic} --full-refresh, which also restarts its readers; "
        "records appended to it stay, after the seed"
    )


class SavedFileError(LogError):
    """A file of the log is missing or damaged."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path} of the log cannot be used: {cause}")
        self.cause = cause
