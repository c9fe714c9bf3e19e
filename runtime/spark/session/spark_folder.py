"""The folder for what a process hands to Spark, and for what Spark itself keeps for a while: of its own, gone with it,
and with the next one if it was killed.

A process holds a lock on its folder as long as it lives; the kernel lets go of it when it ends, however it ends. A
process id would not do: containers that share a folder for temporary files have ids of their own each. Programs that
clear away old temporary files heed such a lock, too (https://systemd.io/TEMPORARY_DIRECTORIES).
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


def spark_folder() -> Path:
    """Make one, for this user only; remove those of processes that are gone. Raises OSError."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or being removed by another process
            _remove_left(path)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _locked(folder) is not None:  # else another process has taken it for one that was left
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def _remove_left(folder: Path) -> None:
    """Remove a folder whose process is gone. Raises OSError."""
    handle = _locked(folder)
    if handle is not None:
        try:
            shutil.rmtree(folder)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """An open, locked handle of a folder of this user's; None where another process has it, or has removed it.

    Raises OSError where it is not a folder.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
