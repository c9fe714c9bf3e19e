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
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ...private_files import make_folder
from ...unusable_paths import unusable_paths_told
from ..log.commit_records import CommitMark
from ..log.durable_files import sync_directory, sync_file
from ..log.log import Log
from ..log.placed.log import log_of_places
from .whole_files import half_written, write_whole

_SUFFIX = ".commit"
_UNKNOWN = CommitMark("", 0, 0)
"""For a note that cannot be read. No log has this commit."""


@unusable_paths_told
def synced_with(store: Path) -> CommitMark | None:
    """The commit noted for the store of a directory, the last one whose changes it may have; None if there is no note.

    For a note that cannot be read it is a commit that no log has.
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
    """Note that the store of a directory is about to get changes up to `commit`. None: the application has no commits.

    The note is not synced to the disk, as the store is not either. It never goes back: an outdated driver does not know
    all that the store has by now.
    """
    found = synced_with(store)
    if commit is None or found == commit:
        return
    if found is not None and found.application == commit.application and found.number > commit.number:
        return
    make_folder(store.parent)
    # Each epoch writes one for each store, and all notes of a client's stores may lie in one folder.
    write_whole(note_of(store), json.dumps(asdict(commit)), tidily=False)


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
