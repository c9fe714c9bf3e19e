"""The state directory of a client: its layout, locks, cleaning and renames."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self, TextIO

from ...errors import HeadwaterError, MachineError
from ...private_files import make_folder, naming_path, opener
from ...readable_text import readable
from ...unusable_paths import raises_machine_errors
from ..ir.topology import GlobalTable
from ..log.commit.records import CommitMark
from ..log.log import Log
from ..task_id import StoreId
from ..tasks.errors import LockError
from .closed_stores import delete_horizon, leftover_horizon_files
from .machine import reject_network_file_system, started_at
from .offset_checkpoint import (
    commit_mark_path,
    leftover_commit_marks,
    log_has_commit,
    read_commit_mark,
    stores_with_commit_mark,
    write_whole,
)
from .process_file import ProcessFile

# Work folders beside a store, in which it is created or removed: `.<folder of the store>_<what>-<process id>`.
#
# A store appears and disappears by a rename, so a crash leaves the whole store or nothing of it. The work folder that a
# crash leaves is removed once its process is gone.

_NAME = re.compile(r"\.\w+-(?P<pid>\d{1,9})")

_NO_PROCESS = 0
"""The process id in the name of a folder that belongs to no process."""


def work_folder(store: Path, what: str = "") -> Path:
    """This process's own work folder for a store.

    It may exist: a killed process may have had the same id, which is common in containers.
    """
    return _folder(store, what, os.getpid())


def shared_work_folder(store: Path, what: str) -> Path:
    """A work folder that several processes use one after the other, until the client claims its directory again."""
    return _folder(store, what, _NO_PROCESS)


def remove_shared_work_folders(store: Path) -> None:
    """Remove the shared work folders of a store."""
    for path in store.parent.glob(f".{store.name}_*-{_NO_PROCESS}"):
        shutil.rmtree(path, ignore_errors=True)


def wipe(store: Path) -> None:
    """Remove the folder of a store, if it exists. Of two concurrent processes only one removes it."""
    doomed = work_folder(store)
    shutil.rmtree(doomed, ignore_errors=True)
    with suppress(FileNotFoundError):
        store.rename(doomed)
        shutil.rmtree(doomed)


def abandoned_work_folders(stores: Path) -> Iterator[Path]:
    """The work folders of ended processes, for all stores below a directory."""
    for path in stores.glob("*/.*-*"):
        match = _NAME.fullmatch(path.name)
        if match is not None and started_at(int(match["pid"])) is None:
            yield path


def _folder(store: Path, what: str, number: int) -> Path:
    return store.with_name(f".{store.name}{what and '_'}{what}-{number}")


# The directories of stores on a client: `<state_dir>/<client>/<application>/<store>/<partition>/`.
#
# The path has the store's name and not the subtopology's number, because a new version of the topology may number its
# subtopologies differently. The application's directory also has its lock file and its process file (`process_file`).

LOCK = ".lock"


class LostLockError(MachineError):
    """The lock file of a directory is a symbolic link to `target`, which is missing and cannot be created."""

    def __init__(self, path: Path, target: str) -> None:
        super().__init__(str(path), errno.ENOENT, f"it is a symbolic link to {target}, whose folder is not there")
        self.hint = "remove the link: a lock file is created when it is needed"
        self.target = target


class StateDirectory:
    """The stores of one application on one client. It creates directories only when a store or a lock needs them."""

    def __init__(self, state_dir: Path, client: str, application: str) -> None:
        self.client_path = state_dir / client
        self.path = self.client_path / application
        self.application = application

    @classmethod
    def find_all(cls, state_dir: Path, application: str) -> list[Self]:
        """The directories of an application on all clients below `state_dir`.

        `application`: a name, or a pattern of `Path.glob`. A folder without a lock file and a process file does not
        belong to Headwater and is ignored.
        """
        paths = sorted(state_dir.glob(f"*/{application}"))
        return [
            cls(state_dir, path.parent.name, path.name)
            for path in paths
            if (path / LOCK).is_file() or ProcessFile.exists_in(path)
        ]

    def store_path(self, store: StoreId) -> Path:
        """The directory of a store. It may not exist."""
        return self.path / store.store / str(store.partition)

    def stores(self) -> list[StoreId]:
        """The stores with a directory, sorted. Other files are ignored."""
        stores = [
            StoreId(partition.parent.name, int(partition.name))
            for partition in self.path.glob("*/*")
            if partition.name.isdecimal() and partition.is_dir()
        ]
        return sorted(stores)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the application's directory. The operating system releases the lock when the process ends.

        Raises LockError with the process that has the lock, NetworkFileSystemError if locks are not reliable there, and
        MachineError if the lock file cannot be used.
        """
        with self._lock_file() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip()
                raise LockError(str(self.path), int(holder) if holder.isdecimal() else None) from None
            # Not before: the file names the other process for the error above.
            with naming_path(self.path / LOCK):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), str(os.getpid()).encode())  # a buffer would be written again as it is closed
            self.remove_abandoned()
            yield

    @raises_machine_errors
    def _lock_file(self) -> TextIO:
        make_folder(self.path)
        reject_network_file_system(self.path)
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
        """Wipe the store in a directory. It may be a global table's.

        A crash leaves the whole store or nothing of it. Its commit mark is removed last (see `offset_checkpoint`).
        """
        wipe(path)
        remove_shared_work_folders(path)
        delete_horizon(path)
        commit_mark_path(path).unlink(missing_ok=True)

    def rename(self, stores: Mapping[str, str]) -> None:
        """Rename the directories of stores, with their commit marks. `stores`: old name -> new name."""
        for old, new in stores.items():
            if not (self.path / new).exists():
                with suppress(FileNotFoundError):
                    (self.path / old).rename(self.path / new)

    def remove_foreign(self, log: Log) -> dict[str, int]:
        """Wipe the stores with commits that `log` does not have.

        Returns the numbers of these commits by `<store>/<partition>`.
        """
        in_log: dict[CommitMark, bool] = {}
        removed: dict[str, int] = {}
        for path in stores_with_commit_mark(self.path):
            commit = read_commit_mark(path)
            if commit is None:
                continue
            if commit not in in_log:
                in_log[commit] = log_has_commit(log, commit)
            if not in_log[commit]:
                if path.exists():
                    removed[f"{path.parent.name}/{path.name}"] = commit.number
                self.remove_at(path)
        return removed

    def remove_abandoned(self) -> None:
        """Remove work folders and temporary files of ended processes."""
        for path in abandoned_work_folders(self.path):
            shutil.rmtree(path, ignore_errors=True)
        for path in (*leftover_commit_marks(self.path), *leftover_horizon_files(self.path)):
            path.unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Wipe all stores of the application, global tables too. Its lock file and process file stay."""
        for store in self.stores():
            self.remove(store)
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path)

    def delete(self) -> None:
        """Remove the directory, and the client's folder if it is empty then.

        If the application's folder is a link, its target is emptied, and the link stays for the next run.
        """
        if self.path.is_symlink():
            for path in self.path.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            return
        shutil.rmtree(self.path)
        with suppress(OSError):  # it is not empty, or a link
            self.client_path.rmdir()

    def clean(self, unused: Iterable[StoreId], delay_s: float, now: float | None = None) -> list[StoreId]:
        """Remove the `unused` stores that were not touched for `delay_s` seconds, and empty folders.

        `now`: seconds since 1970. Returns the removed stores. Source: `cleanRemovedTasks` of Kafka Streams.
        """
        now = time.time() if now is None else now
        existing = set(self.stores())
        removed = [store for store in unused if store in existing and self._touched_at(store) < now - delay_s]
        for store in removed:
            self.remove(store)
        for folder in self.path.iterdir() if self.path.is_dir() else ():
            if folder.is_dir() and not folder.is_symlink():
                with suppress(OSError):  # it is not empty
                    folder.rmdir()
        return removed

    def _touched_at(self, store: StoreId) -> float:
        path, times = self.store_path(store), [0.0]
        for file in (path, *path.iterdir()):
            with suppress(FileNotFoundError):
                times.append(file.stat().st_mtime)
        return max(times)


# Checks that the stores of a state directory belong to the configured log.


class OtherLogError(HeadwaterError):
    """Stores belong to another log than the configured one. `path`: of the stores. `log`: its location, for display."""

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(
            f"the stores in {path} belong to another log than the one at {log}: that log is missing, not mounted, "
            "or was moved or removed, or lacks its log.json",
            "put the log back, or correct `log:` in profiles.yml; `headwater clean --state` drops the stores",
        )
        self.path = path
        self.log = log


def log_location(name: str, options: Mapping[str, Any]) -> str:
    """The location of a log for messages, from its plugin's name and options."""
    return readable(str(options.get("path") or options.get("uri") or name))


def check_same_log(path: Path, identity: str, log: str) -> None:
    """Raise OtherLogError if the stores in `path` belong to a log with another `identity` (empty: it has none)."""
    process_file = ProcessFile.read(path)
    if process_file is not None and process_file.log and process_file.log != identity:
        raise OtherLogError(path, log)


@raises_machine_errors
def check_same_log_for(state_dir: Path, applications: Iterable[str], identity: str, log: str) -> None:
    """The same for the stores of these applications on all clients below a state directory of this machine.

    Raises OtherLogError, MachineError for a path that cannot be used.
    """
    for application in applications:
        for path in sorted(state_dir.glob(f"*/{application}")):
            check_same_log(path, identity, log)


# The stores of a renamed application: their directories get its new name, so nothing is restored.


def take_over_renamed(
    state_dir: Path,
    application: str,
    former: Collection[str],
    incarnation: str,
    client: str = "*",
    *,
    without_owner: bool = False,
) -> None:
    """Rename the directories that an application has on this machine under `former` names.

    `incarnation`: of the application. It differs for an application that has a former name of this one now. `client`: a
    folder or a pattern. `without_owner`: only directories with an ended owner; else the caller waits for the owners.
    Each directory is one rename. Raises LockError if one is in use.
    """
    for name in sorted(former) if incarnation else ():
        for path in sorted(state_dir.glob(f"{client}/{name}")):
            process_file, target = ProcessFile.read(path), path.with_name(application)
            if process_file is None or process_file.incarnation != incarnation:
                continue
            if without_owner and process_file.owner.is_alive():
                continue
            if target.exists():
                if not without_owner:
                    continue
                # Its owner outlived the run that renamed the application. Under this name it would never be found.
                target = new_folder(state_dir, application) / application
            with StateDirectory(state_dir, path.parent.name, name).lock():
                make_folder(target.parent)
                path.rename(target)
            with suppress(OSError):  # it is not empty, or a link
                path.parent.rmdir()


def new_folder(state_dir: Path, application: str) -> Path:
    """The first folder `client-<number>` without a directory of the application."""
    folders = (state_dir / f"client-{number}" for number in count(1))
    return next(folder for folder in folders if not (folder / application).exists())


# The topic and columns of a global table's store, in a file beside it: its rows do not name them.
#
# The table may get another topic, or its topic other columns. Then the store is wiped and loaded again. The file is
# `.<store>.columns` beside the folder of the store.


def wipe_outdated_copy(directory: StateDirectory, path: Path, table: GlobalTable) -> None:
    """Wipe the store at `path` unless its file has the table's current topic and columns, and write the file. A store
    without the file is wiped too.

    The file is written last: after a kill in between there is no store that it could be wrong about. Raises OSError.
    """
    columns_file = path.with_name(f".{path.name}.columns")
    current = f"{table.topic.writer or ''} {table.topic.name}: {table.store.key}; {table.store.value}"
    try:
        columns = columns_file.read_text("utf-8")
    except FileNotFoundError:
        columns = ""
    if columns != current:
        directory.remove_at(path)
        make_folder(path.parent)
        write_whole(columns_file, current)


# The stores of rebuilds, in a folder of their own.
#
# They have the layout of other stores. When a rebuild replaces the old result, its directories replace the old ones,
# with one rename each. After a crash in between the next run continues; if it cannot, the stores are restored.

_FOLDER = "~beside"


def rebuild_state_dir(state_dir: Path) -> Path:
    """The folder of rebuilds below a state directory. No client has this name."""
    return state_dir / _FOLDER


def take_over_rebuild(
    state_dir: Path, application: str, incarnation: str, client: str = "*", *, without_owner: bool = False
) -> None:
    """Replace the stores of an application by those of its rebuild, if the rebuild has replaced its result.

    `incarnation`: the application's current one. Its stores of another incarnation are void. `client`: a folder or a
    pattern. `without_owner`: only directories with an ended owner; they are removed if the application has new stores
    already. Raises LockError if a directory is in use.
    """
    for path in sorted(rebuild_state_dir(state_dir).glob(f"{client}/{application}")) if incarnation else ():
        rebuilt, target = ProcessFile.read(path), state_dir / path.parent.name / application
        if rebuilt is None or rebuilt.incarnation != incarnation:
            continue
        current = ProcessFile.read(target)
        if current is not None and current.incarnation == incarnation:
            if without_owner and not rebuilt.owner.is_alive():  # it outlived the run, which has restored the stores
                with suppress(LockError):  # another client of this machine is removing them
                    _lock_and_delete(StateDirectory(rebuild_state_dir(state_dir), path.parent.name, application))
            continue
        if without_owner and any(file is not None and file.owner.is_alive() for file in (rebuilt, current)):
            continue
        client_folder = path.parent.name
        with StateDirectory(rebuild_state_dir(state_dir), client_folder, application).lock():
            if target.exists():
                _lock_and_delete(StateDirectory(state_dir, client_folder, application))
            make_folder(target.parent)
            if not target.exists():  # else it is a link made by the user
                path.rename(target)


def find_with_rebuilds(state_dir: Path, application: str) -> list[StateDirectory]:
    """The directories of an application, or of a pattern, with those of its rebuild."""
    return [
        directory
        for parent in (state_dir, rebuild_state_dir(state_dir))
        for directory in StateDirectory.find_all(parent, application)
    ]


def delete_rebuild(state_dir: Path, application: str) -> None:
    """Remove the stores of a cancelled rebuild. Raises LockError while they are in use."""
    for directory in StateDirectory.find_all(rebuild_state_dir(state_dir), application):
        _lock_and_delete(directory)


def _lock_and_delete(directory: StateDirectory) -> None:
    with directory.lock():
        directory.delete()
