"""The errors of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError, MachineError
from .commit.descriptions import declaration_text

_DAMAGED = "put the files of the log back from a copy; `headwater log verify` says what else can be done"

_PUT_BACK = "put the file back from a copy of the log"
_GO_ON = "or go on without: headwater log repair --drop-unreadable"
_UNREADABLE = f"{_PUT_BACK}; {_GO_ON}"


def ways_out_of_lost_records(application: str, topic: str, seeded: bool | None) -> str:
    """What to do about records of an application that are missing or damaged, the best first.

    `seeded`: whether the topic has a seed, None if that is not known.
    """
    if not application.endswith("-seed"):
        again = f"or compute them again: {refresh_of(application)}; "
    elif seeded is False:
        again = ""
    else:
        condition = "" if seeded else ", if it has a seed,"
        again = f"or{condition} write the topic again: headwater seed {topic} --full-refresh; "
    return f"{_PUT_BACK}; {again}{_GO_ON}"


def ways_out_of_lost_commits(application: str, put_back: str = "", left: str = "") -> str:
    """What to do about commits of an application that are missing or damaged, the best first.

    `put_back`: the first way, in words. `left`: what is left of the application in the log, and has to go before it can
    begin again, if it is fed from outside.
    """
    first = put_back or "put the files of the log back from a copy"
    if application.startswith("~"):  # it says which application is where: without it the others cannot be told apart
        return f"{first}: no command can know what is in it; `headwater log verify` says what else is whole"
    if not application.endswith("-seed"):
        return f"{first}; or start it again: {refresh_of(application)}"
    left = left or f"commits/{application} and applications/{application} in the log"
    return (
        f"{first}; or begin without what was seeded and appended: remove {left}, then headwater build --full-refresh "
        "seeds again and starts again what has read it"
    )


def refresh_of(application: str) -> str:
    """The command that starts a topology again, with all that reads from it."""
    return f"headwater build --full-refresh --select '{application.partition('-')[2]}+'"


class LogError(HeadwaterError):
    """The base class of the log's errors."""


class CommitExistsError(LogError):
    """Someone else has created the commit: another driver has taken over, or another append came first."""

    def __init__(self, application: str, number: int) -> None:
        super().__init__(f"commit {number} of {application} exists already")
        self.application = application
        self.number = number


class CommitGapError(LogError):
    """The commit before the one to create is missing: the application was fully refreshed meanwhile."""

    def __init__(self, application: str, number: int) -> None:
        super().__init__(f"cannot create commit {number} of {application}: there is no commit {number - 1}")
        self.application = application
        self.number = number


class CommitFormatError(LogError):
    """A commit or snapshot that this version cannot read. `found`: its format; None if it is no commit at all."""

    def __init__(self, found: object, supported: int) -> None:
        if found is None:
            super().__init__("not a commit record")
        else:
            super().__init__(
                f"the log was written in format {found}, this version reads formats up to {supported}",
                hint="use the version of Headwater that wrote it, or start again with --full-refresh",
            )
        self.found = found
        self.supported = supported


class CommitDamagedError(LogError):
    """A commit has changed since it was made, or is missing although later ones exist. `place`: where it is kept."""

    def __init__(self, application: str, number: int, what: str, place: str) -> None:
        super().__init__(
            f"commit {number} of {application} is {what}: {place}", hint=ways_out_of_lost_commits(application)
        )
        self.application = application
        self.number = number
        self.what = what
        self.place = place


class SnapshotsDamagedError(LogError):
    """No snapshot of folded commits can be read. `snapshots`: their numbers, the newest first; maybe none is there.

    `first`: the first commit that was not folded.
    """

    def __init__(self, application: str, snapshots: Sequence[int], first: int) -> None:
        numbers = ", ".join(map(str, snapshots))
        what = f"no snapshot can be read ({numbers})" if snapshots else "the snapshots are missing"
        super().__init__(
            f"the commits of {application} before {first} are only in its snapshots, and {what}",
            hint=ways_out_of_lost_commits(application),
        )
        self.application = application
        self.snapshots = tuple(snapshots)
        self.first = first


class CommitsMissingError(LogError):
    """All commits of an application are gone without `--full-refresh`.

    They were in `folder`. `entry` still names it, or snapshots are left there.
    """

    def __init__(self, application: str, folder: Path | str, entry: Path | str | None) -> None:
        left = str(folder) if entry is None else f"{entry} and {folder}"
        super().__init__(
            f"the commits of {application} are missing: {folder} was removed or emptied",
            ways_out_of_lost_commits(application, f"put {folder} back from a copy of the log", left),
        )
        self.application = application
        self.folder = folder
        self.entry = entry


class FullyRefreshedError(LogError):
    """The commits that a state was made of are gone: the application was fully refreshed."""

    def __init__(self, application: str) -> None:
        super().__init__(
            f"{application} was fully refreshed, while its earlier commits were in use",
            hint="run this again",
        )
        self.application = application


class GenerationError(LogError):
    """A driver commits under a generation that is not the current one: another driver has taken over."""

    def __init__(self, application: str, current: int, found: int) -> None:
        super().__init__(f"{application} is in generation {current}, a driver of generation {found} must stop")
        self.application = application
        self.current = current
        self.found = found


class CommitOrderError(LogError):
    """A commit record does not continue the commits before it: the log is damaged."""

    def __init__(self, number: int, topic: str, partition: int, expected: int, found: int) -> None:
        super().__init__(
            f"commit {number} puts records of {topic}, partition {partition}, at {found} where {expected} comes next",
            hint=_DAMAGED,
        )
        self.number = number
        self.topic = topic
        self.partition = partition
        self.expected = expected
        self.found = found


class SegmentsChangedError(LogError):
    """The records whose place others were to take are not listed any more as they were: they were replaced or removed
    meanwhile. `topic`, `partition`, `start`, `end`: offsets.
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
    """A commit puts records in the place of others that the commits before it do not list: the log is damaged."""

    def __init__(self, number: int, missing: SegmentsChangedError) -> None:
        super().__init__(
            f"commit {number} replaces records of {missing.topic}, partition {missing.partition}, with offsets "
            f"{missing.start} to {missing.end - 1}, which are not there",
            hint=_DAMAGED,
        )
        self.number = number
        self.topic = missing.topic
        self.partition = missing.partition


@dataclass(frozen=True)
class RecordsPlace:
    """Records of a partition: those with offsets from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        offsets = f"offset {self.start}" if self.end - self.start == 1 else f"offsets {self.start} to {self.end - 1}"
        return f"{self.topic}, partition {self.partition}, {offsets}"


class SegmentError(LogError):
    """Committed records that cannot be read: the base class. `path`: of the file. `what` is the matter with it.

    `place`: which records; None where only the file is known.
    """

    def __init__(self, path: str, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.path = path
        self.what = what
        self.place: RecordsPlace | None = None

    def tell(self, place: RecordsPlace) -> None:
        """Say which records it is about, where the one who raised it does not know them."""
        self.place = place
        self.message = f"{place}, cannot be read: {self.what}"
        if self.hint == _UNREADABLE:
            writer = self.path.removeprefix("segments/").partition("/")[0]
            ways_out = ways_out_of_lost_records(writer, place.topic, seeded=None)
            self.hint = f"{ways_out}; `headwater log verify` lists all that is damaged"


class RangeMissingError(SegmentError):
    """Records that a commit lists are gone: they were replaced (reload the commits and try again), or deleted by hand.

    `path`: of the file that had them.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, f"segment {path} is missing from the log", _UNREADABLE)


class CorruptSegmentError(SegmentError):
    """The bytes of a segment are not those that were committed. `batch`: its number; None: the schema."""

    def __init__(self, path: str, batch: int | None) -> None:
        part = "the schema" if batch is None else f"batch {batch}"
        super().__init__(path, f"{part} of segment {path} is damaged", _UNREADABLE)
        self.batch = batch


class MissingColumnsError(SegmentError):
    """A segment lacks columns that a reader needs: it was written when the topic had others."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        super().__init__(
            path,
            f"segment {path} has no column {', '.join(columns)}",
            hint="the topic was written with other columns; start its writer again with --full-refresh",
        )
        self.columns = tuple(columns)


class ColumnTypeError(SegmentError):
    """Records have a column in a type that cannot be read as the wanted one without loss: `column`, `stored`, `wanted`.

    The topic was changed after its reader began, as what begins is checked before.
    """

    def __init__(self, path: str, column: str, stored: str, wanted: str) -> None:
        name = column.removeprefix("value.")
        super().__init__(
            path,
            f"their column {name} is {stored} in segment {path}, and is read as {wanted}",
            hint="the topic's columns were changed meanwhile: start what reads it again, with the project as it is now",
        )
        self.column = name
        self.stored = stored
        self.wanted = wanted


class UnreadableFileError(MachineError):
    """The operating system refuses to read committed records: `place` says which. For the rest see MachineError."""

    def __init__(self, place: RecordsPlace, error: MachineError) -> None:
        super().__init__(error.path, error.errno, "")
        self.message = f"{place}, cannot be read: {error.message}"
        self.what = error.message
        self.hint = error.hint
        self.place = place


class RecordsTooLargeError(MachineError):
    """There is not enough memory for committed records: `places` says which. `size`: the bytes that they take in the
    log, where that is known. For the rest see MachineError.
    """

    def __init__(self, places: Sequence[RecordsPlace], size: int | None, error: MemoryError) -> None:
        found = MachineError.from_error(error)
        super().__init__(None, found.errno, "")
        taken = "" if size is None else f" ({size:,} bytes in the log)"
        self.message = f"{found.message} for the records of {'; '.join(map(str, places))}{taken}"
        self.hint = found.hint
        self.places = tuple(places)


class UnsupportedFileSystemError(LogError):
    """A place that cannot hold commits: it has no way to create a file only if there is none yet."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(
            f"{path} cannot hold a log: hard links do not work there ({cause})",
            hint="put the log on a local file system",
        )
        self.path = path
        self.cause = cause


class SeedError(LogError):
    """Records from outside that cannot be taken. `source`: the file or function. `place`: the line or row, if known."""

    def __init__(
        self, source: str, cause: str, place: str | None = None, column: str | None = None, hint: str | None = None
    ) -> None:
        where = ", ".join(filter(None, (source, place, column and f"column {column}")))
        super().__init__(f"{where}: {cause}", hint)
        self.source = source
        self.place = place
        self.column = column
        self.cause = cause


class SeedChangedError(LogError):
    """A seed that was committed with another content, for which results may have been computed. `difference`: what is
    other now, in words.
    """

    def __init__(self, topic: str, source: str, difference: str) -> None:
        super().__init__(
            f"the seed of {topic} has changed since it was committed: {source}: {difference}",
            hint=f"put it back as it was, or {_seed_again(topic)}",
        )
        self.topic = topic
        self.source = source
        self.difference = difference


class SeededMeanwhileError(LogError):
    """Another process has seeded the topic since this seed was compared with what is committed."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} has been seeded meanwhile", hint="try again")
        self.topic = topic


def read_to_append(topic: str) -> str:
    """The command that prints the records of a topic as another one takes them (`headwater seed --append`)."""
    return f"headwater read {topic} --format json | jq -c 'del(.partition)'"


class TopicChangedError(LogError):
    """A topic that is declared otherwise than when its records were written. `was`, `is_`: what differs, by field.

    `writer`: the application that writes it, None for one that is fed from outside; `seeded`: whether that was a seed.
    `movable`: whether a run can put its records where the topic has them now.
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
            way_out = (
                f"run the topologies that read it, which puts its records there: headwater run --select '{topic}+'"
            )
        elif writer is not None:
            way_out = f"start its writer again: headwater run --full-refresh --select '{writer.partition('-')[2]}+'"
        elif seeded:
            way_out = _seed_again(topic)
        else:
            way_out = (
                f"copy its records to a topic of another name: {read_to_append(topic)} | headwater seed OTHER --append"
            )
        super().__init__(
            f"{topic} is declared otherwise than when its records were written: {declaration_text(was, is_)}",
            hint=f"declare it as it was, or {way_out}",
        )
        self.topic = topic
        self.was = dict(was)
        self.is_ = dict(is_)
        self.writer = writer
        self.seeded = seeded
        self.movable = movable


def _seed_again(topic: str) -> str:
    return (
        f"seed it again: headwater seed {topic} --full-refresh, which also starts again what has read it; "
        "records appended to it stay, behind it"
    )


class SavedFileError(LogError):
    """A file of the log is not there, or not as it was saved: `path`, `cause`."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path} of the log cannot be used: {cause}")
        self.path = path
        self.cause = cause
