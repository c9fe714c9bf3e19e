"""What is LMDB's own: trust in files after the machine stopped, files that are not ours, wiped directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.runtime.state.lmdb.store import LmdbStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = LmdbStore(tmp_path / "store")
    store.apply([([b"a"], [b"1"])], 0, 1)
    return tmp_path / "store"


def end_of_this_process(directory: Path) -> None:
    """As a kill leaves it: files closed, nothing synced."""
    from headwater.runtime.state.lmdb.environment import process_environments

    process_environments.before_fork()
    process_environments.after_fork()


def test_unsynced_store_of_another_boot_starts_empty(directory: Path) -> None:
    end_of_this_process(directory)
    (directory / "unsynced").write_text("the boot before")

    store = LmdbStore(directory)

    assert store.position == 0
    assert store.get_many([b"a"]) == [None]


def test_unsynced_store_of_this_boot_is_kept(directory: Path) -> None:
    end_of_this_process(directory)

    assert (directory / "unsynced").exists()
    assert LmdbStore(directory).position == 1


def test_closed_store_is_kept_over_a_boot(directory: Path) -> None:
    LmdbStore(directory).close()

    assert not (directory / "unsynced").exists()
    assert LmdbStore(directory).position == 1


def test_store_that_is_only_read_after_a_close_stays_synced(directory: Path) -> None:
    LmdbStore(directory).close()
    LmdbStore(directory).get_many([b"a"])

    assert not (directory / "unsynced").exists()


def test_store_that_is_written_after_a_close_is_unsynced_again(directory: Path) -> None:
    LmdbStore(directory).close()
    LmdbStore(directory).apply([([b"b"], [b"2"])], 1, 2)

    assert (directory / "unsynced").exists()


def test_file_that_lmdb_cannot_read_is_replaced_by_an_empty_store(directory: Path) -> None:
    LmdbStore(directory).close()
    (directory / "data.mdb").write_bytes(b"not a database" * 1000)

    store = LmdbStore(directory)

    assert store.position == 0
    store.apply([([b"a"], [b"2"])], 0, 1)
    assert store.get_many([b"a"]) == [b"2"]


def test_wiped_directory_gives_an_empty_store_to_who_had_it_open(directory: Path) -> None:
    store = LmdbStore(directory)
    assert store.position == 1
    shutil.rmtree(directory)

    assert store.position == 0
    store.apply([([b"b"], [b"2"])], 0, 1)
    assert LmdbStore(directory).get_many([b"a", b"b"]) == [None, b"2"]


def test_closing_a_wiped_store_does_not_bring_it_back(directory: Path) -> None:
    store = LmdbStore(directory)
    shutil.rmtree(directory)

    store.close()

    assert not directory.exists()


def test_two_ways_to_write_a_path_reach_one_store(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)

    assert LmdbStore(tmp_path / "link").get_many([b"a"]) == [b"1"]


def test_key_of_the_length_lmdb_takes_and_one_byte_more_are_two_rows(directory: Path) -> None:
    keys = [b"k" * length for length in (494, 495, 496, 510, 511, 512, 2000)]
    store = LmdbStore(directory)
    store.apply([(keys, keys)], 1, 2)

    assert store.get_many(keys) == keys
    assert [key for key, _ in store.range(b"k", None)] == keys


def test_range_ends_where_it_is_told_among_long_keys_too(directory: Path) -> None:
    keys = sorted([b"%04d" % number + b"k" * (number % 7 // 5 * 600) for number in range(6000)])
    store = LmdbStore(directory)
    store.apply([(keys, keys)], 1, 2)

    for first, behind in ((0, 5), (4, 6), (5, 5), (6, 13), (5, 4200), (4097, 6000), (6000, 6000)):
        start, end = (keys[place] if place < len(keys) else b"9" for place in (first, behind))
        assert [key for key, _ in store.range(start, end)] == keys[first:behind]
        assert [key for key, _ in store.range(start + b"\0", end + b"\0")] == keys[first + 1 : behind + 1]
