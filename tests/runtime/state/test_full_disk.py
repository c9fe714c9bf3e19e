"""Stores on a disk that is full, or takes no writes: an error of the machine, and a store that goes on afterwards."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from headwater.errors import MachineError
from headwater.runtime.state.directory import LOCK, StateDirectory
from headwater.runtime.state.lmdb.environment import process_environments
from headwater.runtime.state.lmdb.file import errno_of
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.tests.disks import fill, small_disk

KEYS = [b"%06d" % number for number in range(3_000)]

OPENED = """
import sys
from pathlib import Path
from headwater.errors import MachineError
from headwater.runtime.state.lmdb.store import LmdbStore
try:
    print(LmdbStore(Path(sys.argv[1])).position)
except MachineError as error:
    print(error)
"""


@pytest.mark.parametrize("kilobytes", [4, 12, 20, 28])
def test_store_that_finds_no_room_when_it_is_made_ends_no_process_and_is_told(tmp_path: Path, kilobytes: int) -> None:
    # In a process of its own: a mapped file without room for it would kill this one.
    with small_disk(tmp_path / "disk", kilobytes << 10) as disk:
        done = subprocess.run(
            [sys.executable, "-c", OPENED, str(disk / "store")], capture_output=True, text=True, check=False
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert str(disk / "store") in done.stdout
    assert "the store cannot be used" in done.stdout
    assert "make room on that disk" in done.stdout


def test_full_disk_leaves_the_store_as_it_was_and_it_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        store = LmdbStore(disk / "store")
        store.apply([([b"a"], [b"1"])], 0, 1)
        full = disk / "full"
        fill(full)

        with pytest.raises(MachineError) as raised:
            store.apply([(KEYS, [b"x" * 100] * len(KEYS))], 1, 2)

        assert raised.value.path == str(disk / "store")
        assert "make room on that disk" in str(raised.value)
        assert (store.position, list(store.range(None, None))) == (1, [(b"a", b"1")])
        store.close()
        full.unlink()
        again = LmdbStore(disk / "store")
        again.apply([(KEYS, KEYS)], 1, 2)
        assert (again.position, len(list(again.range(None, None)))) == (2, len(KEYS) + 1)
        again.close()


def test_store_on_a_file_system_that_takes_no_writes_is_read_and_not_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        store = LmdbStore(disk / "store")
        store.apply([([b"a"], [b"1"])], 0, 1)
        store.close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        with pytest.raises(MachineError, match="Read-only file system") as raised:
            _ = LmdbStore(disk / "store").position

        assert (raised.value.path or "").startswith(str(disk / "store"))
        to_read = LmdbStore(disk / "store", writable=False)
        assert to_read.get_many([b"a"]) == [b"1"]
        process_environments.close(disk / "store")


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (lmdb.DiskError("mdb_txn_commit: No space left on device"), errno.ENOSPC),
        (lmdb.Error("mdb_txn_commit: Input/output error"), errno.EIO),
        (lmdb.Error("/a: b: Disk quota exceeded"), errno.EDQUOT),
        (lmdb.MemoryError("mmap: Cannot allocate memory"), errno.ENOMEM),
        (lmdb.MapFullError("mdb_put: MDB_MAP_FULL: Environment mapsize limit reached"), None),
        (lmdb.BadTxnError("mdb_put: MDB_BAD_TXN"), None),
        (lmdb.Error("Attempt to operate on closed/deleted/dropped object."), None),
    ],
)
def test_errors_of_the_system_are_told_from_wrong_calls(error: lmdb.Error, number: int | None) -> None:
    assert errno_of(error) == number


def test_lock_that_finds_no_room_is_told_with_its_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 << 10) as disk:
        directory = StateDirectory(disk / "state", "client-1", "shop-sales")
        with directory.lock():
            pass
        (directory.path / LOCK).write_text("")  # it gives its page back
        fill(disk / "full")

        with pytest.raises(OSError, match="No space left on device") as raised, directory.lock():
            pass

    assert raised.value.filename == str(directory.path / LOCK)
