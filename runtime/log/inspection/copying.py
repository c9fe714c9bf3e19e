"""Copies of a log."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....errors import HeadwaterError
from ....private_files import naming_path, opener, write_text
from ....unusable_paths import raises_machine_errors
from ...dataclass_json import fitting, parsed, to_plain
from ..declared_topics import reads
from ..durable_files import make_directory, sync_directory
from ..embedded.commits import DirectoryCommitStore
from ..embedded.log import EmbeddedLog
from ..errors import CommitDamagedError, LogError
from ..log import Log
from ..placed_log import PLACES, PlacedLog, log_of_places
from ..state import LogState
from .verification import Checksums, Progress

# The target folder of a copy: whether it may be used, and the previous copy in it.

NEW, OLD = ".commits-new", ".commits-old"
"""Folders of commits: of the present copy, and of the previous one."""

_MARK = ".copied.json"
_OF_LOGS = {NEW, OLD, "applications", "commits", "paused", "segments", "snapshots"}


class CopyTargetError(HeadwaterError):
    """A folder that cannot be the target of a copy."""

    def __init__(self, path: str, cause: str, hint: str) -> None:
        super().__init__(f"{path} cannot take a copy of the log: {cause}", hint)


@dataclass(frozen=True)
class CopyMark:
    """A copy when it was made. It is stored with the copy's commits, and becomes valid with them.

    `source`: the folder of the log. `commits`: application -> number and crc32 of its last commit. `damaged`: files
    that are damaged in the log itself.
    """

    source: str
    commits: Mapping[str, tuple[int, int]]
    damaged: tuple[str, ...] = ()

    @classmethod
    def read(cls, commits: Path) -> CopyMark:
        """The mark in a folder of commits; an empty one without a mark."""
        try:
            return fitting(cls, parsed((commits / _MARK).read_text("utf-8")))
        except (FileNotFoundError, ValueError):
            return cls("", {})

    def write(self, commits: Path) -> None:
        """Write the mark to a folder of commits."""
        write_text(commits / _MARK, json.dumps(to_plain(self)))


def last_commits(states: Mapping[str, LogState]) -> dict[str, tuple[int, int]]:
    """Number and crc32 of the last commit of each application with commits."""
    marks = {name: state.mark for name, state in states.items()}
    return {name: (mark.number, mark.checksum) for name, mark in marks.items() if mark is not None}


def check_target(log: EmbeddedLog, target: Path) -> None:
    """Check that the folder is empty, or has an earlier copy of this log that can be replaced without a loss.

    Raises CopyTargetError.
    """
    source = log.root.resolve()
    if target == source or source in target.parents or target in source.parents:
        raise CopyTargetError(str(target), "it is the log, or inside of it, or around it", "choose another folder")
    if not log.identity():
        raise CopyTargetError(str(target), "there is no log yet to copy", "`headwater seed` or `run` makes it")
    copy = EmbeddedLog(target)
    with suppress(FileNotFoundError):
        there, found = os.listdir(target), copy.identity()
        # One that was broken off has no id yet. That it is of this log, its commits show.
        if found != log.identity() and (found or not _OF_LOGS.issuperset(there)):
            raise CopyTargetError(str(target), "it holds something else", "choose an empty folder or a new one")
        check_not_worked_on(log, copy)


def check_not_worked_on(log: EmbeddedLog, copy: EmbeddedLog) -> None:
    """Check that the log has all commits of a copy, except of applications that have restarted since.

    Raises CopyTargetError.
    """
    mark = CopyMark.read(copy.root / "commits")
    for name in copy.applications():
        try:
            found = last_commits({name: LogState.load(copy.commits(name))}).get(name)
        except LogError as error:
            raise CopyTargetError(
                str(copy.root),
                f"what it holds cannot be read, so nobody knows what would be lost with it: {error.message}",
                "choose another folder, or remove this one if nobody needs it",
            ) from error
        if found is None or log.commits(name).checksum(found[0]) == found[1]:
            continue
        untouched = mark.commits.get(name) == found and mark.source == str(log.root.resolve())
        if not (untouched and _begun_again(log, copy, name)):
            last = log.commits(name).latest()
            raise CopyTargetError(
                str(copy.root),
                f"it has commits that the log in {log.root} lacks: {name} has {found[0]} there, and {last} in the log"
                + ("" if last < found[0] else ", which are others"),
                "something ran on the copy, or the log is older than the copy: choose another folder",
            )


def _begun_again(log: EmbeddedLog, copy: EmbeddedLog, application: str) -> bool:
    """Whether the application was dropped from the log since the copy, for example by a full refresh."""
    if application not in log.applications():
        return True
    firsts = log.commits(application).checksum(1), copy.commits(application).checksum(1)
    return None not in firsts and firsts[0] != firsts[1]


# Copies of a log in a directory while applications are running: the copy is the log at one moment.
#
# Files of a log never change, but are removed: old commits are folded, records are merged, purged or expired. So the
# commits are copied first, then the files that they list. If one of these was removed meanwhile, newer commits do not
# list it, and the commits are copied again; then few files remain to copy. Applications are copied before those whose
# topics they read: so no copied application has consumed records that the copied topic lacks.
#
# The new commits replace the previous ones last and at once. So the copy is a complete log at any time, and copied
# files are not copied again. Copied files are compared with the checksums in the commits.

_KEPT = (".json", ".snapshot", ".checksums")


class UncopiableLogError(HeadwaterError):
    """A log that `copy_log` cannot copy, because it is not in a directory. `log`: its description."""

    def __init__(self, log: str) -> None:
        super().__init__(
            f"only a log of type embedded can be copied while topologies run, and this is {log}",
            "for a bucket, use the store's versions or its replication; for file:///, copy the folder; either with all "
            "topologies paused: `headwater pause`, then wait until `headwater tasks` says `paused since`",
        )


@dataclass(frozen=True)
class CopiedLog:
    """A finished copy.

    `commits`: application -> its last commit there. `files`, `size`: newly copied files and their bytes. `removed`: the
    number of files of an earlier copy that no commit lists any more. `dropped`: applications of an earlier copy that
    the log does not have any more. `missing`, `damaged`: files that commits list and that are missing or damaged in the
    log itself.
    """

    commits: Mapping[str, int]
    files: int
    size: int
    removed: int
    missing: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def copy_log(log: Log, target: Path, progress: Progress = lambda _, __: None) -> CopiedLog:
    """Create a copy in the folder `target`, or update an existing one.

    Raises CopyTargetError, UncopiableLogError, LogError if commits cannot be read, MachineError.
    """
    kept = log_of_places(log)  # a copy has the places, too
    if not isinstance(kept, EmbeddedLog):
        raise UncopiableLogError(repr(kept))
    return _Copy(kept, target.resolve(), progress).run()


class _Copy:
    def __init__(self, log: EmbeddedLog, target: Path, progress: Progress) -> None:
        self._log = log
        self._source = log.root.resolve()
        self._target = target
        self._progress = progress
        self._files = self._size = 0
        self._damaged = set[str]()

    @raises_machine_errors
    def run(self) -> CopiedLog:
        self._check_commits()
        check_target(self._log, self._target)
        make_directory(self._target)
        for left in (NEW, OLD):
            shutil.rmtree(self._target / left, ignore_errors=True)
        for left_over in self._target.rglob(".*.tmp"):
            left_over.unlink()
        for path in CopyMark.read(self._target / "commits").damaged:
            (self._target / path).unlink(missing_ok=True)  # it may be whole again in the log, and is told again if not
        while True:
            states = self._commits()
            listed = {path for state in states.values() for path in state.paths()}
            checksums = Checksums(states.values())
            missing = {path for path in self._progressing(listed) if not self._copied(path, checksums)}
            if missing <= self._listed_now() and not self._ahead(states):
                break
        damaged = tuple(sorted(self._damaged & listed))
        make_directory(self._target / NEW)
        CopyMark(str(self._source), last_commits(states), damaged).write(self._target / NEW)
        check_not_worked_on(self._log, EmbeddedLog(self._target))
        dropped = self._put_in_place(states)
        places = PlacedLog(EmbeddedLog(self._target)).places()
        return CopiedLog(
            commits={places.name_of(at) or at: state.number for at, state in states.items() if at != PLACES},
            files=self._files,
            size=self._size,
            removed=self._remove_others(listed),
            missing=tuple(sorted(missing)),
            dropped=dropped,
            damaged=damaged,
        )

    def _check_commits(self) -> None:
        """Read the commits of all applications in the log, so that errors name the log's files. Raises LogError."""
        for name in {*self._log.applications(), *_names(self._source / "applications")}:
            LogState.load(self._log.commits(name))

    def _commits(self) -> dict[str, LogState]:
        """Copy the commits of all applications. Returns the copied states."""
        return {name: self._application(name) for name in _readers_first(self._log)}

    def _application(self, name: str) -> LogState:
        """Copy the commits of one application. Commits folded meanwhile are in a later snapshot."""
        source, folder = self._source / "commits" / name, self._target / NEW / name
        while True:
            shutil.rmtree(folder, ignore_errors=True)
            make_directory(folder)
            # Newest first, because the oldest are folded first.
            names = sorted((name for name in os.listdir(source) if name.endswith(_KEPT)), reverse=True)
            for file in names:
                with suppress(FileNotFoundError):
                    _copy(source / file, folder / file)
            try:
                return LogState.load(DirectoryCommitStore(name, folder))
            except CommitDamagedError:
                if sorted((file for file in os.listdir(source) if file.endswith(_KEPT)), reverse=True) == names:
                    LogState.load(
                        self._log.commits(name)
                    )  # nothing was folded: the log is damaged, and the error names it
                    raise

    def _progressing(self, listed: set[str]) -> Iterator[str]:
        for done, path in enumerate(sorted(listed), 1):
            yield path
            self._progress(done, len(listed))

    def _copied(self, path: str, checksums: Checksums | None = None) -> bool:
        """Copy a file, unless it exists. Returns whether it exists now. Files with wrong checksums are noted."""
        target = self._target / path
        if target.exists():
            return True
        make_directory(target.parent)
        temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            size = _copy(self._source / path, temporary)
            if checksums is not None and not checksums.fit(path, temporary):
                self._damaged.add(path)
            temporary.replace(target)
        except FileNotFoundError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        self._files += 1
        self._size += size
        return True

    def _listed_now(self) -> set[str]:
        """The files that the log lists now: a missing one of these is not just replaced."""
        return {path for name in self._log.applications() for path in LogState.load(self._log.commits(name)).paths()}

    def _ahead(self, states: Mapping[str, LogState]) -> bool:
        """Whether a copied application knew commits of another one that were not copied.

        This happens for applications that read from each other. Commits that the log itself lacks do not count.
        """
        return any(
            place in states and number > states[place].number and self._log.commits(place).identity(number) is not None
            for state in states.values()
            for place, (number, _) in state.sources.items()
        )

    def _put_in_place(self, states: Collection[str]) -> tuple[str, ...]:
        """Replace the previous commits by the new ones. Returns the applications that are dropped with them.

        The id is first, so that an interrupted copy is recognized. Commits without an entry are valid, and an entry
        without commits is an error. So entries are removed before the commits, and created after them.
        """
        commits = self._target / "commits"
        dropped = tuple(sorted(set(EmbeddedLog(self._target).applications()).difference(states)))
        self._copied("log.json")
        self._remove_entries("applications", states)
        if commits.exists():
            commits.rename(self._target / OLD)
        (self._target / NEW).rename(commits)
        sync_directory(self._target)
        shutil.rmtree(self._target / OLD, ignore_errors=True)
        paused = _names(self._source / "paused")
        self._remove_entries("paused", paused)
        self._enter("paused", paused)
        self._enter("applications", _names(self._source / "applications").intersection(states))
        return dropped

    def _enter(self, folder: str, applications: Collection[str]) -> None:
        for name in applications:
            make_directory(self._target / folder)
            with open(self._target / folder / name, "a", opener=opener):
                pass

    def _remove_entries(self, folder: str, kept: Collection[str]) -> None:
        for name in _names(self._target / folder).difference(kept):
            (self._target / folder / name).unlink(missing_ok=True)

    def _remove_others(self, listed: set[str]) -> int:
        """Remove files of an earlier copy that no commit lists any more."""
        copy = EmbeddedLog(self._target)
        names = {path.name for kind in ("segments", "snapshots") for path in (self._target / kind).glob("*")}
        others = [file.path for name in names for file in copy.files(name) if file.path not in listed]
        for path in others:
            copy.remove(path)
        return len(others)


def _copy(source: Path, target: Path) -> int:
    """Copy a file durably. Returns its size in bytes. Raises FileNotFoundError."""
    with open(source, "rb") as content, naming_path(target), open(target, "wb", opener=opener) as file:
        shutil.copyfileobj(content, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _names(folder: Path) -> set[str]:
    """The names in a folder of empty files; empty without the folder."""
    return {path.name for path in folder.glob("*")}


def _readers_first(log: Log) -> list[str]:
    """The applications, each before those whose topics it reads; those that read nothing, such as seeds, last.

    The places come at the very end: it is harmless if they are ahead of the commits that follow from them.
    """
    places = PlacedLog(log).places()
    read = {name: reads(log, name, lenient=True) for name in sorted(log.applications(), key=PLACES.__eq__)}
    written = {name: {places.of(each) for each in topics.values() if each} for name, topics in read.items() if topics}
    rest = {name: writers.intersection(read) for name, writers in written.items()}
    order: list[str] = []
    while rest:
        unread = (each for each in rest if not any(each in writers for writers in rest.values()))
        order.append(next(unread, next(iter(rest))))
        del rest[order[-1]]
    return [*order, *(name for name in read if not read[name])]
