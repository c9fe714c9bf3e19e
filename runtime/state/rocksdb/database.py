"""One RocksDB database: its options, its rows, its errors and its files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import rocksdict as rocks

from ....errors import HeadwaterError, MachineError
from ....private_files import write_text
from ...tasks.measured import StoreSize
from ..offset_checkpoint import NAME, Changelog, CheckpointError, OffsetCheckpoint, offset_of, position_of
from ..store import ERRNO_BY_MESSAGE, Changes, StoreUnusableError

# An open RocksDB database. Errors are those of `rocksdict`.
#
# There is no write-ahead log: changes are on the disk after `flush` only. RocksDB has a checksum for each block of a
# file, and none for the list of its files: with a truncated list it looks like an older database. So the sequence
# number of an opened database is compared with the one in the checkpoint file.

COMPRESSIONS = {
    "none": rocks.DBCompressionType.none,
    "lz4": rocks.DBCompressionType.lz4,
    "zstd": rocks.DBCompressionType.zstd,
}

_SIZES = ("estimate-num-keys", "total-sst-files-size", "size-all-mem-tables")
"""The properties of RocksDB with the size of a database."""

_BLOOM_BITS = 10
_MOST_BUFFERS = 3
_LOG_FILES = 2
_LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Options of a store. The defaults are those of Kafka Streams, except for the compression.

    `write_buffer_size`: bytes of changes in memory before a flush to a file. `block_cache_size`: bytes of the block
    cache that all stores of a process with this setting share. `compression`: a name in COMPRESSIONS.
    """

    write_buffer_size: int = 16 << 20
    block_cache_size: int = 50 << 20
    compression: str = "lz4"


class Database:
    """The database in a folder. `writable`: create it if it is missing; no other process may have it open for writing.

    A read-only database shows what was on the disk when it was opened. It needs no write permission there and leaves no
    files: RocksDB writes a log, and `rocksdict` its settings, into the folder they open, so they get a temporary folder
    with links to the files. All files are open from then on, so the temporary folder is removed.
    """

    def __init__(self, folder: Path, settings: Settings, cache: rocks.Cache, *, writable: bool = True) -> None:
        options = _options(settings, cache, writable)
        if writable:
            self._rocks = rocks.Rdict(str(folder), options)
        else:
            with TemporaryDirectory(prefix="headwater-rocksdb-") as linked:
                _link_files(folder, Path(linked))
                self._rocks = rocks.Rdict(linked, options, access_type=rocks.AccessType.read_only(False))
        without_log = rocks.WriteOptions()
        without_log.disable_wal = True
        self._rocks.set_write_options(without_log)

    @property
    def sequence(self) -> int:
        """The sequence number of the last change."""
        return int(self._rocks.latest_sequence_number())

    def size(self) -> StoreSize:
        """The estimated number of rows, and the bytes of the files and of unflushed changes."""
        rows, *parts = (int(self._rocks.property_int_value(f"rocksdb.{name}") or 0) for name in _SIZES)
        return StoreSize(rows, sum(parts))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order."""
        # Sorted, because neighbours are in the same blocks.
        distinct = sorted(set(keys))
        values: dict[bytes, bytes | None]
        values = dict(zip(distinct, self._rocks.get(distinct) if distinct else (), strict=True))
        return list(map(values.__getitem__, keys))

    def rows(
        self, start: bytes | None, end: bytes | None, most: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """The first `most` rows with `start <= key < end`, sorted by key, or in `reverse` order."""
        options = rocks.ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        first = None if reverse else start
        rows = self._rocks.items(backwards=reverse, from_key=first, read_opt=options)
        if reverse and start is not None:
            # With the lower bound of RocksDB's options, an iteration may begin at a row below it.
            rows = takewhile(lambda row: row[0] >= start, rows)
        selected: list[tuple[bytes, bytes]] = list(islice(rows, most))
        if len(selected) < most:
            self._raise_iteration_error(selected[-1][0] if selected else first, options, reverse)
        return selected

    def write(self, batch: rocks.WriteBatch) -> None:
        """Write a batch, all or nothing."""
        self._rocks.write(batch)

    def flush(self) -> None:
        """Flush all changes to the disk."""
        self._rocks.flush()

    def link(self, folder: Path) -> None:
        """Create a folder with links to all flushed files. It is a database of its own."""
        rocks.Checkpoint(self._rocks).create_checkpoint(str(folder))

    def close(self) -> None:
        """Close the files."""
        self._rocks.close()

    def _raise_iteration_error(self, last: bytes | None, options: rocks.ReadOptions, reverse: bool) -> None:
        """Raise the error that ended an iteration after the row `last`, if any: `rocksdict` does not raise it
        itself."""
        at = self._rocks.iter(options)
        if last is None:
            (at.seek_to_last if reverse else at.seek_to_first)()
        else:
            at.seek(last)
            if at.valid():
                (at.prev if reverse else at.next)()
        at.status()


def _link_files(folder: Path, linked: Path) -> None:
    """Link the files of a database into another folder. Small files are copied, because some are replaced later."""
    for path in folder.iterdir():
        if path.suffix == ".sst":
            (linked / path.name).symlink_to(path)
        elif path.name == "CURRENT" or path.name.startswith(("MANIFEST-", "OPTIONS-")):
            shutil.copyfile(path, linked / path.name)


def write_batch(changes: Iterable[Changes], expire_below: bytes | None) -> rocks.WriteBatch:
    """A batch of changes, followed by the deletion of the keys below `expire_below`."""
    batch = rocks.WriteBatch(raw_mode=True)
    for keys, values in changes:
        for key, value in zip(keys, values, strict=True):
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
    if expire_below is not None:
        batch.delete_range(b"", expire_below)
    return batch


def stop_threads() -> None:
    """Stop RocksDB's threads before a fork: a child process does not have them and would wait for them."""
    environment = rocks.Env()
    environment.set_background_threads(0)
    environment.set_high_priority_background_threads(0)


def start_threads() -> None:
    """Start RocksDB's threads again."""
    environment = rocks.Env()
    environment.set_background_threads(1)
    environment.set_high_priority_background_threads(1)


def _options(settings: Settings, cache: rocks.Cache, writable: bool) -> rocks.Options:
    blocks = rocks.BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_bloom_filter(_BLOOM_BITS, block_based=False)
    options = rocks.Options(raw_mode=True)
    options.create_if_missing(writable)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(COMPRESSIONS[settings.compression]())
    options.set_compaction_style(rocks.DBCompactionStyle.universal())
    options.set_write_buffer_size(settings.write_buffer_size)
    options.set_max_write_buffer_number(_MOST_BUFFERS)
    options.set_keep_log_file_num(_LOG_FILES)
    options.set_max_log_file_size(_LOG_BYTES)
    # No statistics: their thread cannot be stopped, see `stop_threads`.
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


# Translates RocksDB's errors: damage, and errors of the operating system.
#
# `rocksdict` raises plain `Exception`s with RocksDB's text: the kind of error, the cause, and the system's message.

_DAMAGE = ("Corruption:", "IO error: No such file or directory:", "Invalid argument:")
_IO_ERROR = "IO error:"


class FilesDamagedError(Exception):
    """The files of a store are damaged."""


@contextmanager
def translated_errors(directory: Path) -> Iterator[None]:
    """Raise FilesDamagedError for damage, and StoreUnusableError if the operating system rejects access to the
    files."""
    try:
        yield
    except HeadwaterError:
        raise
    except FileNotFoundError as error:
        raise FilesDamagedError(f"its file {Path(error.filename or '').name} is not there") from error
    except OSError as error:
        if not MachineError.explains(error):
            raise
        raise StoreUnusableError.from_os_error(error, directory) from error
    except Exception as error:
        text = str(error)
        if type(error) is not Exception:
            raise
        if text.startswith(_DAMAGE):
            raise FilesDamagedError(text.splitlines()[0]) from error
        if text.startswith(_IO_ERROR):
            number = next((number for message, number in ERRNO_BY_MESSAGE.items() if message in text), None)
            raise StoreUnusableError(directory, number, text.removeprefix(_IO_ERROR).strip()) from error
        raise


# The files in a store's directory: the folder of the database, and the checkpoint file.
#
# The checkpoint file exists while all changes are on the disk. It is deleted before the next change. So a store without
# the file was not closed properly: its content is unknown, and it is wiped.

Stamp = tuple[int, int]
"""Identifies a version of a checkpoint file, see `OffsetCheckpoint.stamp`."""

_SEQUENCE: Changelog = ("rocksdb-sequence", 0)
"""An entry in addition to the store's own one: the sequence number of the database."""


class StoreFiles:
    """The files of the store in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / "db"
        self._checkpoint = OffsetCheckpoint(directory / NAME)
        self._damaged = directory / "damaged"

    @property
    def stamp(self) -> Stamp | None:
        """The stamp of the checkpoint file; None without one."""
        return self._checkpoint.stamp()

    def checkpoint(self) -> tuple[int, int] | None:
        """Position and sequence number in the checkpoint file; None without one. Raises FilesDamagedError, OSError."""
        try:
            offsets = self._checkpoint.read()
        except CheckpointError as error:
            raise FilesDamagedError(f"its checkpoint file: {error.cause}") from error
        if not offsets:
            return None
        if offsets.keys() != {self._changelog, _SEQUENCE}:
            raise FilesDamagedError("its checkpoint file belongs to another store")
        return position_of(offsets[self._changelog]), offsets[_SEQUENCE]

    def write_checkpoint(self, position: int, sequence: int) -> None:
        """Write that the database has all changes up to a position. Raises OSError."""
        self._checkpoint.write({self._changelog: offset_of(position), _SEQUENCE: sequence})

    def delete_checkpoint(self) -> None:
        """Write that the content of the database is unknown. Raises OSError."""
        self._checkpoint.delete()

    def mark_damaged(self) -> None:
        """Mark the database as damaged, after the damage was reported. The next process that opens it wipes it.

        Errors are ignored: a reader may lack the permission.
        """
        with suppress(OSError):
            write_text(self._damaged, "")
            self.delete_checkpoint()

    def is_damaged(self) -> bool:
        """Whether it has to be wiped, and the damage was reported."""
        return self._damaged.exists()

    def wipe(self) -> None:
        """Remove the database. Only its writer may call this. Raises OSError."""
        self.delete_checkpoint()
        if self.database.exists():
            shutil.rmtree(self.database)
        self._damaged.unlink(missing_ok=True)

    @property
    def _changelog(self) -> Changelog:
        """Store and partition, from the directory: `<store>/<partition>`, or `<table>` for a global table."""
        name = self.directory.name
        return (self.directory.parent.name, int(name)) if name.isdecimal() else (name, 0)
