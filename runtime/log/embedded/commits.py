"""Commits in a directory of a local file system."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from struct import Struct
from zlib import crc32

from ....private_files import FILE, opener
from ....unusable_paths import raises_machine_errors
from ..durable_files import link, make_directory, sync_directory, write_durably
from ..errors import CommitExistsError, CommitGapError, CommitsMissingError
from ..log import KEPT_CHECKSUMS

# The checksums of folded commits: 4 bytes for each commit, in files of one directory.
#
# A file `<number>.checksums` has those of the commits from that number on, in order. An entry is 0 while the commit
# exists. The file is cut to one byte, less than an entry, after all of its commits were folded so long ago that their
# checksums are not needed any more. An empty file is new: nothing is folded there.

IN_A_FILE = 1_000_000
"""The number of commits of a file."""

_ENTRY = Struct("<I")

_EMPTIED = 1
"""The size of a file without needed checksums, in bytes."""


class FoldedChecksums:
    """The checksums of an application's folded commits, in the directory of its commits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def checksum(self, number: int) -> int | None:
        """The checksum of a folded commit; None if it was not folded, or too long ago."""
        return _unpacked(self._entry(number))

    def differ(self, number: int, checksum: int) -> bool:
        """Whether commit `number` was folded with another checksum, or so long ago that its checksum is unknown."""
        entry = self._entry(number)
        if not entry:
            return entry is not None
        return _unpacked(entry) not in (None, checksum)

    def keep(self, directory: int, checksums: Iterable[tuple[int, int]]) -> None:
        """Write checksums durably. `checksums`: ascending by number. `directory`: a descriptor of the directory.

        Existing checksums do not change.
        """
        last = 0
        for first, some in groupby(checksums, lambda entry: _file_of(entry[0])):
            handle = os.open(_name(first), os.O_RDWR | os.O_CREAT, FILE, dir_fd=directory)
            try:
                if not os.fstat(handle).st_size:
                    os.fchmod(handle, FILE)  # whatever the umask has left
                for number, checksum in some:
                    start = (number - first) * _ENTRY.size
                    if _unpacked(os.pread(handle, _ENTRY.size, start)) is None:
                        os.pwrite(handle, _ENTRY.pack(checksum), start)
                    last = number
                os.fsync(handle)
            finally:
                os.close(handle)
        os.fsync(directory)
        self._drop(directory, last - KEPT_CHECKSUMS)

    def _drop(self, directory: int, before: int) -> None:
        """Drop files with checksums of commits before one only."""
        for first in range(_file_of(max(before, 0)) - IN_A_FILE, -1, -IN_A_FILE):
            with suppress(FileNotFoundError):
                if os.stat(_name(first), dir_fd=directory).st_size == _EMPTIED:
                    return  # earlier files were dropped before
                handle = os.open(_name(first), os.O_WRONLY, dir_fd=directory)
                try:
                    os.ftruncate(handle, _EMPTIED)
                finally:
                    os.close(handle)

    def _entry(self, number: int) -> bytes | None:
        """The entry of a commit: empty if it is not needed any more, None without a file."""
        first = _file_of(number)
        path = f"{self._directory}/{_name(first)}"
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if os.fstat(handle).st_size == _EMPTIED:
                return b""
            return os.pread(handle, _ENTRY.size, (number - first) * _ENTRY.size).ljust(_ENTRY.size, b"\0")
        except OSError as error:
            error.filename = path  # errors of open files have none
            raise
        finally:
            os.close(handle)


def _file_of(number: int) -> int:
    return number - number % IN_A_FILE


def _name(first: int) -> str:
    return f"{first:012d}.checksums"


def _unpacked(entry: bytes | None) -> int | None:
    return _ENTRY.unpack(entry)[0] or None if entry else None


class DirectoryCommitStore:
    """Commits as files of one directory: `<number>.json`, `<number>.snapshot`, `<number>.checksums`.

    The exclusive create is `link(2)`: a complete file appears under its name, or the call fails if the name is taken.
    File systems without it are an error. `entry`: a file outside of the directory that exists from the first commit on.
    An entry without commits means that commits were lost.
    """

    def __init__(self, application: str, directory: Path, entry: Path | None = None) -> None:
        self.application = application
        self._directory = directory
        self._entry = entry
        self._checksums = FoldedChecksums(directory)

    def path(self, number: int, *, snapshot: bool = False) -> str:
        return f"{self._directory}/{_snapshot(number) if snapshot else _commit(number)}"

    @raises_machine_errors
    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`. Raises UnsupportedFileSystemError too."""
        if number == 1:
            make_directory(self._directory)
        elif not os.path.exists(self.path(number - 1)):
            raise CommitGapError(self.application, number)
        # The content is on the disk before the name exists, so a visible commit is complete even after a power failure.
        temporary = self._write(data)
        try:
            # The link has the same inode. Read before, as the commit may be replaced right after the link.
            identity = _identity(temporary)
            link(temporary, Path(self.path(number)))
        except FileExistsError:
            raise CommitExistsError(self.application, number) from None
        finally:
            temporary.unlink()
        self._reject_folded(number, data)
        # Only now the name is durable, and the commit may be reported.
        sync_directory(self._directory)
        if number == 1:
            self.enter()
        return identity

    @raises_machine_errors
    def read(self, number: int) -> bytes | None:
        try:
            with open(self.path(number), "rb", buffering=0) as file:
                data = file.read()
        except FileNotFoundError:
            return None
        # A commit with a folded number is void: its writer was killed before it could remove it.
        return None if self._checksums.differ(number, crc32(data)) else data

    def identity(self, number: int) -> str | None:
        try:
            return _identity(self.path(number))  # no Path, because drivers call this in every round
        except FileNotFoundError:
            return None

    @raises_machine_errors
    def checksum(self, number: int) -> int | None:
        data = self.read(number)
        return self._checksums.checksum(number) if data is None else crc32(data)

    @raises_machine_errors
    def first(self) -> int:
        return next((number for number in sorted(self._numbers(".json")) if self.read(number) is not None), 0)

    @raises_machine_errors
    def latest(self) -> int:
        """See `CommitStore.latest`. Raises CommitsMissingError."""
        latest = max(self._numbers(".json"), default=0)
        if latest or not self._has_begun():
            return latest
        latest = max(self._numbers(".json"), default=0)  # the first commit may appear between the two calls
        if not latest:
            raise CommitsMissingError(self.application, self._directory, self._entry)
        return latest

    @raises_machine_errors
    def enter(self) -> None:
        """Create the entry, durably, if there are commits. Logs of older versions have commits without an entry."""
        if self._entry is None or self._entry.exists() or not self.first():
            return
        make_directory(self._entry.parent)
        with open(self._entry, "a", opener=opener):
            pass
        sync_directory(self._entry.parent)
        if not self.first():  # the application was dropped meanwhile
            self._entry.unlink(missing_ok=True)

    @raises_machine_errors
    def snapshots(self) -> list[int]:
        return sorted(self._numbers(".snapshot"), reverse=True)

    @raises_machine_errors
    def read_snapshot(self, number: int) -> bytes | None:
        try:
            return (self._directory / _snapshot(number)).read_bytes()
        except FileNotFoundError:
            return None

    @raises_machine_errors
    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        with self._opened() as directory:
            if directory is None or _identity_in(directory, number) != identity:
                return False
            temporary = self._write(data)
            try:
                os.replace(temporary.name, _snapshot(number), src_dir_fd=directory, dst_dir_fd=directory)
            except FileNotFoundError:  # the application was dropped meanwhile: the file is in its successor's directory
                return False
            finally:
                temporary.unlink(missing_ok=True)
            os.fsync(directory)
            return True

    @raises_machine_errors
    def fold(self, before: int, identity: str) -> None:
        with self._opened() as directory:
            if directory is None or _identity_in(directory, before) != identity:
                return
            names = os.listdir(directory)
            commits = sorted(number for number in _numbered(names, ".json") if number < before)
            self._checksums.keep(directory, _checksums_of(directory, commits))
            for number in _numbered(names, ".snapshot"):
                if number < before or _identity_in(directory, number) is None:
                    _remove(directory, _snapshot(number))
            # Lowest first, so that the remaining commits never have a gap.
            for number in commits:
                _remove(directory, _commit(number))

    @raises_machine_errors
    def remove_refused(self) -> None:
        """Remove commits with folded numbers, of writers that were killed before they could do it."""
        with self._opened() as directory:
            if directory is None:
                return
            for number, checksum in _checksums_of(directory, sorted(_numbered(os.listdir(directory), ".json"))):
                if not self._checksums.differ(number, checksum):
                    return
                _remove(directory, _commit(number))

    def _reject_folded(self, number: int, data: bytes) -> None:
        """Remove a commit with a number that was folded while this process was suspended before the link."""
        if self._checksums.differ(number, crc32(data)):
            Path(self.path(number)).unlink(missing_ok=True)
            raise CommitExistsError(self.application, number)

    def _has_begun(self) -> bool:
        """Whether the entry or snapshots prove that there were commits."""
        return (self._entry is not None and self._entry.exists()) or bool(self._numbers(".snapshot"))

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A descriptor of the directory; None if it does not exist.

        A full refresh renames the directory and creates a new one. All work with the descriptor is done in the
        directory that was opened, whatever its name.
        """
        try:
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            yield None
            return
        try:
            yield directory
        except OSError as error:  # its paths are relative to the descriptor
            error.filename = str(self._directory / (error.filename or ""))
            error.filename2 = None
            raise
        finally:
            os.close(directory)

    def _numbers(self, suffix: str) -> list[int]:
        try:
            return _numbered(os.listdir(self._directory), suffix)
        except FileNotFoundError:
            return []

    def _write(self, data: bytes) -> Path:
        path = self._directory / f".{uuid.uuid4().hex}.tmp"
        write_durably(path, data)
        return path


def _commit(number: int) -> str:
    return f"{number:012d}.json"


def _snapshot(number: int) -> str:
    return f"{number:012d}.snapshot"


def _numbered(names: Iterable[str], suffix: str) -> list[int]:
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return [int(stem) for stem in stems if re.fullmatch("[0-9]{12,}", stem)]


def _identity(path: str | Path) -> str:
    return _of_stat(os.stat(path))


def _identity_in(directory: int, number: int) -> str | None:
    try:
        return _of_stat(os.stat(_commit(number), dir_fd=directory))
    except FileNotFoundError:
        return None


def _of_stat(stat: os.stat_result) -> str:
    """A file system may reuse an inode for another file, but then the modification time differs."""
    return f"{stat.st_ino}-{stat.st_mtime_ns}"


def _checksums_of(directory: int, commits: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Numbers and checksums of these commits, without those that another process has removed."""
    for number in commits:
        try:
            handle = os.open(_commit(number), os.O_RDONLY, dir_fd=directory)
        except FileNotFoundError:
            continue
        with open(handle, "rb") as file:
            yield number, crc32(file.read())


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
