"""What lies in a store's directory: the database's folder, and the checkpoint file that says what it holds.

The file is there whenever everything that was applied is on the disk. It is deleted before the first change after that.
So a store without the file was not closed as it should be: what it holds is unknown, and it is wiped.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from ....private_files import write_text
from ..offset_checkpoint import NAME, Changelog, CheckpointError, OffsetCheckpoint, offset_of, position_of
from .errors import FilesDamagedError

Stamp = tuple[int, int]
"""What tells a checkpoint from another one."""

_SEQUENCE: Changelog = ("rocksdb-sequence", 0)
"""Beside the store's own entry: the number of the last change that the database has."""


class StoreFiles:
    """The files of the store of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / "db"
        self._checkpoint = OffsetCheckpoint(directory / NAME)
        self._damaged = directory / "damaged"

    @property
    def stamp(self) -> Stamp | None:
        """Of the checkpoint; None without one."""
        return self._checkpoint.stamp()

    def checkpoint(self) -> tuple[int, int] | None:
        """The position and the sequence number; None without a file. Raises FilesDamagedError, OSError."""
        try:
            offsets = self._checkpoint.read()
        except CheckpointError as error:
            raise FilesDamagedError(f"its checkpoint file: {error.cause}") from error
        if not offsets:
            return None
        if offsets.keys() != {self._changelog, _SEQUENCE}:
            raise FilesDamagedError("its checkpoint file is that of another store")
        return position_of(offsets[self._changelog]), offsets[_SEQUENCE]

    def write_checkpoint(self, position: int, sequence: int) -> None:
        """Say that the database holds everything up to a position. Raises OSError."""
        self._checkpoint.write({self._changelog: offset_of(position), _SEQUENCE: sequence})

    def delete_checkpoint(self) -> None:
        """Say that it is unknown what the database holds. Raises OSError."""
        self._checkpoint.delete()

    def mark_damaged(self) -> None:
        """Have the database wiped by whoever opens it next; somebody has been told. A reader may lack the right."""
        with suppress(OSError):
            write_text(self._damaged, "")
            self.delete_checkpoint()

    def is_damaged(self) -> bool:
        """Whether it is to be wiped, and somebody knows."""
        return self._damaged.exists()

    def wipe(self) -> None:
        """Remove the database. Only for the process that may write it. Raises OSError."""
        self.delete_checkpoint()
        if self.database.exists():
            shutil.rmtree(self.database)
        self._damaged.unlink(missing_ok=True)

    @property
    def _changelog(self) -> Changelog:
        """As the directory names it: `<store>/<partition>`, or `<table>` of a global table."""
        name = self.directory.name
        return (self.directory.parent.name, int(name)) if name.isdecimal() else (name, 0)
