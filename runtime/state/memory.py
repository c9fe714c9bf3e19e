"""Stores in memory: LMDB on a memory file system, or in a temporary directory if there is none.

They survive the processes that use them, but not a boot of the machine. Then they are restored from their changelogs.
The state directory has only a link to the store's folder, so that all processes find it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

from ...errors import HeadwaterError
from ...private_files import FOLDER, make_folder, write_text
from ...unusable_paths import raises_machine_errors
from .lmdb.store import MAP_SIZE, LmdbBackend, LmdbStore
from .machine import file_system, mounts
from .store import StoreDamagedError

_MEMORY = Path("/dev/shm")
_LEAST_FREE = 1 << 30
"""In bytes. Containers often have a /dev/shm of 64 MB, and writing to a full one through a map kills the process."""

_LINK = "memory"
_OWNER = "owner"


class UntrustedFolderError(HeadwaterError):
    """A folder in memory in which other users could have put stores: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"stores in memory cannot be kept in {path}: {cause}",
            "remove it, or name another folder that only you can write to: `options: {path: ...}` of the store",
        )
        self.path = path
        self.cause = cause


class MemoryBackend:
    """Keeps stores below `path`. None: /dev/shm if it has a gigabyte free, else the directory for temporary files.

    Opening a store removes the stores of deleted state directories. The folder must belong to the user; else
    UntrustedFolderError is raised. A CopyingBackend.
    """

    copy_form = LmdbBackend.copy_form

    def __init__(self, path: str | None = None) -> None:
        self._root = Path(path) if path is not None else memory_folder() / f"headwater-{os.getuid()}"

    @raises_machine_errors
    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        make_folder(directory)
        link = directory.resolve() / _LINK
        if not link.is_symlink():
            _require_own_folder(self._root)
            self._remove_abandoned()
            with suppress(FileExistsError):  # another process may create it at the same time
                link.symlink_to(self._root / uuid.uuid4().hex)  # a random name, as the directory may be renamed
        folder = link.readlink()
        _require_own_folder(folder.parent)
        _require_own_folder(folder)
        if _owner(folder) != str(link):
            # In one step: other processes remove a folder with an owner file that names no existing link.
            temporary = folder / f"{_OWNER}.{uuid.uuid4().hex}"
            write_text(temporary, str(link))
            temporary.replace(folder / _OWNER)
        return LmdbStore(folder, MAP_SIZE)

    def open_to_read(self, directory: Path) -> LmdbStore:
        """The store of `directory`. Raises StoreDamagedError if it was lost with its memory."""
        link = directory.resolve() / _LINK
        if not link.is_symlink() or not link.exists():
            raise StoreDamagedError(directory, "the memory that it was in is gone")
        folder = link.readlink()
        for trusted in (folder.parent, folder):
            _reject_other_users(trusted, directory.stat().st_uid)
        return LmdbStore(folder, MAP_SIZE, writable=False)

    def save_copy(self, directory: Path, file: Path) -> int:
        """See `CopyingBackend.save_copy`."""
        return LmdbBackend().save_copy(self._memory_folder(directory), file)

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """See `CopyingBackend.load_copy`."""
        store_folder = self._memory_folder(directory)
        owner = (store_folder / _OWNER).read_text()
        LmdbBackend().load_copy(store_folder, position, file, lambda folder: write_text(folder / _OWNER, owner))

    def _memory_folder(self, directory: Path) -> Path:
        """The folder in memory of a directory's store. It is created if it does not exist."""
        self.open(directory)
        return (directory.resolve() / _LINK).readlink()

    def _remove_abandoned(self) -> None:
        for owner in self._root.glob(f"*/{_OWNER}"):
            with suppress(FileNotFoundError):  # another process may remove it at the same time
                if not Path(owner.read_text()).is_symlink():
                    shutil.rmtree(owner.parent)


def _owner(folder: Path) -> str | None:
    """The link through which a folder was opened last; None if it never was."""
    with suppress(FileNotFoundError):
        return (folder / _OWNER).read_text()
    return None


def _require_own_folder(folder: Path) -> None:
    """Create a folder, or check that it belongs to the user. Other users could have put a store into any other one."""
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(FOLDER)
    _reject_other_users(folder, os.getuid())
    folder.chmod(FOLDER)  # version 0.1 created folders that other users can read


def _reject_other_users(folder: Path, user: int) -> None:
    """Raise UntrustedFolderError if anybody but `user` could have written to a folder."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UntrustedFolderError(folder, "it is a link" if stat.S_ISLNK(status.st_mode) else "it is no folder")
    if status.st_uid != user:
        raise UntrustedFolderError(folder, f"it belongs to user {status.st_uid}, not to user {user}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedFolderError(folder, f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})")


def memory_folder() -> Path:
    """/dev/shm, or the folder for temporary files if /dev/shm has too little space."""
    on_memory = file_system(_MEMORY, mounts()) == "tmpfs" and psutil.disk_usage(str(_MEMORY)).free >= _LEAST_FREE
    return _MEMORY if on_memory else Path(tempfile.gettempdir())
