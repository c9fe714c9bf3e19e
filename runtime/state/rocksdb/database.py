"""One open RocksDB: its settings, its rows, and how they are written. Errors are those of `rocksdict`.

There is no write-ahead log: what was written is on the disk after `flush` only. RocksDB has a checksum for each block
of a file, and none for the list of its files: a shortened one looks like an older database. So whoever opens one
compares its sequence number with the one noted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import rocksdict as rocks

from ...tasks.measured import StoreSize
from ..store import Changes

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
