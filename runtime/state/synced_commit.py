"""With which commit a store agrees: it may be used as long as that commit is in the log.

A log may be copied, and both may be gone on with; or an older copy takes its place. Its id and the positions of stores
do not tell then whether the changes in a store are those of this log. So the last commit that a store was brought
forward with is noted beside it, before it is. A commit names the driver that claimed the application, its moment and
all that was written, so no other line of commits has one of the same number and bytes, and what comes before it is the
same, too.

A store that version 0.1 has made has no note, and is taken for what it says it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

from ...private_files import make_folder
from ...unusable_paths import unusable_paths_told
from ..log.durable_files import sync_directory, sync_file
from ..log.log import Log
from ..log.records import CommitMark
from .machine import started_at
from .whole_files import write_whole

_SUFFIX = ".commit"
_UNKNOWN = CommitMark("", 0, 0)
"""For a note that cannot be read: no log has this commit."""


@unusable_paths_told
def synced_with(store: Path) -> CommitMark | None:
    """The commit noted for the store of a directory, the last whose changes it may hold; None where there is no note.

    One that cannot be read is of a commit that no log has.
    """
    try:
        content = json.loads(note_of(store).read_text())
        return CommitMark(str(content["application"]), int(content["number"]), int(content["checksum"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN


@unusable_paths_told
def note_sync(store: Path, commit: CommitMark | None) -> None:
    """Say that the store of a directory is about to get changes up to `commit`. None: of an application without any.

    Not brought to the disk, as the store is not either. Never goes back: a driver that was left over does not know all
    that the store holds by now.
    """
    found = synced_with(store)
    if commit is None or found == commit:
        return
    if found is not None and found.application == commit.application and found.number > commit.number:
        return
    make_folder(store.parent)
    write_whole(note_of(store), json.dumps(asdict(commit)))


def keep_note(store: Path) -> None:
    """Bring the note to the disk, as its store was."""
    note = note_of(store)
    if note.exists():
        sync_file(note)
        sync_directory(note.parent)


def is_of(log: Log, store: Path) -> bool:
    """Whether the store of a directory may be used with a log: what it was brought forward with is in it."""
    return (commit := synced_with(store)) is None or has(log, commit)


def has(log: Log, commit: CommitMark) -> bool:
    """Whether a log has this very commit."""
    if not commit.number:
        return False
    data = log.commits(commit.application).read(commit.number)
    return data is not None and crc32(data) == commit.checksum


def noted(directory: Path) -> Iterator[Path]:
    """The stores, `<store>/<partition>` below an application's directory, that have a note, in order."""
    for note in sorted(directory.glob(f"*/.*{_SUFFIX}")):
        yield note.with_name(note.name[1 : -len(_SUFFIX)])


def half_noted(directory: Path) -> Iterator[Path]:
    """Files below an application's directory for notes that processes were killed at which are gone."""
    for path in directory.glob(f"*/.*{_SUFFIX}.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and started_at(int(pid)) is None:
            yield path


def note_of(store: Path) -> Path:
    """The file of the note: beside the store, whose directory is its backend's."""
    return store.with_name(f".{store.name}{_SUFFIX}")
