"""A database of RocksDB."""

from __future__ import annotations

import errno
import os
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
from ..store import Changes, StoreUnusableError

# One open RocksDB: its settings, its rows, and how they are written. Errors are those of `rocksdict`.
#
# There is no write-ahead log: what was written is on the disk after `flush` only. RocksDB has a checksum for each block
# of a file, and none for the list of its files: a shortened one looks like an older database. So whoever opens one
# compares its sequence number with the one noted.

COMPRESSIONS = {
    "none": rocks.DBCompressionType.none,
    "lz4": rocks.DBCompressionType.lz4,
    "zstd": rocks.DBCompressionType.zstd,
}

_SIZES = ("estimate-num-keys", "total-sst-files-size", "size-all-mem-tables")
"""The properties of RocksDB that tell how large a database is."""

_BLOOM_BITS = 10
_MOST_BUFFERS = 3
_LOG_FILES = 2
_LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How a store is kept. The defaults are those of Kafka Streams, but for the compression.

    `write_buffer_size`: bytes of changes in memory before they go into a file. `block_cache_size`: bytes of blocks that
    a process keeps in memory, for all of its stores with this setting together. `compression`: a name in COMPRESSIONS.
    """

    write_buffer_size: int = 16 << 20
    block_cache_size: int = 50 << 20
    compression: str = "lz4"


class Database:
    """The database in a folder. `writable`: it is created if it is missing, and no other process has it open to write.

    A database that is opened to read shows what was on the disk at that moment. It needs no right to write there, and
    leaves nothing: RocksDB writes a log and `rocksdict` its settings wherever they open one, so they are given a folder
    that leads to the files. All files are open once the database is, so the folder is not needed after that.
    """

    def __init__(self, folder: Path, settings: Settings, cache: rocks.Cache, *, writable: bool = True) -> None:
        options = _options(settings, cache, writable)
        if writable:
            self._rocks = rocks.Rdict(str(folder), options)
        else:
            with TemporaryDirectory(prefix="headwater-rocksdb-") as beside:
                _lead(folder, Path(beside))
                self._rocks = rocks.Rdict(beside, options, access_type=rocks.AccessType.read_only(False))
        without_log = rocks.WriteOptions()
        without_log.disable_wal = True
        self._rocks.set_write_options(without_log)

    @property
    def sequence(self) -> int:
        """The number of the last change that was written."""
        return int(self._rocks.latest_sequence_number())

    def size(self) -> StoreSize:
        """About how many rows there are, and the bytes of the files and of what is not written yet."""
        rows, *parts = (int(self._rocks.property_int_value(f"rocksdb.{name}") or 0) for name in _SIZES)
        return StoreSize(rows, sum(parts))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order."""
        # In order, as neighbours are in the same blocks.
        asked = sorted(set(keys))
        found: dict[bytes, bytes | None] = dict(zip(asked, self._rocks.get(asked) if asked else (), strict=True))
        return list(map(found.__getitem__, keys))

    def rows(
        self, start: bytes | None, end: bytes | None, most: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """At most so many rows with `start <= key < end`, the first ones by key, or in `reverse` of that."""
        options = rocks.ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        first = None if reverse else start
        rows = self._rocks.items(backwards=reverse, from_key=first, read_opt=options)
        if reverse and start is not None:
            # The lower bound of RocksDB's options would let through a row below it where it begins.
            rows = takewhile(lambda row: row[0] >= start, rows)
        found: list[tuple[bytes, bytes]] = list(islice(rows, most))
        if len(found) < most:
            self._refuse_broken(found[-1][0] if found else first, options, reverse)
        return found

    def write(self, batch: rocks.WriteBatch) -> None:
        """Write what was collected: all or nothing."""
        self._rocks.write(batch)

    def flush(self) -> None:
        """Bring everything to the disk."""
        self._rocks.flush()

    def link(self, folder: Path) -> None:
        """Make a folder that leads to all files, as they are after a flush: a database of its own."""
        rocks.Checkpoint(self._rocks).create_checkpoint(str(folder))

    def close(self) -> None:
        """Close the files."""
        self._rocks.close()

    def _refuse_broken(self, last: bytes | None, options: rocks.ReadOptions, reverse: bool) -> None:
        """Raise the error that has ended an iteration at a row, if one has: iterations end without it."""
        at = self._rocks.iter(options)
        if last is None:
            (at.seek_to_last if reverse else at.seek_to_first)()
        else:
            at.seek(last)
            if at.valid():
                (at.prev if reverse else at.next)()
        at.status()


def _lead(folder: Path, beside: Path) -> None:
    """Fill a folder with what leads to the files of a database. The small ones are copied: some are replaced."""
    for path in folder.iterdir():
        if path.suffix == ".sst":
            (beside / path.name).symlink_to(path)
        elif path.name == "CURRENT" or path.name.startswith(("MANIFEST-", "OPTIONS-")):
            shutil.copyfile(path, beside / path.name)


def collected(changes: Iterable[Changes], expire_below: bytes | None) -> rocks.WriteBatch:
    """Changes to write in one step, and then the deletion of the keys below `expire_below`."""
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
    """End RocksDB's threads before a fork: a child has none of them, and would wait for them. They come again."""
    environment = rocks.Env()
    environment.set_background_threads(0)
    environment.set_high_priority_background_threads(0)


def start_threads() -> None:
    """Let RocksDB have threads."""
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
    # Statistics are written by a thread that cannot be stopped, see `stop_threads`.
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


# Recognizes RocksDB's errors: damage, and what comes from the machine.
#
# `rocksdict` raises plain `Exception`s, whose texts are RocksDB's: the kind of error, the cause, and the system's
# words.

_DAMAGE = ("Corruption:", "IO error: No such file or directory:", "Invalid argument:")
_REFUSED = "IO error:"
_TOLD = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ESTALE),
    )
}


class FilesDamagedError(Exception):
    """The files of a store are not as they were written."""


@contextmanager
def errors_told(directory: Path) -> Iterator[None]:
    """Raise FilesDamagedError for damage, and StoreUnusableError where the system refuses the files of a store."""
    try:
        yield
    except HeadwaterError:
        raise
    except FileNotFoundError as error:
        raise FilesDamagedError(f"its file {Path(error.filename or '').name} is not there") from error
    except OSError as error:
        if not MachineError.explains(error):
            raise
        place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else directory
        raise StoreUnusableError(place, error.errno, error.strerror or str(error)) from error
    except Exception as error:
        text = str(error)
        if type(error) is not Exception:
            raise
        if text.startswith(_DAMAGE):
            raise FilesDamagedError(text.splitlines()[0]) from error
        if text.startswith(_REFUSED):
            number = next((number for words, number in _TOLD.items() if words in text), None)
            raise StoreUnusableError(directory, number, text.removeprefix(_REFUSED).strip()) from error
        raise


# What lies in a store's directory: the database's folder, and the checkpoint file that says what it holds.
#
# The file is there whenever everything that was applied is on the disk. It is deleted before the first change after
# that. So a store without the file was not closed as it should be: what it holds is unknown, and it is wiped.

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
