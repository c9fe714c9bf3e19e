"""Files beside stores: checkpoint files, and commit marks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

from ...errors import HeadwaterError
from ...private_files import make_folder, naming_path, opener
from ...unusable_paths import raises_machine_errors
from ..dataclass_json import parsed
from ..log.commit.records import CommitMark
from ..log.durable_files import sync_directory, sync_file
from ..log.log import Log
from ..log.placed_log import log_of_places
from ..task_id import UNKNOWN_OFFSET
from .machine import started_at

# Replaces small files atomically, and removes temporary files of killed processes.


def write_whole(path: Path, text: str, *, durably: bool = False, tidily: bool = True) -> None:
    """Replace a file, so that readers find the old text or the new one. `durably`: sync the text to the disk first.

    It removes temporary files of other processes, which should be killed ones. A process id does not show whether the
    process still runs, because containers with a common folder have their own ids. So a process writes again if its
    file was removed. `tidily`: False for frequent writes in a folder with many files, as all names are listed; then the
    owner of the folder removes `leftover_files`. Raises OSError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    while True:
        with naming_path(temporary), open(temporary, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        try:
            temporary.replace(path)
            break
        except FileNotFoundError:
            continue  # another process has removed the file; if the folder is gone, `open` raises
    for name in os.listdir(path.parent) if tidily else ():
        if name.startswith(f"{path.name}.") and name.rpartition(".")[2].isdecimal():
            (path.parent / name).unlink(missing_ok=True)


def leftover_files(folder: Path, names: str) -> Iterator[Path]:
    """Temporary files of `write_whole` of ended processes. `names`: a `Path.glob` pattern of the files to replace."""
    for path in folder.glob(f"{names}.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and started_at(int(pid)) is None:
            yield path


# The checkpoint file of a store: the position up to which its changelog is applied.
#
# The format is that of Kafka Streams' checkpoint files, version 0 (`OffsetCheckpoint` of Kafka Streams 4.0): lines of
# UTF-8 with the version, the number of entries, and for each entry topic, partition and offset. An offset is the one of
# the last applied record, or UNKNOWN_OFFSET. The file is replaced atomically, and synced to the disk before it is
# visible.

NAME = ".checkpoint"
"""The file's name. No store may have it."""

_VERSION = 0

Changelog = tuple[str, int]
"""The topic and the partition of a changelog."""


class CheckpointError(HeadwaterError):
    """A checkpoint file is damaged, or an offset to write is invalid: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"checkpoint file {path}: {cause}")
        self.path = path
        self.cause = cause


class OffsetCheckpoint:
    """One checkpoint file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Changelog, int]:
        """The offsets; empty without a file. Entries with an invalid offset are ignored. Raises CheckpointError,
        OSError."""
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise CheckpointError(self.path, "it is not UTF-8 text") from error
        version, expected = (self._number(line) for line in [*lines, "", ""][:2])
        if version != _VERSION:
            raise CheckpointError(self.path, f"its version is {version}; this is known: {_VERSION}")
        offsets: dict[Changelog, int] = {}
        for line in lines[2:]:
            fields = line.split()
            if len(fields) != 3:
                raise CheckpointError(self.path, f"an entry has {len(fields)} fields instead of 3")
            offset = self._number(fields[2])
            if _is_valid(offset):
                offsets[fields[0], self._number(fields[1])] = offset
            else:
                expected -= 1
        if len(offsets) != expected:
            raise CheckpointError(self.path, f"it has {len(offsets)} entries instead of {expected}")
        return offsets

    def write(self, offsets: Mapping[Changelog, int]) -> None:
        """Replace the file; without any offsets it is deleted. Raises CheckpointError for an invalid offset."""
        for (topic, partition), offset in offsets.items():
            if not _is_valid(offset):
                raise CheckpointError(self.path, f"{offset} is not a valid offset of {topic} {partition}")
        if not offsets:
            self.delete()
            return
        entries = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
        write_whole(self.path, "".join([f"{_VERSION}\n{len(entries)}\n", *entries]), durably=True)
        sync_directory(self.path.parent)

    def delete(self) -> None:
        """Remove the file, if it exists, and sync the folder."""
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)

    def stamp(self) -> tuple[int, int] | None:
        """Inode and time (ns), which identify this version of the file; None without a file."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise CheckpointError(self.path, f"{text!r} is not a number") from None


def offset_of(position: int) -> int:
    """The offset of the last record before `position`; UNKNOWN_OFFSET for position 0."""
    return position - 1 if position else UNKNOWN_OFFSET


def position_of(offset: int) -> int:
    """The inverse: the position after the record at `offset`."""
    return 0 if offset == UNKNOWN_OFFSET else offset + 1


def _is_valid(offset: int) -> bool:
    return offset >= 0 or offset == UNKNOWN_OFFSET


# The commit mark of a store: the last commit with changes in it, in a file beside the store. The store may be used only
# with a log that has this commit.
#
# A log may be copied, and runs may continue on both copies; or an older copy may replace it. Then neither the log's id
# nor the store's position shows whether the changes of the store come from this log. So the commit of the last change
# is written beside a store before the store is brought forward. A commit names the driver that claimed the application,
# the time and everything written. So no other sequence of commits has one with the same number and bytes, and
# everything before it is the same, too.
#
# A store of version 0.1 has no commit mark and is trusted.

_SUFFIX = ".commit"
_UNKNOWN = CommitMark("", 0, 0)
"""For a file that cannot be read. No log has this commit."""


_BYTES = 512
"""The size of the file, filled with spaces. A disk writes 512 bytes atomically, so readers see the old or the new
one."""

_READS = 10
"""Attempts to read a file with a wrong checksum: it is either being written, which takes a microsecond, or damaged."""


@raises_machine_errors
def read_commit_mark(store: Path) -> CommitMark | None:
    """The commit mark of the store in a directory; None without one. For an unreadable one: a commit that no log
    has."""
    try:
        handle = os.open(commit_mark_path(store), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        with naming_path(commit_mark_path(store)):
            return _read(handle)
    finally:
        os.close(handle)


@raises_machine_errors
def write_commit_mark(store: Path, commit: CommitMark | None) -> None:
    """Write that the store in a directory is about to get changes up to `commit`. None: the application has no commits.

    The file is not synced, because the store is not synced either. The number never decreases: an outdated driver does
    not know the newest commits.
    """
    if commit is None:
        return
    path = commit_mark_path(store)
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        make_folder(store.parent)
        # Not tidily: one folder may have the commit marks of many stores.
        write_whole(path, _text(commit), tidily=False)
        return
    try:
        with naming_path(path):
            current, text = _read(handle), _text(commit).encode()
            if current == commit or (current.application == commit.application and current.number > commit.number):
                return
            if os.fstat(handle).st_size == len(text) == _BYTES:
                # In place: every epoch does this for every store, and a new file costs a hundred times as much.
                os.pwrite(handle, text, 0)
            else:
                write_whole(path, text.decode(), tidily=False)
    finally:
        os.close(handle)


def _read(handle: int) -> CommitMark:
    for _ in range(_READS):
        commit = _commit(os.pread(handle, os.fstat(handle).st_size, 0))
        if commit is not _UNKNOWN:
            break
    return commit


def _text(commit: CommitMark) -> str:
    return json.dumps({**vars(commit), "crc32": _checksum(commit)}).ljust(_BYTES)


def _commit(text: bytes) -> CommitMark:
    """The commit in a file's text. Files of earlier versions have no checksum of their own."""
    try:
        content = parsed(text)
        commit = CommitMark(str(content["application"]), int(content["number"]), int(content["checksum"]))
        sound = content.get("crc32") in (None, _checksum(commit))
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN
    return commit if sound else _UNKNOWN


def _checksum(commit: CommitMark) -> int:
    return crc32(json.dumps(vars(commit)).encode())


def sync_commit_mark(store: Path) -> None:
    """Sync the commit mark to the disk, after its store."""
    path = commit_mark_path(store)
    if path.exists():
        sync_file(path)
        sync_directory(path.parent)


def belongs_to_log(log: Log, store: Path) -> bool:
    """Whether the store in a directory may be used with a log: the log has the commit of its commit mark."""
    return (commit := read_commit_mark(store)) is None or log_has_commit(log, commit)


def log_has_commit(log: Log, commit: CommitMark) -> bool:
    """Whether a log has exactly this commit, which may be folded into a snapshot."""
    if not commit.number:
        return False
    return log_of_places(log).commits(commit.application).checksum(commit.number) == commit.checksum


def stores_with_commit_mark(directory: Path) -> Iterator[Path]:
    """The directories `<store>/<partition>` below an application's directory with a commit mark, sorted."""
    for path in sorted(directory.glob(f"*/.*{_SUFFIX}")):
        yield path.with_name(path.name[1 : -len(_SUFFIX)])


def leftover_commit_marks(directory: Path) -> Iterator[Path]:
    """Temporary commit marks of killed processes, below an application's directory."""
    return leftover_files(directory, f"*/.*{_SUFFIX}")


def commit_mark_path(store: Path) -> Path:
    """The file of a store's commit mark. It is beside the store, as the store's directory belongs to its backend."""
    return store.with_name(f".{store.name}{_SUFFIX}")
