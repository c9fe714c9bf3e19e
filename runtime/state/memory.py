"""Stores in memory: LMDB on a memory file system, or in a temporary directory where there is none.

They outlive the processes that use them but not a boot of the machine; then they are restored from their changelogs.
The state directory only holds a link to the place, so that all processes find it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import psutil

from .lmdb import MAP_SIZE, LmdbStore
from .machine import file_system, mounts
from .store import StoreDamagedError

_MEMORY = Path("/dev/shm")
_LEAST_FREE = 1 << 30
"""Bytes. Containers often have a /dev/shm of 64 MB, and a full one kills who writes there."""

_LINK = "memory"
_OWNER = "owner"


class MemoryBackend:
    """Keeps stores below `path`; None: /dev/shm if that has a gigabyte free, else the directory for temporary files.

    Stores whose state directory is gone are removed when another one is opened.
    """

    def __init__(self, path: str | None = None) -> None:
        self._root = Path(path) if path is not None else _default_root()

    def open(self, directory: Path) -> LmdbStore:
        """The store of `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        link = directory.resolve() / _LINK
        if not link.is_symlink():
            self._remove_abandoned()
            with suppress(FileExistsError):  # Another process may be at it too.
                link.symlink_to(self._root / blake2b(str(link).encode(), digest_size=12).hexdigest())
        place = link.readlink()
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (place / _OWNER).exists():
            # Never seen half written: a place that names no living owner is removed.
            temporary = place / f"{_OWNER}.{uuid.uuid4().hex}"
            temporary.write_text(str(link))
            temporary.replace(place / _OWNER)
        return LmdbStore(place, MAP_SIZE)

    def open_to_read(self, directory: Path) -> LmdbStore:
        """The store of `directory`; StoreDamagedError where it was lost with the memory that it was in."""
        place = directory.resolve() / _LINK
        if not place.is_symlink() or not place.exists():
            raise StoreDamagedError(directory, "the memory that it was in is gone")
        return LmdbStore(place.readlink(), MAP_SIZE, writable=False)

    def _remove_abandoned(self) -> None:
        for owner in self._root.glob(f"*/{_OWNER}"):
            with suppress(FileNotFoundError):  # Another process may be at it too.
                if not Path(owner.read_text()).is_symlink():
                    shutil.rmtree(owner.parent)


def _default_root() -> Path:
    on_memory = file_system(_MEMORY, mounts()) == "tmpfs" and psutil.disk_usage(str(_MEMORY)).free >= _LEAST_FREE
    return (_MEMORY if on_memory else Path(tempfile.gettempdir())) / f"headwater-{os.getuid()}"
