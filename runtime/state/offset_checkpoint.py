"""Checkpoints of stores."""

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
from .machine import started_at

# Replaces small files as a whole, and removes temporary files of writers that were killed.


def write_whole(path: Path, text: str, *, durably: bool = False, tidily: bool = True) -> None:
    """Replace a file, so that readers find the old text or the new one. `durably`: the text reaches the disk first.

    Removes temporary files of other processes, which were killed. A process id does not show whether its process still
    runs, because containers that share a folder have their own ids. So a process whose file was removed writes again.
    `tidily`: not for a file that is written all the time beside many others, as this looks at all names of the folder;
    then whoever owns the folder removes what `half_written` finds. Raises OSError.
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
            continue  # another writer has removed the file; if the whole folder is gone, `open` raises
    for name in os.listdir(path.parent) if tidily else ():
        if name.startswith(f"{path.name}.") and name.rpartition(".")[2].isdecimal():
            (path.parent / name).unlink(missing_ok=True)


def half_written(folder: Path, names: str) -> Iterator[Path]:
    """Files that `write_whole` has left behind because its process was killed. `names`: a pattern of `Path.glob`, of
    the files that were to be replaced.
    """
    for path in folder.glob(f"{names}.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and started_at(int(pid)) is None:
            yield path


# The file that says up to where stores have applied their changelogs.
#
# The format is that of Kafka Streams' checkpoint files, version 0 (`OffsetCheckpoint` of Kafka Streams 4.0): lines of
# UTF-8 with the version, the number of entries, and for each entry topic, partition and offset. An offset is that of
# the last record that was applied; UNKNOWN says that none was, as far as is known. A file is replaced as a whole, and
# is on the disk before it can be seen.

NAME = ".checkpoint"
"""The file's name. No store may have it."""

UNKNOWN = -4
"""Instead of an offset: nothing is known to be applied."""

_VERSION = 0

Changelog = tuple[str, int]
"""The topic and the partition of a changelog."""


class CheckpointError(HeadwaterError):
    """A checkpoint file is not as it was written, or an offset cannot be written down: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"checkpoint file {path}: {cause}")
        self.path = path
        self.cause = cause


class OffsetCheckpoint:
    """One checkpoint file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Changelog, int]:
        """The offsets; empty without a file. Entries with an offset that is none are passed over.

        Raises CheckpointError, OSError.
        """
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise CheckpointError(self.path, "it is no text") from error
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
        """Replace the file; without any offsets it is deleted. Raises CheckpointError for an offset that is none."""
        for (topic, partition), offset in offsets.items():
            if not _is_valid(offset):
                raise CheckpointError(self.path, f"{offset} is no offset of {topic} {partition}")
        if not offsets:
            self.delete()
            return
        entries = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
        write_whole(self.path, "".join([f"{_VERSION}\n{len(entries)}\n", *entries]), durably=True)
        sync_directory(self.path.parent)

    def delete(self) -> None:
        """Remove the file, on the disk too. There may be none."""
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)

    def stamp(self) -> tuple[int, int] | None:
        """What tells this file from those that replace it; None without a file."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise CheckpointError(self.path, f"{text!r} is no number") from None


def offset_of(position: int) -> int:
    """The offset that stands for a store's position."""
    return position - 1 if position else UNKNOWN


def position_of(offset: int) -> int:
    """The position of a store for which an offset was written."""
    return 0 if offset == UNKNOWN else offset + 1


def _is_valid(offset: int) -> bool:
    return offset >= 0 or offset == UNKNOWN


# Notes beside each store which commit it agrees with. A store may be used as long as that commit is in the log.
#
# A log may be copied, and runs may continue on both; or an older copy may replace it. Then its id and the positions of
# stores do not show whether the changes in a store come from this log. So before a store is brought forward, the commit
# with the last of those changes is noted beside it. A commit names the driver that claimed the application, the time
# and everything that was written. So no other sequence of commits has one with the same number and bytes, and
# everything before it is the same, too.
#
# A store that version 0.1 has made has no note and is trusted.

_SUFFIX = ".commit"
_UNKNOWN = CommitMark("", 0, 0)
"""For a note that cannot be read. No log has this commit."""


_BYTES = 512
"""Of a note, filled up with spaces: what a disk writes as a whole, so a note is the old one or the new one."""

_READS = 10
"""A note with a wrong checksum is read so often: it is either being written, which takes a microsecond, or damaged."""


@raises_machine_errors
def synced_with(store: Path) -> CommitMark | None:
    """The commit noted for the store of a directory, the last one whose changes it may have; None if there is no note.

    For a note that cannot be read it is a commit that no log has.
    """
    try:
        handle = os.open(note_of(store), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        with naming_path(note_of(store)):
            return _read(handle)
    finally:
        os.close(handle)


@raises_machine_errors
def note_sync(store: Path, commit: CommitMark | None) -> None:
    """Note that the store of a directory is about to get changes up to `commit`. None: the application has no commits.

    The note is not synced to the disk, as the store is not either. It never goes back: an outdated driver does not know
    all that the store has by now.
    """
    if commit is None:
        return
    note = note_of(store)
    try:
        handle = os.open(note, os.O_RDWR)
    except FileNotFoundError:
        make_folder(store.parent)
        # All notes of a client's stores may lie in one folder.
        write_whole(note, _text(commit), tidily=False)
        return
    try:
        with naming_path(note):
            found, text = _read(handle), _text(commit).encode()
            if found == commit or (found.application == commit.application and found.number > commit.number):
                return
            if os.fstat(handle).st_size == len(text) == _BYTES:
                # In its place: each epoch does this for each store, and a new file costs a hundred times as much.
                os.pwrite(handle, text, 0)
            else:
                write_whole(note, text.decode(), tidily=False)
    finally:
        os.close(handle)


def _read(handle: int) -> CommitMark:
    for _ in range(_READS):
        found = _commit(os.pread(handle, os.fstat(handle).st_size, 0))
        if found is not _UNKNOWN:
            break
    return found


def _text(commit: CommitMark) -> str:
    return json.dumps({**vars(commit), "crc32": _checksum(commit)}).ljust(_BYTES)


def _commit(text: bytes) -> CommitMark:
    """The commit of a note. Notes of earlier versions have no checksum of their own."""
    try:
        content = parsed(text)
        found = CommitMark(str(content["application"]), int(content["number"]), int(content["checksum"]))
        whole = content.get("crc32") in (None, _checksum(found))
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN
    return found if whole else _UNKNOWN


def _checksum(commit: CommitMark) -> int:
    return crc32(json.dumps(vars(commit)).encode())


def keep_note(store: Path) -> None:
    """Sync the note to the disk, after its store."""
    note = note_of(store)
    if note.exists():
        sync_file(note)
        sync_directory(note.parent)


def is_of(log: Log, store: Path) -> bool:
    """Whether the store of a directory may be used with a log: the log has the noted commit."""
    return (commit := synced_with(store)) is None or has(log, commit)


def has(log: Log, commit: CommitMark) -> bool:
    """Whether a log has exactly this commit, which may be folded."""
    if not commit.number:
        return False
    return log_of_places(log).commits(commit.application).checksum(commit.number) == commit.checksum


def noted(directory: Path) -> Iterator[Path]:
    """The stores with a note, `<store>/<partition>` below an application's directory, sorted."""
    for note in sorted(directory.glob(f"*/.*{_SUFFIX}")):
        yield note.with_name(note.name[1 : -len(_SUFFIX)])


def half_noted(directory: Path) -> Iterator[Path]:
    """Files that processes left behind which were killed while writing notes below an application's directory."""
    return half_written(directory, f"*/.*{_SUFFIX}")


def note_of(store: Path) -> Path:
    """The file of the note. It is beside the store, because the store's directory belongs to its backend."""
    return store.with_name(f".{store.name}{_SUFFIX}")
