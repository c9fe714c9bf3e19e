"""A store that this process writes: the database, and what of it is on the disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ....errors import HeadwaterError
from ....private_files import make_folder
from ...log.durable_files import sync_directory
from ...tasks.errors import TaskMigratedError
from ..store import Changes
from .claim import Claim
from .database import Database, collected
from .errors import FilesDamagedError, errors_told
from .files import StoreFiles

NOT_CLOSED = "the process that had it open was killed, and it keeps no log of what was not on the disk yet"
INCOMPLETE = "it lacks changes that were on the disk"

Open = Callable[[Path], Database]
"""Opens the database of a folder to write."""


class Writer:
    """The store of a directory as its one writer has it. `position`: up to which its changelog is applied.

    `records`, `bytes`: applied since the last checkpoint. `used`: when it was used last, by `time.monotonic`. `wiped`:
    why it began empty, if nobody has been told yet.
    """

    def __init__(self, files: StoreFiles, claim: Claim, open_database: Open) -> None:
        self._files = files
        self._claim = claim
        self._open = open_database
        self.records = 0
        self.bytes = 0
        self.wiped = ""
        self.used = time.monotonic()
        try:
            self.database, self.position, self._clean = self._opened(open_database)
        except BaseException:
            claim.release()
            raise

    @property
    def asked(self) -> int:
        """The file that can be read when another process asks for the store."""
        return self._claim.asked

    @property
    def clean(self) -> bool:
        """Whether the checkpoint file is true."""
        return self._clean

    def serves(self) -> bool:
        """Whether its files are those of the directory, and nobody has found them damaged."""
        return self._claim.is_current() and (not self._clean or self._files.stamp is not None)

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """See `StateStore.apply`. What was applied is not on the disk before the next checkpoint."""
        if self.position != from_position:
            raise TaskMigratedError(f"store {self._files.directory}", from_position, self.position)
        batch = collected(changes, expire_below)
        if self._clean:
            self._files.delete_checkpoint()
            self._clean = False
        size = batch.size_in_bytes()
        self.database.write(batch)
        self.position = position
        self.records += position - from_position
        self.bytes += size

    def checkpoint(self) -> None:
        """Bring everything to the disk, and then write the position down."""
        if self._clean:
            return
        self.database.flush()
        self._files.write_checkpoint(self.position, self.database.sequence)
        self._clean = True
        self.records = self.bytes = 0

    def link(self, folder: Path) -> tuple[int, int]:
        """Make a database in a new folder, of this moment; its position and sequence number."""
        self.checkpoint()
        self.database.link(folder)
        return self.position, self.database.sequence

    def replace(self, folder: Path, position: int, sequence: int) -> None:
        """Put the database of a folder in the place of this one. The folder is gone then."""
        self._files.delete_checkpoint()
        self._clean = False
        self.database.close()
        shutil.rmtree(self._files.database)
        folder.rename(self._files.database)
        sync_directory(self._files.directory)
        self.database, self.position = self._open(self._files.database), position
        self.records = self.bytes = 0
        self._files.write_checkpoint(position, sequence)
        self._clean = True

    def close(self, *, checkpoint: bool) -> None:
        """Close the database and let other processes have it. Raises StoreUnusableError."""
        try:
            if checkpoint and self.serves():
                self.checkpoint()
        finally:
            try:
                # RocksDB itself repeats the error of a flush that failed.
                with suppress(HeadwaterError, FilesDamagedError), errors_told(self._files.directory):
                    self.database.close()
            finally:
                self._claim.release()

    def _opened(self, open_database: Open) -> tuple[Database, int, bool]:
        """The database, its position, and whether there is a checkpoint. What cannot be trusted is wiped."""
        files = self._files
        try:
            with errors_told(files.directory):
                noted = None if files.is_damaged() else files.checkpoint()
                if noted is not None:
                    return self._checked(open_database, *noted)
                if files.database.is_dir() and not files.is_damaged():
                    self.wiped = NOT_CLOSED
        except FilesDamagedError as error:
            self.wiped = str(error)
        files.wipe()
        make_folder(files.database)
        with errors_told(files.directory):
            return open_database(files.database), 0, False

    def _checked(self, open_database: Open, position: int, sequence: int) -> tuple[Database, int, bool]:
        if not self._files.database.is_dir():
            raise FilesDamagedError("its files are not there")
        database = open_database(self._files.database)
        if database.sequence != sequence:
            database.close()
            raise FilesDamagedError(INCOMPLETE)
        return database, position, True
