"""Chooses the state directory of a client on an executor.

A new executor has a new number, so numbers do not identify the state on a disk. The executor's process takes over a
directory of the application on its machine with an ended owner, or creates a new one. The owner in the process file
keeps other processes out while it runs, so no lock is needed.
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
from .machine import reject_network_file_system
from .process_file import Owner, ProcessFile

_LOCK = ".claims"


@raises_machine_errors
def claim(state_dir: Path, application: str, owner: Owner, incarnation: str = "", former: Collection[str] = ()) -> str:
    """Make `owner` the owner of a client folder below `state_dir`: of its own, a free or a new one. Returns its name.

    Of the free ones it takes the one with most stores, then with most bytes. `incarnation`: of the application; stores
    of another one do not count, because they are removed. `former`: earlier names of the application. Raises
    NetworkFileSystemError, and MachineError for a path that is not UTF-8.
    """
    make_folder(in_utf8(state_dir))
    reject_network_file_system(state_dir)
    with open(state_dir / _LOCK, "a", opener=opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # other executors on this machine may claim a folder at the same time
        take_over_renamed(state_dir, application, former, incarnation, without_owner=True)
        paths = sorted(state_dir.glob(f"*/{application}"), key=lambda path: _natural(path.parent.name))
        files = {path.parent.name: ProcessFile.read(path) for path in paths}
        alive = {folder: file.owner for folder, file in files.items() if file and file.owner.is_alive()}
        own = [folder for folder, folder_owner in alive.items() if folder_owner.pid == owner.pid]
        free = [folder for folder in files if folder not in alive]
        directories = {folder: StateDirectory(state_dir, folder, application) for folder in free}
        free.sort(key=lambda folder: _fullness(directories[folder], incarnation), reverse=True)
        folder = next(iter((*own, *free)), None) or new_folder(state_dir, application).name
        ProcessFile.take(state_dir / folder / application, owner)
    return folder


def executor_process(pid: int) -> Owner | None:
    """The executor process of the Python worker `pid`; None if the worker has ended."""
    try:
        parents = psutil.Process(pid).parents()
    except psutil.NoSuchProcess:
        return None
    # The JVM starts a Python daemon, which forks workers. Without the daemon a worker is a child of the JVM.
    java = next((parent for parent in parents if parent.name().startswith("java")), None)
    chosen = java or (parents[min(1, len(parents) - 1)] if parents else None)
    return None if chosen is None else Owner.from_pid(chosen.pid)


def _fullness(directory: StateDirectory, incarnation: str) -> tuple[int, int]:
    """Number of stores and bytes of a free directory."""
    file = ProcessFile.read(directory.path)
    if file is None or (incarnation and file.incarnation and file.incarnation != incarnation):
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
    """A sort key with client-10 after client-9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
