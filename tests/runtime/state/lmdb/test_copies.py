"""Copies of stores as a whole, of all backends that have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.memory import MemoryBackend
from headwater.runtime.state.store import CopyDamagedError, CopyingBackend, StateStore

BACKENDS: dict[str, Callable[[Path], CopyingBackend]] = {
    "lmdb": lambda _: LmdbBackend(),
    "memory": lambda path: MemoryBackend(str(path / "memory")),
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> CopyingBackend:
    return BACKENDS[request.param](tmp_path)


def filled(backend: CopyingBackend, directory: Path, rows: int = 1000) -> StateStore:
    store: StateStore = backend.open(directory)  # type: ignore[attr-defined]
    keys = [b"%05d" % row for row in range(rows)]
    store.apply([(keys, [key * 10 for key in keys])], 0, rows)
    return store


def test_copy_takes_the_place_of_another_store_with_its_rows_and_position(backend, tmp_path):
    filled(backend, tmp_path / "a")
    assert backend.save_copy(tmp_path / "a", tmp_path / "copy") == 1000
    other = backend.open(tmp_path / "b")
    other.apply([([b"old"], [b"row"])], 0, 7)

    backend.load_copy(tmp_path / "b", 1000, tmp_path / "copy")

    assert other.position == 1000
    assert list(other.range(None, None)) == list(backend.open(tmp_path / "a").range(None, None))
    other.apply([([b"new"], [b"row"])], 1000, 1001)
    assert other.get_many([b"new", b"old"]) == [b"row", None]
    assert backend.open_to_read(tmp_path / "b").position == 1001


def test_copy_is_of_one_moment_while_the_store_goes_on(backend, tmp_path):
    store = filled(backend, tmp_path / "a")
    backend.save_copy(tmp_path / "a", tmp_path / "copy")
    store.apply([([b"later"], [b"row"])], 1000, 1001)

    backend.load_copy(tmp_path / "b", 1000, tmp_path / "copy")

    assert backend.open(tmp_path / "b").get_many([b"later"]) == [None]
    assert store.get_many([b"later"]) == [b"row"]


def test_copy_has_no_room_that_the_store_has_freed(backend, tmp_path):
    store = filled(backend, tmp_path / "a", 20_000)
    keys = [b"%05d" % row for row in range(10, 20_000)]
    store.apply([(keys, [None] * len(keys))], 20_000, 20_001)

    assert backend.save_copy(tmp_path / "a", tmp_path / "copy") == 20_001
    assert (tmp_path / "copy").stat().st_size < 100_000


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (lambda whole: b"", "its first page is not LMDB's"),
        (lambda whole: whole[:-1], "1 bytes too short"),
        (lambda whole: b"x" * len(whole), "its first page is not LMDB's"),
    ],
)
def test_file_that_is_no_copy_leaves_the_store_as_it_was(backend, tmp_path, content, cause):
    filled(backend, tmp_path / "a")
    backend.save_copy(tmp_path / "a", tmp_path / "copy")
    bad = tmp_path / "bad"
    bad.write_bytes(content((tmp_path / "copy").read_bytes()))
    store = filled(backend, tmp_path / "b", 5)

    with pytest.raises(CopyDamagedError, match=cause):
        backend.load_copy(tmp_path / "b", 1000, bad)

    assert store.position == 5
    assert len(list(store.range(None, None))) == 5
    assert [path.name for path in tmp_path.iterdir() if "loading" in path.name] == []


def test_copy_of_another_position_than_expected_is_refused(backend, tmp_path):
    filled(backend, tmp_path / "a")
    backend.save_copy(tmp_path / "a", tmp_path / "copy")

    with pytest.raises(CopyDamagedError, match="it is at position 1,000, and not at 999"):
        backend.load_copy(tmp_path / "b", 999, tmp_path / "copy")
