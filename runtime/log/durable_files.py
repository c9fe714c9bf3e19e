"""Durable files, and garbage collection of files that no commit lists."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from zlib import crc32

from ...errors import HeadwaterError
from ...private_files import make_folder, opener
from ..timed_parts import timed, wall_ms
from .errors import UnsupportedFileSystemError
from .log import Log
from .state import LogState


def check_directory(directory: Path) -> None:
    """Check that commits can be stored in `directory`. Raises UnsupportedFileSystemError."""
    make_folder(directory)
    first = directory / f".{uuid.uuid4().hex}.tmp"
    second = directory / f".{uuid.uuid4().hex}.tmp"
    first.touch()
    try:
        # Some network and FUSE file systems do not support `link`. Find out now, not at the first commit.
        link(first, second)
        second.unlink()
    finally:
        first.unlink()


def link(source: Path, target: Path) -> None:
    """Create a hard link. Raises FileExistsError, or UnsupportedFileSystemError on a file system without hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError as error:
        # The error is about the source, which another process has removed, not about the file system.
        if not source.exists():
            raise
        raise UnsupportedFileSystemError(str(target.parent), os.strerror(error.errno or 0)) from error


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and sync it to the disk. After an error, no part of it remains.

    Raises FileExistsError if the path is taken, else OSError with the path.
    """
    with write_new(path, data) as file, timed("fsync"):
        sync_new(path, file)


def write_new(path: Path, data: bytes | memoryview) -> FileIO:
    """Write a new file, without a sync: see `sync_new`. After an error, no part of it remains.

    Raises FileExistsError if the path is taken, OSError with the path.
    """
    # Unbuffered: the system has all bytes before `fsync`, and `write` raises errors, not `close`.
    file = open(path, "xb", buffering=0, opener=opener)  # noqa: SIM115 - the caller closes it
    try:
        with _removed_on_error(path):
            # An unbuffered write may be partial: Linux writes at most 2 GiB in one call.
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
    except OSError:
        file.close()
        raise
    return file


def sync_new(path: Path, file: FileIO) -> None:
    """Sync a new file to the disk. After an error, the file is removed. Raises OSError with the path."""
    with _removed_on_error(path):
        os.fsync(file.fileno())


@contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        error.filename = error.filename or str(path)  # an OSError of `write` or `fsync` has no path
        raise


def make_directory(directory: Path) -> None:
    """Create a directory and its parents durably. Only the owner can read new ones."""
    # A folder's entry is in its parent, so the parent is synced.
    for made in make_folder(directory):
        sync_directory(made.parent)


def sync_file(path: Path) -> None:
    """Sync a file's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with timed("fsync"):
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(directory: Path) -> None:
    """Sync a directory's entries to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with timed("fsync"):
            os.fsync(handle)
    finally:
        os.close(handle)


# Reading local files: snapshots of stores.

_PIECE = 1 << 20
"""Bytes. A piece fits in a processor's cache, so it is checksummed and written from there."""


def size_and_checksum(content: Iterable[memoryview]) -> tuple[int, int]:
    """Size (bytes) and crc32 of content in pieces."""
    size, checksum = 0, 0
    for piece in content:
        size, checksum = size + len(piece), crc32(piece, checksum)
    return size, checksum


def pieces(path: Path, start: int = 0) -> Iterator[memoryview]:
    """The file's content from byte `start` on; each piece is valid until the next."""
    data = memoryview(bytearray(_PIECE))
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while read := file.readinto(data):
            yield data[:read]


# Garbage collection: files of failed attempts, fenced drivers and interrupted appends, which no commit lists.

APPEND_GRACE_MS = 24 * 3_600_000
"""Appends have no generation to compare, so their files are garbage after a day."""

MAX_ERRORS = 8
"""A removal stops after this number of errors: each file takes long in a log that does not respond."""

_EPOCH_NAME = re.compile(
    r"/(?:(?P<incarnation>[^/-]+)-)?g(?P<generation>\d+)-(?:e(?P<epoch>\d+)-|[ms])[^/]*\.(?:seg|snap)$"
)
"""Files of epochs, replacements of files, and snapshots of stores. Those of earlier versions have no incarnation in
their names.
"""


def collect_garbage(
    log: Log,
    application: str,
    state: LogState,
    now: int | None = None,
    decided: Callable[[int], bool] = lambda _: False,
    spared: Callable[[], Collection[str]] = lambda: (),
) -> int:
    """Remove the files of an application that no commit lists or will list. Returns their number.

    These are files of drivers with an older generation than `state.generation` or of another incarnation, which cannot
    commit any more, and files of appends older than `APPEND_GRACE_MS`. `now`: ms, by default the clock's. `state` must
    include the commit of the current generation. `decided(epoch)`: whether an epoch of this generation is over; then
    `state` includes its commit, if there is one. `spared`: files to keep for now. Raises FullyRefreshedError, with
    nothing removed.
    """
    now = wall_ms() if now is None else now
    doomed = []
    files = list(log.files(application))
    # After the listing: files of a later incarnation, unknown to `state`, and files committed meanwhile are no garbage.
    state.check_same_in(log.commits(application))
    with state.lock:
        # Replaced files stay as long as their commit says, whichever process has replaced them.
        listed = state.paths() | state.retained.at(now) | set(state.replaced)
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
    """Remove files. Errors do not stop the others. Returns files that could not be removed, and the first error.

    After `MAX_ERRORS` errors, the rest is not tried.
    """
    left: list[str] = []
    errors: list[OSError | HeadwaterError] = []
    for path in paths:
        if len(errors) == MAX_ERRORS:
            left.append(path)
            continue
        try:
            log.remove(path)
        except (OSError, HeadwaterError) as error:
            left.append(path)
            errors.append(error)
    return left, errors[0] if errors else None


def _may_be_listed(name: re.Match[str], state: LogState, decided: Callable[[int], bool]) -> bool:
    """Whether the driver that wrote a file with this name may still commit it."""
    generation = int(name["generation"])
    if name["incarnation"] not in (None, state.incarnation[:8]) or generation < state.generation:
        return False
    return generation > state.generation or name["epoch"] is None or not decided(int(name["epoch"]))
