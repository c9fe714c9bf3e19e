"""The store backend `rocksdb`, and copies of its stores."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from ....errors import MachineError
from ....private_files import make_folder, opener, write_text
from ....unusable_paths import raises_machine_errors
from ...dataclass_json import parsed
from ...tasks.measured import StoreSize
from ..directory import work_folder
from ..store import Changes, CopyDamagedError
from .database import Database, Settings
from .databases import process_databases
from .writer import Writer

# Copies whole RocksDB databases, and replaces databases by copies.
#
# Files of RocksDB are immutable, so a consistent copy is a folder of links to them, which takes no time. They are
# packed from that folder into one file, while the store continues.

_METADATA = "position.json"


def _unpack(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:") as files:
            for member in files:
                is_plain = member.isfile() and Path(member.name).name == member.name
                content = files.extractfile(member) if is_plain else None
                if content is None:
                    raise CopyDamagedError(f"it has {member.name!r}, which is not a file of RocksDB")
                _write(content, folder / member.name)
    except tarfile.TarError as error:
        raise CopyDamagedError(str(error)) from error
    except OSError as error:
        raise MachineError.from_error(error, folder) from error


def _write(content: IO[bytes], path: Path) -> None:
    with content, open(path, "xb", opener=opener) as file:
        shutil.copyfileobj(content, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _read_metadata(folder: Path) -> tuple[int, int]:
    """Position and sequence number of an unpacked copy."""
    try:
        metadata = parsed((folder / _METADATA).read_text("utf-8"))
        (folder / _METADATA).unlink()
        return int(metadata["position"]), int(metadata["sequence"])
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise CopyDamagedError("it does not have its position") from error


# The store backend `rocksdb`: RocksDB without a write-ahead log, with its position in a checkpoint file.

_ROWS_PER_READ = 4096


class RocksdbStore:
    """A CheckpointedStore in one directory. A `range` reads 4,096 rows at a time.

    `writable`: False for a read-only store. It is not created, and needs no write permission.
    """

    @raises_machine_errors
    def __init__(self, directory: Path, settings: Settings, *, writable: bool = True) -> None:
        if writable:
            make_folder(directory)
        self._directory = directory.resolve()
        self._settings = settings
        self._writable = writable

    @property
    def position(self) -> int:
        """See `StateStore.position`."""
        return process_databases.position(self._directory, self._settings, writable=self._writable)

    @property
    def unwritten(self) -> tuple[int, int]:
        """See `CheckpointedStore.unwritten`."""
        return process_databases.applied(self._directory)

    @property
    def size(self) -> StoreSize:
        """See `SizedStore.size`."""
        return process_databases.read(self._directory, self._settings, Database.size, writable=self._writable)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order."""

        def get(database: Database) -> list[bytes | None]:
            return database.get_many(keys)

        return process_databases.read(self._directory, self._settings, get, writable=self._writable)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore.range`."""
        if end == b"" or (start is not None and end is not None and start >= end):
            return
        while True:

            def read_rows(
                database: Database, start: bytes | None = start, end: bytes | None = end
            ) -> list[tuple[bytes, bytes]]:
                return database.rows(start, end, _ROWS_PER_READ, reverse=reverse)

            rows = process_databases.read(self._directory, self._settings, read_rows, writable=self._writable)
            yield from rows
            if len(rows) < _ROWS_PER_READ:
                return
            start, end = (start, rows[-1][0]) if reverse else (rows[-1][0] + b"\0", end)

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply changes and advance to `position`. They are on the disk after the next checkpoint."""
        changes = list(changes)
        process_databases.write(
            self._directory, self._settings, lambda writer: writer.apply(changes, from_position, position, expire_below)
        )

    def checkpoint(self) -> None:
        """See `CheckpointedStore.checkpoint`."""
        process_databases.write(self._directory, self._settings, Writer.checkpoint)

    def close(self) -> None:
        """Write a checkpoint and close the files, whichever process has them open. The next use reopens the store."""
        process_databases.close(self._directory)


class RocksdbBackend:
    """A CopyingBackend with one RocksDB database per store. Arguments: see `Settings`."""

    copy_form = "rocksdb"

    def __init__(
        self,
        write_buffer_size: int = Settings.write_buffer_size,
        block_cache_size: int = Settings.block_cache_size,
        compression: str = Settings.compression,
    ) -> None:
        self._settings = Settings(write_buffer_size, block_cache_size, compression)

    def open(self, directory: Path) -> RocksdbStore:
        """The store of `directory`."""
        return RocksdbStore(directory, self._settings)

    def open_to_read(self, directory: Path) -> RocksdbStore:
        """The existing store of `directory`."""
        return RocksdbStore(directory, self._settings, writable=False)

    def save_copy(self, directory: Path, file: Path) -> int:
        """See `CopyingBackend.save_copy`."""
        directory = directory.resolve()
        folder = work_folder(directory, "copying")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            position, sequence = process_databases.write(directory, self._settings, lambda writer: writer.link(folder))
            try:
                write_text(folder / _METADATA, json.dumps({"position": position, "sequence": sequence}))
                with open(file, "xb", opener=opener) as packed, tarfile.open(fileobj=packed, mode="w") as files:
                    for path in sorted(folder.iterdir()):
                        files.add(path, path.name)
            except OSError as error:  # of the new file, not of the store
                raise MachineError.from_error(error, file) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return position

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """See `CopyingBackend.load_copy`."""
        directory = directory.resolve()
        folder = work_folder(directory, "loading")
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            _unpack(file, folder)
            copied_position, sequence = _read_metadata(folder)
            if copied_position != position:
                raise CopyDamagedError(f"it is at position {copied_position:,}, and not at {position:,}")
            if cause := process_databases.defect(folder, self._settings, sequence):
                raise CopyDamagedError(cause)
            process_databases.write(
                directory, self._settings, lambda writer: writer.replace(folder, position, sequence)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        file.unlink(missing_ok=True)
