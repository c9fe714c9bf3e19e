"""Writes files that are whole and on the disk before anyone can see them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from ...private_files import make_folder, opener
from ..timed_parts import timed
from .errors import UnsupportedFileSystemError


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
