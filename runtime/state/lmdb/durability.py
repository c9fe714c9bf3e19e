"""Decides whether files that are written without sync can be trusted when they are opened again.

Stores let the operating system write whenever it likes, because the changelog has everything. If a process dies,
nothing is lost. If the machine stops, a file may be torn. So a marker file with the boot id exists from before the
first unsynced write until everything is synced. A marker with another boot id means that the files must not even be
opened. A second marker says that a process has found the files damaged.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ....private_files import write_text
from ...log.durable_files import sync_directory
from ..directories.machine import boot_id
from ..whole_files import write_whole

_MARKER = "unsynced"
_DAMAGED = "damaged"


def is_trusted(directory: Path) -> bool:
    """Whether the files of `directory` are whole, as far as is known.

    Nothing was unsynced when an earlier boot of the machine ended, and nobody has found them damaged.
    """
    if is_damaged(directory):
        return False
    try:
        return (directory / _MARKER).read_text() == boot_id()
    except FileNotFoundError:
        return True


def is_synced(directory: Path) -> bool:
    """Whether the last writer has closed the files, so that everything is on the disk."""
    return not os.path.exists(f"{directory}/{_MARKER}")


def is_damaged(directory: Path) -> bool:
    """Whether a process has found damage in the files."""
    return os.path.exists(f"{directory}/{_DAMAGED}")  # not by a Path: each use of a store asks this


def mark_damaged(directory: Path, reason: str) -> None:
    """Tell all processes that use the files to give them up. A reader may lack the right to write; this is ignored."""
    with suppress(OSError):
        write_text(directory / _DAMAGED, reason)


def damage(directory: Path) -> str:
    """The damage that was found; empty if none."""
    try:
        return (directory / _DAMAGED).read_text()
    except FileNotFoundError:
        return ""


def mark_unsynced(directory: Path) -> None:
    """Record durably that unsynced writes follow. Cheap if it is recorded already."""
    marker = directory / _MARKER
    if marker.exists():
        return
    write_whole(marker, boot_id(), durably=True)
    sync_directory(directory)


def mark_synced(directory: Path) -> None:
    """Record that everything is synced and nobody has written since."""
    (directory / _MARKER).unlink(missing_ok=True)
    sync_directory(directory)
