"""The state directory of a client."""

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
from .closed_stores import forget_horizon, half_noted_horizons
from .machine import refuse_network_file_system, started_at
from .offset_checkpoint import half_noted, has, note_of, noted, synced_with, write_whole
from .process_file import ProcessFile

# Folders beside a store in which it is made or removed: `.<folder of the store>_<what>-<process id>`.
#
# A store comes and goes by a rename, so that a crash leaves all of it or nothing. It leaves such a folder, which is
# removed once its process is gone.

_NAME = re.compile(r"\.\w+-(?P<pid>\d{1,9})")

_NOBODY = 0
"""Instead of a process id: no process has it."""


def beside(store: Path, what: str = "") -> Path:
    """This process's own folder beside a store.

    It may be there, left by a killed process with the same id, which is common in containers.
    """
    return _folder(store, what, os.getpid())


def shared_beside(store: Path, what: str) -> Path:
    """A folder beside a store that one process after the other works on, until the client takes its directory again."""
    return _folder(store, what, _NOBODY)


def remove_shared(store: Path) -> None:
    """Remove what several processes have begun to make of a store."""
    for path in store.parent.glob(f".{store.name}_*-{_NOBODY}"):
        shutil.rmtree(path, ignore_errors=True)


def wipe(store: Path) -> None:
    """Remove the folder of a store, if it is there. Only one of two processes does it."""
    doomed = beside(store)
    shutil.rmtree(doomed, ignore_errors=True)
    with suppress(FileNotFoundError):
        store.rename(doomed)
        shutil.rmtree(doomed)


def abandoned(stores: Path) -> Iterator[Path]:
    """The folders that nobody works on, beside all stores below a directory."""
    for path in stores.glob("*/.*-*"):
        found = _NAME.fullmatch(path.name)
        if found is not None and started_at(int(found["pid"])) is None:
            yield path


def _folder(store: Path, what: str, number: int) -> Path:
    return store.with_name(f".{store.name}{what and '_'}{what}-{number}")


# The directories of stores on a client: `<state_dir>/<client>/<application>/<store>/<partition>/`.
#
# They have names and no numbers, so that a store is found even if a new version of the topology numbers its
# subtopologies differently. Beside an application's stores lie its lock file and its process file (see `process_file`).

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
            with naming_path(self.path / LOCK):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), str(os.getpid()).encode())  # a buffer would be written again as it is closed
            self.remove_abandoned()
            yield

    @raises_machine_errors
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


# Checks that the log is the one that the stores of a state directory were made of.


class OtherLogError(HeadwaterError):
    """Stores were made of another log than the configured one. `path`: of the stores. `log`: its place, for people."""

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(
            f"the stores in {path} were made of another log than the one at {log}: that log is missing, not mounted, "
            "or was moved or removed, or lacks its log.json",
            "put the log back, or correct `log:` in profiles.yml; `headwater clean --state` gives the stores up",
        )
        self.path = path
        self.log = log


def place_of(name: str, options: Mapping[str, Any]) -> str:
    """The place of a log for messages, from its plugin's name and options."""
    return readable(str(options.get("path") or options.get("uri") or name))


def check_known(path: Path, identity: str, log: str) -> None:
    """Refuse a log with this `identity` (empty: it has none) if the stores in `path` belong to another one.

    Raises OtherLogError.
    """
    found = ProcessFile.read(path)
    if found is not None and found.log and found.log != identity:
        raise OtherLogError(path, log)


@raises_machine_errors
def check_known_by(state_dir: Path, applications: Iterable[str], identity: str, log: str) -> None:
    """The same for the stores of these applications on all clients below a state directory of this machine.

    Raises OtherLogError, MachineError for a path that cannot be used.
    """
    for application in applications:
        for path in sorted(state_dir.glob(f"*/{application}")):
            check_known(path, identity, log)


# The stores of an application that was renamed: their directories get its new name, so nothing is restored.


def take_over_renamed(
    state_dir: Path,
    application: str,
    former: Collection[str],
    incarnation: str,
    client: str = "*",
    *,
    of_the_gone: bool = False,
) -> None:
    """Give an application the directories that it had on this machine under `former` names.

    `incarnation`: its own. Another application may have taken a former name since: its directories have another one.
    `client`: whose, or a pattern. `of_the_gone`: only those whose owners are gone, for a choice among all that are
    free; else the caller waits for them. Each is one rename. Raises LockError where one is in use.
    """
    for name in sorted(former) if incarnation else ():
        for path in sorted(state_dir.glob(f"{client}/{name}")):
            found, target = ProcessFile.read(path), path.with_name(application)
            if found is None or found.incarnation != incarnation:
                continue
            if of_the_gone and found.owner.is_alive():
                continue
            if target.exists():
                if not of_the_gone:
                    continue
                # Its owner lived longer than the run that has renamed it. Nobody would ever look there again.
                target = new_folder(state_dir, application) / application
            with StateDirectory(state_dir, path.parent.name, name).locked():
                make_folder(target.parent)
                path.rename(target)
            with suppress(OSError):  # it has other applications, or is a link
                path.parent.rmdir()


def new_folder(state_dir: Path, application: str) -> Path:
    """The first folder `client-<number>` in which an application has nothing."""
    folders = (state_dir / f"client-{number}" for number in count(1))
    return next(each for each in folders if not (each / application).exists())


# What the copy of a global table was made of, noted beside it: the rows in it do not say.
#
# The table may get another topic, or its topic other columns, while the copy stays. Then the copy is wiped, and loaded
# again. Source of the layout: `.<store>.columns` beside the folder of the store, as with the notes of `synced_commit`.


def wipe_other_copy(directory: StateDirectory, path: Path, table: GlobalTable) -> None:
    """Wipe the copy at `path` unless it was made of the table's topic, with the columns of now, and note these. Copies
    without a note are wiped too.

    The note comes last: after a kill in between there is no copy that it could be wrong about. Raises OSError.
    """
    note = path.with_name(f".{path.name}.columns")
    made_of = f"{table.topic.writer or ''} {table.topic.name}: {table.store.key}; {table.store.value}"
    try:
        known = note.read_text("utf-8")
    except FileNotFoundError:
        known = ""
    if known != made_of:
        directory.remove_at(path)
        make_folder(path.parent)
        write_whole(note, made_of)


# The stores of results that are computed beside those of applications, in a folder of their own.
#
# They are laid out as the others are. Once such a result has taken the place of the old one, its directories do too,
# with one rename for each. Whoever ends in between, the next run goes on with it; if it cannot, the stores are
# restored.

_FOLDER = "~beside"


def state_dir_beside(state_dir: Path) -> Path:
    """The folder below a state directory. No client has this name."""
    return state_dir / _FOLDER


def take_over_beside(
    state_dir: Path, application: str, incarnation: str, client: str = "*", *, of_the_gone: bool = False
) -> None:
    """Give an application the stores of the result that was computed beside it, if it has taken that over.

    `incarnation`: that of the application now; so its own stores of another one count for nothing any more. `client`:
    whose, or a pattern. `of_the_gone`: only those whose owners are gone; they are removed where the application has got
    other stores meanwhile. Raises LockError where one is in use.
    """
    for path in sorted(state_dir_beside(state_dir).glob(f"{client}/{application}")) if incarnation else ():
        found, target = ProcessFile.read(path), state_dir / path.parent.name / application
        if found is None or found.incarnation != incarnation:
            continue
        there = ProcessFile.read(target)
        if there is not None and there.incarnation == incarnation:
            if of_the_gone and not found.owner.is_alive():  # it lived longer than the run, which has restored them
                with suppress(LockError):  # another client of this machine is just removing them
                    _forget(StateDirectory(state_dir_beside(state_dir), path.parent.name, application))
            continue
        if of_the_gone and any(each is not None and each.owner.is_alive() for each in (found, there)):
            continue
        client_folder = path.parent.name
        with StateDirectory(state_dir_beside(state_dir), client_folder, application).locked():
            if target.exists():
                _forget(StateDirectory(state_dir, client_folder, application))
            make_folder(target.parent)
            if not target.exists():  # else it is a link that somebody has made
                path.rename(target)


def found_with_beside(state_dir: Path, application: str) -> list[StateDirectory]:
    """The directories of an application, or of a pattern, with those of a result that is computed beside it."""
    return [
        each for where in (state_dir, state_dir_beside(state_dir)) for each in StateDirectory.found(where, application)
    ]


def forget_beside(state_dir: Path, application: str) -> None:
    """Remove the stores of a result that nobody wants any more. Raises LockError while they are in use."""
    for directory in StateDirectory.found(state_dir_beside(state_dir), application):
        _forget(directory)


def _forget(directory: StateDirectory) -> None:
    with directory.locked():
        directory.forget()
