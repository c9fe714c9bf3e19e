"""Whether a store can be brought forward by a changelog of which deletions were dropped.

A store that stands before the changelog's horizon (`log.segments.segment.Deletions`) may have rows whose deletions are
gone. It is wiped, and begins again. One that has begun since they were dropped never gets such rows, so it may take
many steps to the horizon, also over several runs. That is what is noted beside a store when it begins: the horizon of
that moment. Other deletions may be dropped while it is on its way; then the horizon is another one.

The note counts during one boot of the machine: afterwards the store may be another one than the note is about, as
neither is synced.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....private_files import make_folder
from ....unusable_paths import unusable_paths_told
from ...tasks.errors import TaskCorruptedError
from ..whole_files import half_written, write_whole
from .machine import boot_id

_SUFFIX = ".horizon"


class DeletionsMissedError(TaskCorruptedError):
    """A store stands at `position` of its changelog, and deletions before `horizon` are dropped by now."""

    def __init__(self, store: str, position: int, horizon: int) -> None:
        cause = f"it stands at position {position} of its changelog, of which deletions before {horizon} are dropped"
        super().__init__(f"store {store} may have rows that are deleted: {cause}", store=store)
        self.position = position
        self.horizon = horizon


@unusable_paths_told
def check_horizon(store: Path, position: int, horizon: int) -> None:
    """Check that the store of a directory can be brought forward from its position. One that begins is noted.

    Raises DeletionsMissedError.
    """
    if not position:
        _note(store, horizon)
    elif position < horizon and _noted(store) != f"{horizon} {boot_id()}":
        raise DeletionsMissedError(store.parent.name, position, horizon)


def forget_horizon(store: Path) -> None:
    """Remove the note: the store of a directory is removed, or becomes another one."""
    note = horizon_note_of(store)
    if note.exists():  # hardly ever: only of a store that begins while deletions are gone
        note.unlink(missing_ok=True)


def half_noted_horizons(directory: Path) -> Iterator[Path]:
    """Files that processes left behind which were killed while writing notes below an application's directory."""
    return half_written(directory, f"*/.*{_SUFFIX}")


def horizon_note_of(store: Path) -> Path:
    """The file of the note, beside the store."""
    return store.with_name(f".{store.name}{_SUFFIX}")


def _note(store: Path, horizon: int) -> None:
    if horizon:
        make_folder(store.parent)
        write_whole(horizon_note_of(store), f"{horizon} {boot_id()}")
    else:
        forget_horizon(store)  # of a store that was here before


def _noted(store: Path) -> str:
    try:
        return horizon_note_of(store).read_text()
    except FileNotFoundError:
        return ""
