"""Files that outlast a crash, and files that nothing lists."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from zlib import crc32

from ...errors import HeadwaterError
from ...private_files import make_folder, opener
from ..timed_parts import timed
from .errors import UnsupportedFileSystemError
from .log import Log
from .state import LogState

# Writes files that are whole and on the disk before anyone can see them.


def check_directory(directory: Path) -> None:
    """Check that `directory` can hold commits. Raises UnsupportedFileSystemError."""
    make_folder(directory)
    first = directory / f".{uuid.uuid4().hex}.tmp"
    second = directory / f".{uuid.uuid4().hex}.tmp"
    first.touch()
    try:
        # Some network and FUSE file systems refuse `link`. This is found here, not at the first commit.
        link(first, second)
        second.unlink()
    finally:
        first.unlink()


def link(source: Path, target: Path) -> None:
    """Make a hard link. Raises FileExistsError, or UnsupportedFileSystemError if the file system has no hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError as error:
        # The error is about the source, which another process has removed, and not about the file system.
        if not source.exists():
            raise
        raise UnsupportedFileSystemError(str(target.parent), os.strerror(error.errno or 0)) from error


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Write a whole new file and bring it to the disk. After a failure its part is removed.

    Raises FileExistsError if the path is taken, OSError with the path if the disk refuses it.
    """
    with write_new(path, data) as file, timed("fsync"):
        sync_new(path, file)


def write_new(path: Path, data: bytes | memoryview) -> FileIO:
    """Write a whole new file, for `sync_new` to bring it to the disk. After a failure its part is removed.

    Raises FileExistsError if the path is taken, OSError with the path.
    """
    # Unbuffered: all bytes are with the system before `fsync`, and errors are raised by `write`, not by `close`.
    file = open(path, "xb", buffering=0, opener=opener)  # noqa: SIM115 - the caller closes it
    try:
        with _removed_if_refused(path):
            # An unbuffered write may take a part only: Linux writes at most 2 GiB in one call.
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
    except OSError:
        file.close()
        raise
    return file


def sync_new(path: Path, file: FileIO) -> None:
    """Bring a new file to the disk. It is removed if the disk refuses it. Raises OSError with the path."""
    with _removed_if_refused(path):
        os.fsync(file.fileno())


@contextmanager
def _removed_if_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        error.filename = error.filename or str(path)  # an OSError of `write` or `fsync` has no path
        raise


def make_directory(directory: Path) -> None:
    """Make a directory and those above it, with their entries on the disk. Only the owner can read new ones."""
    # A folder's entry is in the folder above it, so that one is synced.
    for made in make_folder(directory):
        sync_directory(made.parent)


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with timed("fsync"):
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(directory: Path) -> None:
    """Bring the directory's entries to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with timed("fsync"):
            os.fsync(handle)
    finally:
        os.close(handle)


# Reads whole files of the local file system: snapshots of stores.

_PIECE = 1 << 20
"""Bytes: what a processor's cache holds, so that a piece is summed and written from there."""


def summed(path: Path) -> tuple[int, int]:
    """Size and crc32 of a file."""
    size, checksum = 0, 0
    for piece in pieces(path):
        size, checksum = size + len(piece), crc32(piece, checksum)
    return size, checksum


def pieces(path: Path, start: int = 0) -> Iterator[memoryview]:
    """The file's content from a byte on; each piece until the next is asked for."""
    data = memoryview(bytearray(_PIECE))
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while read := file.readinto(data):
            yield data[:read]


# Removes files that no commit lists: those of failed attempts, fenced drivers and interrupted appends.

APPEND_GRACE_MS = 24 * 3_600_000
"""An append has no generation to compare. So its files count as garbage after a day."""

GIVE_UP = 8
"""After so many files that could not be removed, a removal ends: a log that answers no more takes long for each."""

_EPOCH_NAME = re.compile(
    r"/(?:(?P<incarnation>[^/-]+)-)?g(?P<generation>\d+)-(?:e(?P<epoch>\d+)-|[ms])[^/]*\.(?:seg|snap)$"
)
"""Files of epochs, files that take the place of others, and snapshots of stores. Those of earlier versions have no
incarnation in their names.
"""


def collect_garbage(
    log: Log,
    application: str,
    state: LogState,
    now: int | None = None,
    decided: Callable[[int], bool] = lambda _: False,
    spared: Callable[[], Collection[str]] = lambda: (),
) -> int:
    """Remove the files of an application that no commit lists nor ever will. Returns how many there were.

    These are files of drivers of an older generation than `state.generation` or of another incarnation, whose commits
    are refused, and files of appends that are older than `APPEND_GRACE_MS`. `now`: ms, by default the clock's.
    `state` must hold the commit of the current generation. `decided` says of an epoch of this generation whether it is
    over; then `state` has its commit, if there is one. `spared`: files that stay for now. Raises FullyRefreshedError,
    with nothing removed.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    doomed = []
    files = list(log.files(application))
    # After listing the files: those of a later incarnation, which `state` does not know, are not garbage, nor are those
    # that were committed meanwhile.
    state.check_same_in(log.commits(application))
    with state.lock:
        # Whoever has replaced files, this process, another or one of before: they stay as long as the commit says.
        listed = state.paths() | state.spared.spared(now) | set(state.replaced)
    listed |= set(spared())
    for file in files:
        epoch = _EPOCH_NAME.search(file.path)
        if epoch is not None and not int(epoch["generation"]):
            epoch = None  # of an application without generations
        undecided = file.modified > now - APPEND_GRACE_MS if epoch is None else _may_be_listed(epoch, state, decided)
        if not undecided and file.path not in listed:
            doomed.append(file.path)
    _, error = remove_all(log, doomed)
    if error is not None:
        raise error
    return len(doomed)


def remove_all(log: Log, paths: Iterable[str]) -> tuple[list[str], OSError | HeadwaterError | None]:
    """Remove files. Those that cannot be removed hold up no others. Returns these, and the first error.

    After `GIVE_UP` errors it is not about single files: the rest is left as well.
    """
    left: list[str] = []
    errors: list[OSError | HeadwaterError] = []
    for path in paths:
        if len(errors) == GIVE_UP:
            left.append(path)
            continue
        try:
            log.remove(path)
        except (OSError, HeadwaterError) as error:
            left.append(path)
            errors.append(error)
    return left, errors[0] if errors else None


def _may_be_listed(name: re.Match[str], state: LogState, decided: Callable[[int], bool]) -> bool:
    """Whether the driver that wrote a file of this name may still commit it."""
    generation = int(name["generation"])
    if name["incarnation"] not in (None, state.incarnation[:8]) or generation < state.generation:
        return False
    return generation > state.generation or name["epoch"] is None or not decided(int(name["epoch"]))
