"""Chooses the state directory of a client on an executor.

The numbers of executors mean nothing to a disk, so they do not identify a client. The executor's process takes a
directory of the application on its machine whose owner is gone, with all its state, or makes a new one. The owner's
name in the process file keeps others out as long as that process lives, so no lock is held.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from ...private_files import make_folder, opener
from ...unusable_paths import in_utf8, raises_machine_errors
from .directory import StateDirectory, new_folder, take_over_renamed
from .machine import refuse_network_file_system
from .process_file import Owner, ProcessFile

_LOCK = ".claims"


@raises_machine_errors
def claim(state_dir: Path, application: str, owner: Owner, incarnation: str = "", former: Collection[str] = ()) -> str:
    """The client folder below `state_dir` that `owner` has now: the one it had, or a free one, or a new one.

    Of free ones the fullest: that with most stores, then with most bytes. `incarnation`: of the application; stores of
    another one count for nothing, as they are removed. `former`: names that it had before. Raises
    NetworkFileSystemError, MachineError for a path that is not UTF-8.
    """
    make_folder(in_utf8(state_dir))
    refuse_network_file_system(state_dir)
    with open(state_dir / _LOCK, "a", opener=opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # other executors on this machine may do the same now
        take_over_renamed(state_dir, application, former, incarnation, of_the_gone=True)
        paths = sorted(state_dir.glob(f"*/{application}"), key=lambda path: _natural(path.parent.name))
        found = {path.parent.name: ProcessFile.read(path) for path in paths}
        alive = {folder: holder.owner for folder, holder in found.items() if holder and holder.owner.is_alive()}
        mine = [folder for folder, holder in alive.items() if holder.pid == owner.pid]
        free = [folder for folder in found if folder not in alive]
        directories = {folder: StateDirectory(state_dir, folder, application) for folder in free}
        free.sort(key=lambda folder: _fullness(directories[folder], incarnation), reverse=True)
        folder = next(iter((*mine, *free)), None) or new_folder(state_dir, application).name
        ProcessFile.take(state_dir / folder / application, owner)
    return folder


def executor_process(pid: int) -> Owner | None:
    """The process of the executor to which the Python worker `pid` belongs; None if it has ended."""
    try:
        parents = psutil.Process(pid).parents()
    except psutil.NoSuchProcess:
        return None
    # The JVM starts a Python daemon, which forks workers; without the daemon the worker is its own child.
    java = next((parent for parent in parents if parent.name().startswith("java")), None)
    chosen = java or (parents[min(1, len(parents) - 1)] if parents else None)
    return None if chosen is None else Owner.of(chosen.pid)


def _fullness(directory: StateDirectory, incarnation: str) -> tuple[int, int]:
    """Stores and bytes of a directory that nobody has."""
    found = ProcessFile.read(directory.path)
    if found is None or (incarnation and found.incarnation and found.incarnation != incarnation):
        return 0, 0
    stores = directory.stores()
    return len(stores), sum(map(_size, map(directory.store_path, stores)))


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_blocks * 512
    return size


def _natural(name: str) -> list[int | str]:
    """A sort key that puts client-10 after client-9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
