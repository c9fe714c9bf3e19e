"""The errors of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import HeadwaterError

_DAMAGED = (
    "put the files of the log back from a copy; or start again, a topology with --full-refresh, "
    "what was seeded by removing the log's folder"
)


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
    """A commit has changed since it was made, or is missing although later ones exist."""

    def __init__(self, application: str, number: int, what: str) -> None:
        super().__init__(f"commit {number} of {application} is {what}", hint=_DAMAGED)
        self.application = application
        self.number = number
        self.what = what


class CommitsMissingError(LogError):
    """All commits of an application are gone without `--full-refresh`.

    They were in `folder`, and `entry` still names it.
    """

    def __init__(self, application: str, folder: Path, entry: Path) -> None:
        super().__init__(
            f"the commits of {application} are missing: {folder} was removed or emptied",
            f"put it back from a copy of the log; or begin without what was committed there: a topology with "
            f"`headwater build --full-refresh`, what was seeded and appended by removing {entry}",
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


class RangeMissingError(LogError):
    """Records that a commit lists are gone: they were replaced (reload the commits and try again), or deleted by hand.

    `path`: of the file that had them.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"segment {path} is missing from the log", hint=_DAMAGED)
        self.path = path


class CorruptSegmentError(LogError):
    """The bytes of a segment are not those that were committed. `batch`: its number; None: the schema."""

    def __init__(self, path: str, batch: int | None) -> None:
        super().__init__(
            f"{'the schema' if batch is None else f'batch {batch}'} of segment {path} is damaged", hint=_DAMAGED
        )
        self.path = path
        self.batch = batch


class MissingColumnsError(LogError):
    """A segment lacks columns that a reader needs: it was written when the topic had others."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        super().__init__(
            f"segment {path} has no column {', '.join(columns)}",
            hint="the topic was written with other columns; start its writer again with --full-refresh",
        )
        self.path = path
        self.columns = tuple(columns)


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

    def __init__(self, source: str, cause: str, place: str | None = None, column: str | None = None) -> None:
        where = ", ".join(filter(None, (source, place, column and f"column {column}")))
        super().__init__(f"{where}: {cause}")
        self.source = source
        self.place = place
        self.column = column
        self.cause = cause


class SeedChangedError(LogError):
    """A seed that was committed with another content, for which results may have been computed."""

    def __init__(self, topic: str, source: str) -> None:
        super().__init__(
            f"the seed of {topic} has changed since it was committed: {source}",
            hint=f"put it back as it was, or {_seed_again(topic)}",
        )
        self.topic = topic
        self.source = source


class SeededMeanwhileError(LogError):
    """Another process has seeded the topic since this seed was compared with what is committed."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} has been seeded meanwhile", hint="try again")
        self.topic = topic


class TopicChangedError(LogError):
    """A topic that is declared otherwise than when its records were written. `was`, `is_`: what differs, by field.

    `writer`: the application that writes it, None for one that is fed from outside; `seeded`: whether that was a seed.
    """

    def __init__(
        self, topic: str, was: Mapping[str, object], is_: Mapping[str, object], writer: str | None, seeded: bool
    ) -> None:
        differences = ", ".join(f"{field} was {was[field]!r} and is {is_[field]!r}" for field in was)
        if writer is not None:
            way_out = f"start its writer again: headwater run --full-refresh --select '{writer.partition('-')[2]}+'"
        elif seeded:
            way_out = _seed_again(topic)
        else:
            way_out = (
                "copy its records to a topic of another name: "
                f"headwater read {topic} --format json | jq -c 'del(.partition)' | headwater seed OTHER --append"
            )
        super().__init__(
            f"{topic} is declared otherwise than when its records were written: {differences}",
            hint=f"declare it as it was, or {way_out}",
        )
        self.topic = topic
        self.was = dict(was)
        self.is_ = dict(is_)
        self.writer = writer
        self.seeded = seeded


def _seed_again(topic: str) -> str:
    return (
        f"seed it again: headwater seed {topic} --full-refresh, which also starts again what has read it; "
        "records appended to it are lost then"
    )


class SavedFileError(LogError):
    """A file of the log is not there, or not as it was saved: `path`, `cause`."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path} of the log cannot be used: {cause}")
        self.path = path
        self.cause = cause
