"""The folder that a log is copied to: whether it may take a copy, and what the copy before has left there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....errors import HeadwaterError
from ....private_files import write_text
from ...dataclass_json import parsed
from ..embedded.log import EmbeddedLog
from ..errors import LogError
from ..state import LogState

NEW, OLD = ".commits-new", ".commits-old"
"""Folders of commits: those of the copy that is made now, and of the copy before."""

_MARK = ".copied.json"
_OF_LOGS = {NEW, OLD, "applications", "commits", "paused", "segments", "snapshots"}


class CopyTargetError(HeadwaterError):
    """A folder that cannot take a copy of a log: `path`, `cause`."""

    def __init__(self, path: str, cause: str, hint: str) -> None:
        super().__init__(f"{path} cannot take a copy of the log: {cause}", hint)
        self.path = path
        self.cause = cause


@dataclass(frozen=True)
class CopyMark:
    """What a copy was when it was made. It lies among its commits, and takes its place with them.

    `source`: the folder of the log. `commits`: application -> number and crc32 of its last commit. `damaged`: files
    that the log itself had damaged.
    """

    source: str
    commits: Mapping[str, tuple[int, int]]
    damaged: tuple[str, ...] = ()

    @classmethod
    def of(cls, commits: Path) -> CopyMark:
        """The mark in a folder of commits. An empty one if there is none."""
        try:
            said = parsed((commits / _MARK).read_text("utf-8"))
            marks = {str(name): (int(number), int(crc)) for name, (number, crc) in said["commits"].items()}
            return cls(str(said["source"]), marks, tuple(map(str, said["damaged"])))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return cls("", {})

    def write(self, commits: Path) -> None:
        """Put it into a folder of commits."""
        said = {"source": self.source, "commits": self.commits, "damaged": self.damaged}
        write_text(commits / _MARK, json.dumps(said))


def last_commits(states: Mapping[str, LogState]) -> dict[str, tuple[int, int]]:
    """Number and crc32 of the last commit of each application that has one."""
    marks = {name: state.mark for name, state in states.items()}
    return {name: (mark.number, mark.checksum) for name, mark in marks.items() if mark is not None}


def check_target(log: EmbeddedLog, target: Path) -> None:
    """Check that the folder holds nothing, or an earlier copy of this log that lacks nothing when it is replaced.

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
    """Check that the log has all commits of a copy, or that they are of applications that it has begun again since.

    Raises CopyTargetError.
    """
    mark = CopyMark.of(copy.root / "commits")
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
    """Whether the application was dropped from the log since the copy was made, by a full refresh for example."""
    if application not in log.applications():
        return True
    firsts = log.commits(application).checksum(1), copy.commits(application).checksum(1)
    return None not in firsts and firsts[0] != firsts[1]
