"""The sequence of an application's commits: numbered from 1. Each is created exactly once, by the first to do so."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Protocol

from ...private_files import opener
from ...unusable_paths import unusable_paths_told
from .durable_files import link, make_directory, sync_directory, write_durably
from .errors import CommitExistsError, CommitGapError, CommitsMissingError

KEPT_SNAPSHOTS = 2
"""How many snapshots are kept: the last one, and the one before for a reader that is loading it."""


class CommitStore(Protocol):
    """Keeps the commits of one application. Implementations must make `create` exclusive and durable."""

    @property
    def application(self) -> str:
        """The application whose commits these are."""
        ...

    def create(self, number: int, data: bytes) -> str:
        """Make commit `number` durably, whole or not at all. Returns its identity.

        Raises CommitExistsError if it exists, CommitGapError if `number - 1` does not.
        """
        ...

    def read(self, number: int) -> bytes | None:
        """The data of commit `number`; None if there is none."""
        ...

    def identity(self, number: int) -> str | None:
        """The identity of commit `number`, different from that of any other commit of this number; None if there is
        none.

        A driver asks for it many times a second, so it costs less than reading the commit.
        """
        ...

    def latest(self) -> int:
        """The highest number; 0 if there are no commits. It may list all of them, so call it only at a start.

        Raises LogError if the commits are known to have been lost.
        """
        ...

    def save_snapshot(self, number: int, data: bytes) -> None:
        """Keep the folded state after commit `number`. Older snapshots may be removed."""
        ...

    def load_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, with its number; None if there is none."""
        ...


class DirectoryCommitStore:
    """Commits as files of one directory of a local file system: `<number>.json` and `<number>.snapshot`.

    The exclusive create is `link(2)`: it makes a file that is already whole appear under its name, and fails if the
    name is taken. File systems without it are refused. `entry`: a file outside of the directory that exists from the
    first commit on. If it exists without commits, these are lost.
    """

    def __init__(self, application: str, directory: Path, entry: Path | None = None) -> None:
        self.application = application
        self._directory = directory
        self._entry = entry

    @unusable_paths_told
    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`. Raises UnsupportedFileSystemError too."""
        if number == 1:
            make_directory(self._directory)
        elif not self._path(number - 1).exists():
            raise CommitGapError(self.application, number)
        # The content is on the disk before the name exists, so a commit that can be seen is whole even after a power
        # failure.
        temporary = self._write(data)
        try:
            # The link is the same inode. Read here, as the commit may be replaced right after it was linked.
            identity = _identity(temporary)
            link(temporary, self._path(number))
        except FileExistsError:
            raise CommitExistsError(self.application, number) from None
        finally:
            temporary.unlink()
        # Only now is the name durable, and the commit may be reported as made.
        sync_directory(self._directory)
        if number == 1:
            self.enter()
        return identity

    @unusable_paths_told
    def read(self, number: int) -> bytes | None:
        """See `CommitStore.read`."""
        try:
            return self._path(number).read_bytes()
        except FileNotFoundError:
            return None

    def identity(self, number: int) -> str | None:
        """See `CommitStore.identity`."""
        try:
            return _identity(self._path(number))
        except FileNotFoundError:
            return None

    @unusable_paths_told
    def latest(self) -> int:
        """See `CommitStore.latest`. Raises CommitsMissingError."""
        latest = max(self._numbers(".json"), default=0)
        if latest or self._entry is None or not self._entry.exists():
            return latest
        latest = max(self._numbers(".json"), default=0)  # the first commit may have come between the two calls
        if not latest:
            raise CommitsMissingError(self.application, self._directory, self._entry)
        return latest

    @unusable_paths_told
    def enter(self) -> None:
        """Make the entry, durably, if there are commits. Logs of older versions have commits without an entry."""
        if self._entry is None or self._entry.exists() or not self._path(1).exists():
            return
        make_directory(self._entry.parent)
        with open(self._entry, "a", opener=opener):
            pass
        sync_directory(self._entry.parent)
        if not self._path(1).exists():  # the application was dropped meanwhile
            self._entry.unlink(missing_ok=True)

    @unusable_paths_told
    def save_snapshot(self, number: int, data: bytes) -> None:
        """See `CommitStore.save_snapshot`."""
        # Unlike a commit it may be replaced: a snapshot only saves time.
        os.replace(self._write(data), self._snapshot(number))
        for old in sorted(self._numbers(".snapshot"))[:-KEPT_SNAPSHOTS]:
            self._snapshot(old).unlink(missing_ok=True)

    @unusable_paths_told
    def load_snapshot(self) -> tuple[int, bytes] | None:
        """See `CommitStore.load_snapshot`."""
        for number in sorted(self._numbers(".snapshot"), reverse=True):
            try:
                return number, self._snapshot(number).read_bytes()
            except FileNotFoundError:
                continue  # removed since the directory was listed
        return None

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:012d}.json"

    def _snapshot(self, number: int) -> Path:
        return self._directory / f"{number:012d}.snapshot"

    def _numbers(self, suffix: str) -> list[int]:
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
        return [int(stem) for stem in stems if re.fullmatch("[0-9]{12,}", stem)]

    def _write(self, data: bytes) -> Path:
        path = self._directory / f".{uuid.uuid4().hex}.tmp"
        write_durably(path, data)
        return path


def _identity(path: Path) -> str:
    """A file system may reuse an inode for another file, but then the time of the last change differs."""
    stat = path.stat()
    return f"{stat.st_ino}-{stat.st_mtime_ns}"
