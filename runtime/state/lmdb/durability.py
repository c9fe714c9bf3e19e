"""Whether files that are written without sync can still be trusted when they are opened again.

Stores let the operating system write when it likes: their truth is the changelog. A process that dies loses nothing
by that; a machine that stops may leave a torn file. So a marker with the boot id lies beside the files from before
the first unsynced write until all is synced, and a marker of another boot means: do not even open them. Another marker
says that somebody has found the files damaged.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ....private_files import write_text
from ...log.durable_files import sync_directory
from ..machine import boot_id
from ..whole_files import write_whole

_MARKER = "unsynced"
_DAMAGED = "damaged"


def is_trusted(directory: Path) -> bool:
    """Whether the files of `directory` are whole, as far as is known: nothing was unsynced when another boot of the
    machine ended, and nobody has found them damaged.
    """
    if is_damaged(directory):
        return False
    try:
        return (directory / _MARKER).read_text() == boot_id()
    except FileNotFoundError:
        return True


def is_synced(directory: Path) -> bool:
    """Whether whoever wrote last has closed the files, and with them everything is on the disk."""
    return not (directory / _MARKER).exists()


def is_damaged(directory: Path) -> bool:
    """Whether somebody has found damage in the files."""
    return (directory / _DAMAGED).exists()


def mark_damaged(directory: Path, reason: str) -> None:
    """Say, for all processes that use the files, that they are to be given up. A reader may not be allowed to."""
    with suppress(OSError):
        write_text(directory / _DAMAGED, reason)


def damage(directory: Path) -> str:
    """What was found; empty when nothing was."""
    try:
        return (directory / _DAMAGED).read_text()
    except FileNotFoundError:
        return ""


def mark_unsynced(directory: Path) -> None:
    """Say, durably, that unsynced writes follow. Cheap when said already."""
    marker = directory / _MARKER
    if marker.exists():
        return
    write_whole(marker, boot_id(), durably=True)
    sync_directory(directory)


def mark_synced(directory: Path) -> None:
    """Say that everything was synced and nobody has written since."""
    (directory / _MARKER).unlink(missing_ok=True)
    sync_directory(directory)
