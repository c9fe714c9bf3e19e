"""Files and folders that are their owner's only, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.compiler.emit.target import _write
from headwater.errors import MachineError
from headwater.private_files import make_folder, open_to_others, opener
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.directory_claim import claim
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.memory import MemoryBackend
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_log_state_memory_and_target_are_for_their_owner_whatever_the_umask(tmp_path: Path, umask: None) -> None:
    make_folder(tmp_path / "all")
    log = EmbeddedLog(tmp_path / "all" / "log")
    log.check()
    log.commits("p-t").create(1, b"{}")
    commits = log.commits("p-t")
    commits.save_snapshot(2, b"{}", commits.create(2, b"{}"))
    commits.fold(2, commits.identity(2) or "")
    assert commits.first() == 2
    log.write("p-t", "c", "a", pa.table({"_timestamp": [1]}), 0, 0)
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    state = tmp_path / "all" / "state"
    directory = StateDirectory(state, claim(state, "p-t", owner), "p-t")
    with directory.lock():
        ProcessFile.take(directory.path, owner)
        for path, opened in (
            (directory.store_path(StoreId("s", 0)), LmdbStore),
            (directory.store_path(StoreId("m", 0)), MemoryBackend(str(tmp_path / "all" / "shm")).open),
        ):
            store = opened(path)
            store.apply([([b"a"], [b"1"])], 0, 1)
            assert store.get_many([b"a"]) == [b"1"]
    _write(tmp_path / "all" / "target" / "t" / "job.py", "secret = 1")

    found = [path for path in (tmp_path / "all").rglob("*") if not path.is_symlink()]
    assert len(found) > 20
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_file()} == {"0o600"}


def test_folder_that_is_there_keeps_its_rights_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)

    made = make_folder(tmp_path / "shared" / "a" / "b")

    assert made == [tmp_path / "shared" / "a", tmp_path / "shared" / "a" / "b"]
    assert open_to_others(tmp_path / "shared") == f"others may get into {tmp_path / 'shared'} (mode 755)"
    assert open_to_others(tmp_path / "shared" / "a") == open_to_others(tmp_path / "none") == ""


def test_folder_of_another_user_is_told(tmp_path: Path) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 65534, 65534)
        assert open_to_others(tmp_path) == f"{tmp_path} belongs to another user (65534)"
    else:
        assert open_to_others(Path("/etc")) == "/etc belongs to another user (0)"


def test_lock_and_log_files_that_are_there_keep_the_rights_that_a_group_was_given(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.touch()
    path.chmod(0o660)
    with open(path, "a+", opener=opener) as file:
        file.write("1")
    with open(path, "w", opener=opener) as file:
        file.write("2")
    assert (path.read_text(), oct(path.stat().st_mode & 0o777)) == ("2", "0o660")


def test_folder_in_a_file_system_that_has_none_but_its_own_is_refused_with_a_way_out() -> None:
    path = Path("/proc/headwater/state")

    with pytest.raises(PermissionError) as raised:
        make_folder(path)

    error = MachineError.from_error(raised.value)
    assert str(error.message) == "/proc/headwater: this file system lets nobody make a folder here"
    assert error.hint == "give this user the right to it, or choose another path"


def test_dangling_links_are_looked_for_only_after_opening_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    log.commits("p-t").create(1, b"{}")
    looked_at: list[Path] = []
    monkeypatch.setattr(Path, "is_symlink", lambda path: looked_at.append(path) or False)

    assert (bool(log.identity()), log.applications(), make_folder(tmp_path / "log")) == (True, ["p-t"], [])
    assert looked_at == []
    assert EmbeddedLog(tmp_path / "none").applications() == []
    assert looked_at == [tmp_path / "none", *(tmp_path / "none").parents]
