"""Copies of RocksDB stores as a whole: what snapshots are made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.state.rocksdb.store import RocksdbBackend, RocksdbStore
from headwater.runtime.state.store import CopyDamagedError, CopyingBackend

BACKEND = RocksdbBackend()
KEYS = [b"%05d" % row for row in range(1000)]
ROWS = [(key, key * 10) for key in KEYS]


def filled(directory: Path) -> RocksdbStore:
    store = BACKEND.open(directory)
    store.apply([(KEYS, [value for _, value in ROWS])], 0, 1000)
    return store


def no_rest(path: Path) -> bool:
    return not [each for each in path.iterdir() if "loading" in each.name or "copying" in each.name]


def test_copy_is_of_one_moment_and_takes_the_place_of_another_store(tmp_path: Path) -> None:
    assert isinstance(BACKEND, CopyingBackend)
    store = filled(tmp_path / "a")
    assert BACKEND.save_copy(tmp_path / "a", tmp_path / "copy") == 1000
    store.apply([([b"later"], [b"row"])], 1000, 1001)
    other = BACKEND.open(tmp_path / "b")
    other.apply([([b"old"], [b"row"])], 0, 7)

    BACKEND.load_copy(tmp_path / "b", 1000, tmp_path / "copy")

    assert (other.position, list(other.range(None, None))) == (1000, ROWS)
    assert store.get_many([b"later"]) == [b"row"]
    other.apply([([b"new"], [b"row"])], 1000, 1001)
    other.close()
    assert BACKEND.open_to_read(tmp_path / "b").get_many([b"new", b"old", b"later"]) == [b"row", None, None]
    assert no_rest(tmp_path)


def test_process_that_is_killed_after_a_copy_was_loaded_has_it(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    BACKEND.save_copy(tmp_path / "a", tmp_path / "copy")
    if (child := os.fork()) == 0:
        BACKEND.load_copy(tmp_path / "b", 1000, tmp_path / "copy")
        os._exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    assert BACKEND.open(tmp_path / "b").position == 1000


@pytest.mark.parametrize(
    "content",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: b"x" * len(whole),
        lambda whole: whole.replace(b"position.json", b"position.jsox"),
        lambda whole: whole.replace(b"CURRENT", b"CURREXT"),
    ],
)
def test_file_that_is_no_copy_leaves_the_store_as_it_was(tmp_path: Path, content: Callable[[bytes], bytes]) -> None:
    filled(tmp_path / "a")
    BACKEND.save_copy(tmp_path / "a", tmp_path / "copy")
    bad = tmp_path / "bad"
    bad.write_bytes(content((tmp_path / "copy").read_bytes()))
    store = BACKEND.open(tmp_path / "b")
    store.apply([(KEYS[:5], KEYS[:5])], 0, 5)

    with pytest.raises(CopyDamagedError):
        BACKEND.load_copy(tmp_path / "b", 1000, bad)

    assert (store.position, len(list(store.range(None, None)))) == (5, 5)
    assert no_rest(tmp_path)


def test_copy_of_another_position_than_expected_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    BACKEND.save_copy(tmp_path / "a", tmp_path / "copy")

    with pytest.raises(CopyDamagedError, match="it is at position 1,000, and not at 999"):
        BACKEND.load_copy(tmp_path / "b", 999, tmp_path / "copy")
