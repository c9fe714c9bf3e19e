"""A folder for the files that a process gives to Spark, and for Spark's own temporary files.

It is removed when the process ends. If the process was killed, the next one removes it.

A process holds a lock on its folder, which the kernel releases when the process ends in any way. A process id would not
do, because containers that share a folder for temporary files each have their own ids. Programs that remove old
temporary files respect such a lock, too (https://systemd.io/TEMPORARY_DIRECTORIES).
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "headwater-spark-"

_LONGEST_SOCKET = 103
"""Bytes that the path of a socket may have: on Linux 107, on macOS 103."""


def spark_folder() -> Path:
    """Create a folder for this user only. Remove folders of processes that are gone. Raises OSError."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or another process is removing it
            _remove_left(path)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _locked(folder) is not None:  # else another process took it for an abandoned one
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def sockets_in(folder: Path) -> dict[str, str]:
    """Settings with which the JVM and its Python processes talk through files of a folder of this user; none if its
    path is too long for that.

    Over TCP a job takes 35 ms longer, a third of a small epoch (docs/measurements.md). Neither side asks the system to
    send small writes at once, so it keeps them back until the one before is confirmed, which may take 40 ms.
    """
    if len(os.fsencode(folder / ".12345678-1234-1234-1234-123456789abc.sock")) > _LONGEST_SOCKET:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _remove_left(folder: Path) -> None:
    """Remove a folder whose process is gone. Raises OSError."""
    handle = _locked(folder)
    if handle is not None:
        try:
            shutil.rmtree(folder)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """An open, locked handle of a folder of this user; None if another process has the lock or has removed the folder.

    Raises OSError if it is not a folder.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between `open` and `flock` another process may have removed the folder and made a new one of this name.
        found, there = os.fstat(handle), folder.stat()
        if os.path.samestat(found, there) and stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid():
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
