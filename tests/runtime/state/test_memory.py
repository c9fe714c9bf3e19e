from __future__ import annotations

import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.runtime.state.memory import MemoryBackend, UntrustedFolderError
from headwater.runtime.state.store import StoreDamagedError


def test_rows_lie_below_the_given_path_only(tmp_path: Path) -> None:
    store = MemoryBackend(str(tmp_path / "shm")).open(tmp_path / "state" / "0")
    store.apply([([b"a"], [b"1"])], 0, 1)

    assert not list((tmp_path / "state").rglob("data.mdb"))
    assert len(list((tmp_path / "shm").rglob("data.mdb"))) == 1


def test_lost_memory_gives_an_empty_store(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    backend.open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)
    shutil.rmtree(tmp_path / "shm")

    assert backend.open(tmp_path / "state" / "0").position == 0


def test_place_is_found_again_by_a_backend_that_would_choose_another(tmp_path: Path) -> None:
    MemoryBackend(str(tmp_path / "shm")).open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)

    assert MemoryBackend(str(tmp_path / "elsewhere")).open(tmp_path / "state" / "0").get_many([b"a"]) == [b"1"]


def test_memory_of_a_removed_state_directory_is_freed_by_the_next_new_store(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    backend.open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)
    backend.open(tmp_path / "state" / "1").apply([([b"b"], [b"2"])], 0, 1)
    shutil.rmtree(tmp_path / "state" / "0")

    backend.open(tmp_path / "state" / "2")

    assert backend.open(tmp_path / "state" / "1").get_many([b"b"]) == [b"2"]
    assert len(list((tmp_path / "shm").iterdir())) == 2


def test_memory_of_a_renamed_state_directory_stays_its_own_and_is_not_given_to_another(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    before, after = tmp_path / "before" / "0", tmp_path / "after" / "0"
    backend.open(before).apply([([b"a"], [b"1"])], 0, 1)
    before.parent.rename(after.parent)
    backend.open(after)

    backend.open(before).apply([([b"b"], [b"2"])], 0, 1)

    assert backend.open(after).get_many([b"a", b"b"]) == [b"1", None]


def test_without_a_path_stores_work_where_the_machine_has_room(tmp_path: Path) -> None:
    store = MemoryBackend().open(tmp_path / "state" / "0")
    store.apply([([b"a"], [b"1"])], 0, 1)

    assert store.get_many([b"a"]) == [b"1"]
    shutil.rmtree((tmp_path / "state" / "0" / "memory").readlink())


def test_owner_of_a_store_in_use_is_never_written_again(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    backend.open(tmp_path / "state" / "0")
    (owner,) = (tmp_path / "shm").glob("*/owner")
    before = owner.stat()
    backend.open(tmp_path / "state" / "0")

    assert (owner.stat().st_ino, owner.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert {path.name for path in owner.parent.iterdir()} == {"owner"}


def test_new_store_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    for number in range(50):
        start = threading.Barrier(4)

        def opened(_: int, directory: Path = tmp_path / "state" / str(number), start: threading.Barrier = start) -> int:
            backend = MemoryBackend(str(tmp_path / "shm"))
            start.wait()
            return backend.open(directory).position

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(opened, range(4))) == [0] * 4


def unsafe_folders(root: Path) -> dict[str, Path]:
    """Folders that others can have put stores into, by what is wrong with them."""
    (root / "open").mkdir()
    (root / "open").chmod(0o777)
    (root / "other").mkdir(0o700)
    if os.getuid() == 0:
        os.chown(root / "other", 65534, 65534)
    (root / "mine").mkdir(0o700)
    (root / "link").symlink_to(root / "mine")
    (root / "file").touch()
    found = {"others may write to it (mode 777)": root / "open", "it is a link": root / "link"}
    found["it is no folder"] = root / "file"
    if os.getuid() == 0:
        found["it belongs to user 65534, not to user 0"] = root / "other"
    return found


def test_folder_into_which_others_can_put_stores_is_refused_with_a_way_out(tmp_path: Path) -> None:
    for number, (cause, folder) in enumerate(unsafe_folders(tmp_path).items()):
        with pytest.raises(UntrustedFolderError, match=re.escape(f"cannot be kept in {folder}: {cause}")) as raised:
            MemoryBackend(str(folder)).open(tmp_path / "state" / str(number))
        assert "options: {path: ...}" in str(raised.value)
        assert not folder.is_dir() or not list(folder.iterdir())


def test_folder_that_others_made_after_memory_was_lost_is_refused(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    backend.open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)
    place = (tmp_path / "state" / "0" / "memory").readlink()
    shutil.rmtree(tmp_path / "shm")
    place.mkdir(parents=True)
    for folder in (place.parent, place):
        folder.chmod(0o777)
        for open_store in (backend.open, backend.open_to_read):
            with pytest.raises(UntrustedFolderError, match=re.escape(str(folder))):
                open_store(tmp_path / "state" / "0")
        folder.chmod(0o700)


def test_folder_that_others_could_only_look_into_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    (tmp_path / "shm").chmod(0o755)

    MemoryBackend(str(tmp_path / "shm")).open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)

    assert (tmp_path / "shm").stat().st_mode & 0o777 == 0o700


def test_memory_that_is_gone_is_told_to_who_only_reads(tmp_path: Path) -> None:
    backend = MemoryBackend(str(tmp_path / "shm"))
    backend.open(tmp_path / "state" / "0").apply([([b"a"], [b"1"])], 0, 1)
    assert backend.open_to_read(tmp_path / "state" / "0").get_many([b"a"]) == [b"1"]
    shutil.rmtree(tmp_path / "shm")

    with pytest.raises(StoreDamagedError, match="the memory that it was in is gone"):
        backend.open_to_read(tmp_path / "state" / "0")
