"""Metadata beside closed stores: their positions, and delete horizons."""

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
from .offset_checkpoint import leftover_files, write_whole

# A file with the positions of stores as a client closed them, so that the next run need not open the stores.
#
# An entry is valid while the store's files are the same: names, sizes, times and inodes. If a file was changed, or the
# store was replaced by a copy, the store is opened instead. Lock files do not count, because readers change them too.

_NAME = ".closed.json"
_LOCKS = "lock"


def write_closed_positions(
    directory: Path, positions: Mapping[StoreId, int], store_path: Callable[[StoreId], Path]
) -> None:
    """Write these positions to an application's directory. `store_path`: the directory of a store."""
    entries = [
        [store.store, store.partition, position, _files(store_path(store))] for store, position in positions.items()
    ]
    write_whole(directory / _NAME, json.dumps(entries))


def read_closed_positions(
    directory: Path, stores: Iterable[StoreId], store_path: Callable[[StoreId], Path]
) -> dict[StoreId, int]:
    """The positions of the stores that have not changed since they were closed."""
    try:
        closed = parsed((directory / _NAME).read_text())
        entries = {StoreId(name, partition): (at, files) for name, partition, at, files in closed}
    except (OSError, ValueError, TypeError):
        return {}
    positions: dict[StoreId, int] = {}
    for store in stores:
        position, files = entries.get(store, (None, None))
        if isinstance(position, int) and files and files == _files(store_path(store)):
            positions[store] = position
    return positions


def _files(store: Path) -> list[list[Any]]:
    """Name, size, time (ns) and inode of each file of a store; empty if they cannot be read."""
    with suppress(OSError):
        return sorted(
            [entry.name, stat.st_size, stat.st_mtime_ns, stat.st_ino]
            for entry in os.scandir(store)
            if not entry.name.lower().startswith(_LOCKS)
            for stat in [entry.stat()]
        )
    return []


# Whether a store can be brought forward by a changelog from which deletions were dropped.
#
# A store before the changelog's delete horizon (`log.segments.segment.Deletions`) may have rows with deletions that are
# gone. It is wiped and restored from the start. A store that was empty when the deletions were dropped never gets such
# rows, so it may reach the horizon in many steps, also over several runs. So the horizon at the start of a restore is
# written to a file beside the store. If more deletions are dropped during the restore, the horizon is another one.
#
# The file is valid during one boot of the machine only: neither it nor the store is synced, so after another boot it
# may belong to another state of the store.

_SUFFIX = ".horizon"


class DeletionsMissedError(TaskCorruptedError):
    """A store is at `position` of its changelog, from which deletions before `horizon` were dropped."""

    def __init__(self, store: str, position: int, horizon: int) -> None:
        cause = f"it is at position {position} of its changelog, from which deletions before {horizon} were dropped"
        super().__init__(f"store {store} may have rows that are deleted: {cause}", store=store)
        self.position = position
        self.horizon = horizon


@raises_machine_errors
def check_horizon(store: Path, position: int, horizon: int) -> None:
    """Check that a store can be brought forward from its position. `store`: its directory.

    The horizon of an empty store is written to its file. Raises DeletionsMissedError.
    """
    if not position:
        _write_horizon(store, horizon)
    elif position < horizon and _read_horizon(store) != f"{horizon} {boot_id()}":
        raise DeletionsMissedError(store.parent.name, position, horizon)


def delete_horizon(store: Path) -> None:
    """Remove the horizon file of a store that is removed or replaced. `store`: its directory."""
    path = horizon_path(store)
    if path.exists():  # rare: only if the restore started after deletions were dropped
        path.unlink(missing_ok=True)


def leftover_horizon_files(directory: Path) -> Iterator[Path]:
    """Temporary horizon files of killed processes, below an application's directory."""
    return leftover_files(directory, f"*/.*{_SUFFIX}")


def horizon_path(store: Path) -> Path:
    """The horizon file of a store, beside its directory."""
    return store.with_name(f".{store.name}{_SUFFIX}")


def _write_horizon(store: Path, horizon: int) -> None:
    if horizon:
        make_folder(store.parent)
        write_whole(horizon_path(store), f"{horizon} {boot_id()}")
    else:
        delete_horizon(store)  # of an earlier store


def _read_horizon(store: Path) -> str:
    try:
        return horizon_path(store).read_text()
    except FileNotFoundError:
        return ""
