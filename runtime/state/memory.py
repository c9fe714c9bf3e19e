"""Stores in memory: LMDB on a memory file system, or in a temporary directory where there is none.

They outlive the processes that use them but not a boot of the machine; then they are restored from their changelogs.
The state directory only holds a link to the place, so that all processes find it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import psutil

from ...errors import HeadwaterError
from ...private_files import FOLDER, make_folder, write_text
from ...unusable_paths import unusable_paths_told
from .lmdb.store import MAP_SIZE, LmdbStore
from .machine import file_system, mounts
from .store import StoreDamagedError

_MEMORY = Path("/dev/shm")
_LEAST_FREE = 1 << 30
"""Bytes. Containers often have a /dev/shm of 64 MB, and a full one kills who writes there."""

_LINK = "memory"
_OWNER = "owner"


class UntrustedFolderError(HeadwaterError):
    """A folder in memory into which others can have put stores of theirs: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"stores in memory cannot be kept in {path}: {cause}",
            "remove it, or name another folder that only you can write to: `options: {path: ...}` of the store",
        )
        self.path = path
        self.cause = cause


class MemoryBackend:
    """Keeps stores below `path`; None: /dev/shm if that has a gigabyte free, else the directory for temporary files.

    Stores whose state directory is gone are removed when another one is opened. The folder must be the user's own:
    raises UntrustedFolderError.
    """

    def __init__(self, path: str | None = None) -> None:
        self._root = Path(path) if path is not None else _default_root()

    @unusable_paths_told
    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        make_folder(directory)
        link = directory.resolve() / _LINK
        if not link.is_symlink():
            _own(self._root)
            self._remove_abandoned()
            with suppress(FileExistsError):  # Another process may be at it too.
                link.symlink_to(self._root / blake2b(str(link).encode(), digest_size=12).hexdigest())
        place = link.readlink()
        _own(place.parent)
        _own(place)
        if not (place / _OWNER).exists():
            # Never seen half written: a place that names no living owner is removed.
            temporary = place / f"{_OWNER}.{uuid.uuid4().hex}"
            write_text(temporary, str(link))
            temporary.replace(place / _OWNER)
        return LmdbStore(place, MAP_SIZE)

    def open_to_read(self, directory: Path) -> LmdbStore:
        """The store of `directory`; StoreDamagedError where it was lost with the memory that it was in."""
        link = directory.resolve() / _LINK
        if not link.is_symlink() or not link.exists():
            raise StoreDamagedError(directory, "the memory that it was in is gone")
        place = link.readlink()
        for folder in (place.parent, place):
            _refuse_others(folder, directory.stat().st_uid)
        return LmdbStore(place, MAP_SIZE, writable=False)

    def _remove_abandoned(self) -> None:
        for owner in self._root.glob(f"*/{_OWNER}"):
            with suppress(FileNotFoundError):  # Another process may be at it too.
                if not Path(owner.read_text()).is_symlink():
                    shutil.rmtree(owner.parent)


def _own(folder: Path) -> None:
    """Make a folder of our own, or find it as such: others could have put a store of theirs into any other."""
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(FOLDER)
    _refuse_others(folder, os.getuid())
    folder.chmod(FOLDER)  # others may look into one that version 0.1 has made


def _refuse_others(folder: Path, user: int) -> None:
    """Raise UntrustedFolderError where anyone but `user` can have put something into a folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UntrustedFolderError(folder, "it is a link" if stat.S_ISLNK(found.st_mode) else "it is no folder")
    if found.st_uid != user:
        raise UntrustedFolderError(folder, f"it belongs to user {found.st_uid}, not to user {user}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedFolderError(folder, f"others may write to it (mode {stat.S_IMODE(found.st_mode):o})")


def _default_root() -> Path:
    on_memory = file_system(_MEMORY, mounts()) == "tmpfs" and psutil.disk_usage(str(_MEMORY)).free >= _LEAST_FREE
    return (_MEMORY if on_memory else Path(tempfile.gettempdir())) / f"headwater-{os.getuid()}"
