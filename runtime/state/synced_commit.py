"""Notes beside each store which commit it agrees with. A store may be used as long as that commit is in the log.

A log may be copied, and runs may continue on both; or an older copy may replace it. Then its id and the positions of
stores do not show whether the changes in a store come from this log. So before a store is brought forward, the commit
with the last of those changes is noted beside it. A commit names the driver that claimed the application, the time and
everything that was written. So no other sequence of commits has one with the same number and bytes, and everything
before it is the same, too.

A store that version 0.1 has made has no note and is trusted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from ...private_files import make_folder, path_told
from ...unusable_paths import unusable_paths_told
from ..dataclass_json import parsed
from ..log.commit.records import CommitMark
from ..log.durable_files import sync_directory, sync_file
from ..log.log import Log
from ..log.placed.log import log_of_places
from .whole_files import half_written, write_whole

_SUFFIX = ".commit"
_UNKNOWN = CommitMark("", 0, 0)
"""For a note that cannot be read. No log has this commit."""


_BYTES = 512
"""Of a note, filled up with spaces: what a disk writes as a whole, so a note is the old one or the new one."""

_READS = 10
"""A note with a wrong checksum is read so often: it is either being written, which takes a microsecond, or damaged."""


@unusable_paths_told
def synced_with(store: Path) -> CommitMark | None:
    """The commit noted for the store of a directory, the last one whose changes it may have; None if there is no note.

    For a note that cannot be read it is a commit that no log has.
    """
    try:
        handle = os.open(note_of(store), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        with path_told(note_of(store)):
            return _read(handle)
    finally:
        os.close(handle)


@unusable_paths_told
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
        with path_told(note):
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
