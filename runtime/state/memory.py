"""Stores in memory: LMDB on a memory file system, or in a temporary directory if there is none.

They survive the processes that use them, but not a boot of the machine. Then they are restored from their changelogs.
The state directory contains only a link to the place, so that all processes find it.
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
from .lmdb import store as copies
from .lmdb.store import MAP_SIZE, LmdbStore
from .machine import file_system, mounts
from .store import StoreDamagedError

_MEMORY = Path("/dev/shm")
_LEAST_FREE = 1 << 30
"""In bytes. Containers often have a /dev/shm of 64 MB, and writing to a full one through a map kills the process."""

_LINK = "memory"
_OWNER = "owner"


class UntrustedFolderError(HeadwaterError):
    """A folder in memory in which others could have put their own stores: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"stores in memory cannot be kept in {path}: {cause}",
            "remove it, or name another folder that only you can write to: `options: {path: ...}` of the store",
        )
        self.path = path
        self.cause = cause


class MemoryBackend:
    """Keeps stores below `path`. None: /dev/shm if it has a gigabyte free, otherwise the directory for temporary files.

    Stores whose state directory is gone are removed when another one is opened. The folder must belong to the user;
    raises UntrustedFolderError otherwise. A CopyingBackend.
    """

    copy_form = copies.FORM

    def __init__(self, path: str | None = None) -> None:
        self._root = Path(path) if path is not None else memory_folder() / f"headwater-{os.getuid()}"

    @raises_machine_errors
    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        make_folder(directory)
        link = directory.resolve() / _LINK
        if not link.is_symlink():
            _own(self._root)
            self._remove_abandoned()
            with suppress(FileExistsError):  # Another process may be at it too.
                link.symlink_to(self._root / uuid.uuid4().hex)  # of no name: the directory may be renamed
        place = link.readlink()
        _own(place.parent)
        _own(place)
        if _owner(place) != str(link):
            # Written in one step: a place whose owner file names no existing link is removed by others.
            temporary = place / f"{_OWNER}.{uuid.uuid4().hex}"
            write_text(temporary, str(link))
            temporary.replace(place / _OWNER)
        return LmdbStore(place, MAP_SIZE)

    def open_to_read(self, directory: Path) -> LmdbStore:
        """The store of `directory`. Raises StoreDamagedError if it was lost with its memory."""
        link = directory.resolve() / _LINK
        if not link.is_symlink() or not link.exists():
            raise StoreDamagedError(directory, "the memory that it was in is gone")
        place = link.readlink()
        for folder in (place.parent, place):
            _refuse_others(folder, directory.stat().st_uid)
        return LmdbStore(place, MAP_SIZE, writable=False)

    def save_copy(self, directory: Path, file: Path) -> int:
        """See `CopyingBackend.save_copy`."""
        return copies.save_copy(self._place(directory), MAP_SIZE, file)

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """See `CopyingBackend.load_copy`."""
        place = self._place(directory)
        owner = (place / _OWNER).read_text()
        copies.load_copy(place, MAP_SIZE, position, file, lambda folder: write_text(folder / _OWNER, owner))

    def _place(self, directory: Path) -> Path:
        """Where in memory the store of a directory is, which is made if there is none."""
        self.open(directory)
        return (directory.resolve() / _LINK).readlink()

    def _remove_abandoned(self) -> None:
        for owner in self._root.glob(f"*/{_OWNER}"):
            with suppress(FileNotFoundError):  # Another process may be at it too.
                if not Path(owner.read_text()).is_symlink():
                    shutil.rmtree(owner.parent)


def _owner(place: Path) -> str | None:
    """The link that led to a place when it was opened last; None if it never was."""
    with suppress(FileNotFoundError):
        return (place / _OWNER).read_text()
    return None


def _own(folder: Path) -> None:
    """Create a folder, or check that it is the user's own. In any other folder another user could have put a store."""
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(FOLDER)
    _refuse_others(folder, os.getuid())
    folder.chmod(FOLDER)  # version 0.1 made folders that others can read


def _refuse_others(folder: Path, user: int) -> None:
    """Raise UntrustedFolderError if anybody but `user` could have put something into a folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UntrustedFolderError(folder, "it is a link" if stat.S_ISLNK(found.st_mode) else "it is no folder")
    if found.st_uid != user:
        raise UntrustedFolderError(folder, f"it belongs to user {found.st_uid}, not to user {user}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedFolderError(folder, f"others may write to it (mode {stat.S_IMODE(found.st_mode):o})")


def memory_folder() -> Path:
    """A folder in memory, or the one for temporary files if there is none with enough room."""
    on_memory = file_system(_MEMORY, mounts()) == "tmpfs" and psutil.disk_usage(str(_MEMORY)).free >= _LEAST_FREE
    return _MEMORY if on_memory else Path(tempfile.gettempdir())
