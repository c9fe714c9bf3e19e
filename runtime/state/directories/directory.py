"""The directories of stores on a client: `<state_dir>/<client>/<application>/<store>/<partition>/`.

They have names and no numbers, so that a store is found even if a new version of the topology numbers its
subtopologies differently. Beside an application's stores lie its lock file and its process file (see `process_file`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TextIO

from ....errors import MachineError
from ....private_files import make_folder, opener
from ....unusable_paths import unusable_paths_told
from ...log.commit.records import CommitMark
from ...log.log import Log
from ...task_id import StoreId
from ...tasks.errors import LockError
from ..synced_commit import half_noted, has, note_of, noted, synced_with
from .half_made import abandoned, remove_shared, wipe
from .horizon import forget_horizon, half_noted_horizons
from .machine import refuse_network_file_system
from .process_file import ProcessFile

LOCK = ".lock"


class LostLockError(MachineError):
    """The lock file of a directory is a symbolic link to `target`, which is not there and cannot be made."""

    def __init__(self, path: Path, target: str) -> None:
        super().__init__(str(path), errno.ENOENT, f"it is a symbolic link to {target}, whose folder is not there")
        self.hint = "remove the link: a lock file is made when it is needed"
        self.target = target


class StateDirectory:
    """The stores of one application on one client. It creates directories only when a store or a lock needs them."""

    def __init__(self, state_dir: Path, client: str, application: str) -> None:
        self.client_path = state_dir / client
        self.path = self.client_path / application
        self.application = application

    @classmethod
    def found(cls, state_dir: Path, application: str) -> list[Self]:
        """The directories of an application on all clients below `state_dir`.

        `application`: a name, or a pattern of `Path.glob`. Only folders with a lock file or process file of Headwater
        count. Other folders with such a name are not Headwater's.
        """
        paths = sorted(state_dir.glob(f"*/{application}"))
        return [
            cls(state_dir, path.parent.name, path.name)
            for path in paths
            if (path / LOCK).is_file() or ProcessFile.is_in(path)
        ]

    def store_path(self, store: StoreId) -> Path:
        """The store's own directory, which may not exist."""
        return self.path / store.store / str(store.partition)

    def stores(self) -> list[StoreId]:
        """The stores that have a directory, sorted. Other files are ignored."""
        found = [
            StoreId(partition.parent.name, int(partition.name))
            for partition in self.path.glob("*/*")
            if partition.name.isdecimal() and partition.is_dir()
        ]
        return sorted(found)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the application's directory. The operating system releases it when the process dies.

        Raises LockError, which names the holder, NetworkFileSystemError if locks are not reliable there, and
        MachineError for what lies in the place of the lock file.
        """
        with self._lock_file() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip()
                raise LockError(str(self.path), int(holder) if holder.isdecimal() else None) from None
            # Only now: the file still named the holder for the error above.
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self.remove_abandoned()
            yield

    @unusable_paths_told
    def _lock_file(self) -> TextIO:
        make_folder(self.path)
        refuse_network_file_system(self.path)
        path = self.path / LOCK
        try:
            return open(path, "a+", opener=opener)
        except FileNotFoundError as error:
            if not path.is_symlink():
                raise
            raise LostLockError(path, os.readlink(path)) from error

    def remove(self, store: StoreId) -> None:
        """Wipe a store, see `remove_at`."""
        self.remove_at(self.store_path(store))

    def remove_at(self, path: Path) -> None:
        """Wipe the store in a directory, which may be a global table's.

        A crash leaves either the store or nothing. The note of its commit is removed last (see `synced_commit`).
        """
        wipe(path)
        remove_shared(path)
        forget_horizon(path)
        note_of(path).unlink(missing_ok=True)

    def rename(self, stores: Mapping[str, str]) -> None:
        """Give the directories of stores their new names, with the notes of their commits: a rename for each."""
        for old, new in stores.items():
            if not (self.path / new).exists():
                with suppress(FileNotFoundError):
                    (self.path / old).rename(self.path / new)

    def remove_foreign(self, log: Log) -> dict[str, int]:
        """Wipe the stores that were made with commits which `log` does not have.

        Returns `<store>/<partition>` of each, with the number of that commit.
        """
        known: dict[CommitMark, bool] = {}
        removed: dict[str, int] = {}
        for path in noted(self.path):
            commit = synced_with(path)
            if commit is None:
                continue
            if commit not in known:
                known[commit] = has(log, commit)
            if not known[commit]:
                if path.exists():
                    removed[f"{path.parent.name}/{path.name}"] = commit.number
                self.remove_at(path)
        return removed

    def remove_abandoned(self) -> None:
        """Remove what processes that are gone began to wipe, to copy or to load, and notes that they had only begun to
        write.
        """
        for path in abandoned(self.path):
            shutil.rmtree(path, ignore_errors=True)
        for path in (*half_noted(self.path), *half_noted_horizons(self.path)):
            path.unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Wipe all stores of the application, including global tables. Its lock file and process file stay."""
        for store in self.stores():
            self.remove(store)
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path)

    def forget(self) -> None:
        """Remove the directory, and the client's folder if nothing else is in it.

        If the application's folder is a link, its target is emptied, and the link stays for the next run.
        """
        if self.path.is_symlink():
            for path in self.path.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            return
        shutil.rmtree(self.path)
        with suppress(OSError):  # it has other applications, or is a link
            self.client_path.rmdir()

    def clean(self, unused: Iterable[StoreId], delay_s: float, now: float | None = None) -> list[StoreId]:
        """Remove those of the stores that were not touched for `delay_s` seconds, and empty folders. What was removed.

        `now`: seconds since 1970.
        """
        now = time.time() if now is None else now
        there = set(self.stores())
        removed = [store for store in unused if store in there and self._touched(store) < now - delay_s]
        for store in removed:
            self.remove(store)
        for folder in self.path.iterdir() if self.path.is_dir() else ():
            if folder.is_dir() and not folder.is_symlink():
                with suppress(OSError):  # it is not empty
                    folder.rmdir()
        return removed

    def _touched(self, store: StoreId) -> float:
        path, found = self.store_path(store), [0.0]
        for file in (path, *path.iterdir()):
            with suppress(FileNotFoundError):
                found.append(file.stat().st_mtime)
        return max(found)
