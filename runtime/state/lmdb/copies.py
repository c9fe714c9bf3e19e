"""Copies LMDB environments as a whole, and puts copies in the place of others.

A copy is LMDB's file as it is after one transaction, without free pages. They may be more than the others: a
transaction that changes a row on each page writes all pages again. The pages are walked as a reader does it, and
written one after the other, so it takes about as long as copying a file, and nobody waits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb

from ....errors import MachineError
from ....private_files import make_folder, opener
from ..directories.half_made import beside
from ..store import CopyDamagedError
from . import file as lmdb_file
from .durability import mark_unsynced
from .environment import DAMAGE, Environment
from .environments import of_this_process
from .errors import number_of

FORM = "lmdb"
"""What lmdb's and memory's copies are, see `CopyingBackend.copy_form`."""


def save_copy(directory: Path, map_size: int, file: Path) -> int:
    """See `CopyingBackend.save_copy`."""
    with of_this_process.use(directory.resolve(), map_size) as environment:
        try:
            _copy(environment, file)
        except OSError as error:  # it is about the new file, and not about the store
            raise MachineError.of(error) from error
    return _position(file, map_size)


def load_copy(
    directory: Path,
    map_size: int,
    position: int,
    file: Path,
    complete: Callable[[Path], None] = lambda _: None,
) -> None:
    """See `CopyingBackend.load_copy`. `complete`: adds to the new folder what else belongs there."""
    directory = directory.resolve()
    folder = beside(directory, "loading")
    shutil.rmtree(folder, ignore_errors=True)
    if (found := _position(file, map_size)) != position:
        raise CopyDamagedError(f"it is at position {found:,}, and not at {position:,}")
    make_folder(folder)
    try:
        mark_unsynced(folder)  # as after each write: if the machine stops, the changelog has everything
        shutil.move(file, folder / lmdb_file.NAME)
        complete(folder)
        of_this_process.put_in_place(folder, directory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(environment: Environment, file: Path) -> None:
    with open(file, "xb", opener=opener) as copy:
        try:
            environment.copy(copy.fileno())
        except lmdb.Error as error:
            if (number := number_of(error)) is None:
                raise
            raise OSError(number, os.strerror(number), str(file)) from error
    lmdb_file.extend(file)


def _position(file: Path, map_size: int) -> int:
    """The position of a copy. Raises CopyDamagedError."""
    try:
        if missing := lmdb_file.missing_bytes(file):
            raise CopyDamagedError(f"it is {missing:,} bytes too short")
        return Environment.position_of_copy(file, map_size)
    except (*DAMAGE, lmdb.Error) as error:
        raise CopyDamagedError(str(error)) from error
