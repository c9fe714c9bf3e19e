"""Stores that no task has open."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...private_files import make_folder
from ...unusable_paths import raises_machine_errors
from ..dataclass_json import parsed
from ..task_id import StoreId
from ..tasks.errors import TaskCorruptedError
from .machine import boot_id
from .offset_checkpoint import half_written, write_whole

# A note of where stores stood when a client closed them, so that the next run need not open them to know.
#
# It holds for a store as long as its files are the same: their names, sizes, times and inodes. Another copy that was
# put in its place, or a file that somebody has changed, is opened and looked at. Files with locks do not count: whoever
# only reads a store may change them.

_NAME = ".closed.json"
_LOCKS = "lock"


def note_closed(directory: Path, positions: Mapping[StoreId, int], place: Callable[[StoreId], Path]) -> None:
    """Note these positions in an application's directory. `place`: where a store is."""
    noted = [[*_named(store), position, _files(place(store))] for store, position in positions.items()]
    write_whole(directory / _NAME, json.dumps(noted))


def closed_at(directory: Path, stores: Iterable[StoreId], place: Callable[[StoreId], Path]) -> dict[StoreId, int]:
    """The positions of those of the stores that are as they were when they were closed."""
    try:
        noted = {(name, partition): (at, files) for name, partition, at, files in parsed(_read(directory))}
    except (OSError, ValueError, TypeError):
        return {}
    found: dict[StoreId, int] = {}
    for store in stores:
        position, files = noted.get(_named(store), (None, None))
        if isinstance(position, int) and files and files == _files(place(store)):
            found[store] = position
    return found


def _read(directory: Path) -> str:
    return (directory / _NAME).read_text()


def _named(store: StoreId) -> tuple[str, int]:
    return store.store, store.partition


def _files(store: Path) -> list[list[Any]]:
    """What tells whether the files of a store are the same; empty if they cannot be looked at."""
    with suppress(OSError):
        return sorted(
            [entry.name, stat.st_size, stat.st_mtime_ns, stat.st_ino]
            for entry in os.scandir(store)
            if not entry.name.lower().startswith(_LOCKS)
            for stat in [entry.stat()]
        )
    return []


# Whether a store can be brought forward by a changelog of which deletions were dropped.
#
# A store that stands before the changelog's horizon (`log.segments.segment.Deletions`) may have rows whose deletions
# are gone. It is wiped, and begins again. One that has begun since they were dropped never gets such rows, so it may
# take many steps to the horizon, also over several runs. That is what is noted beside a store when it begins: the
# horizon of that moment. Other deletions may be dropped while it is on its way; then the horizon is another one.
#
# The note counts during one boot of the machine: afterwards the store may be another one than the note is about, as
# neither is synced.

_SUFFIX = ".horizon"


class DeletionsMissedError(TaskCorruptedError):
    """A store stands at `position` of its changelog, and deletions before `horizon` are dropped by now."""

    def __init__(self, store: str, position: int, horizon: int) -> None:
        cause = f"it stands at position {position} of its changelog, of which deletions before {horizon} are dropped"
        super().__init__(f"store {store} may have rows that are deleted: {cause}", store=store)
        self.position = position
        self.horizon = horizon


@raises_machine_errors
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
