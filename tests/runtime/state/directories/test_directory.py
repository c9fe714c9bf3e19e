from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.errors import MachineError
from headwater.runtime.log.commit.records import CommitMark
from headwater.runtime.state.directory import LOCK, StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.offset_checkpoint import commit_mark_path, write_commit_mark
from headwater.runtime.task_id import StoreId
from headwater.runtime.tasks.errors import LockError

A0, A1, B0 = StoreId("a", 0), StoreId("a", 1), StoreId("b", 0)


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state", "client-1", "project-topology")


def with_stores(directory: StateDirectory, *stores: StoreId) -> StateDirectory:
    for number, store in enumerate(stores):
        LmdbStore(directory.store_path(store)).apply([([b"k"], [b"v"])], 0, 5 + 5 * number)
    return directory


def position(directory: StateDirectory, store: StoreId) -> int:
    return LmdbStore(directory.store_path(store)).position


def test_path_of_a_store_names_client_application_store_and_partition(
    directory: StateDirectory, tmp_path: Path
) -> None:
    assert directory.store_path(A1) == tmp_path / "state/client-1/project-topology/a/1"


def test_directory_that_was_never_used_has_no_stores_and_is_not_made(directory: StateDirectory) -> None:
    assert directory.stores() == []
    assert not directory.path.exists()


def test_stores_are_listed_without_what_is_not_ours(directory: StateDirectory) -> None:
    with_stores(directory, B0, A1, A0)
    (directory.path / "notes").mkdir()
    (directory.path / "notes" / "7").write_text("")
    (directory.path / "a" / "dummy").mkdir()

    assert directory.stores() == [A0, A1, B0]


def test_link_to_nothing_in_place_of_the_lock_file_is_told_with_its_way_out(directory: StateDirectory) -> None:
    directory.path.mkdir(parents=True)
    (directory.path / LOCK).symlink_to("/nowhere/lock")

    with pytest.raises(MachineError) as caught, directory.lock():
        pass

    assert caught.value.message == (
        f"{directory.path}/.lock: it is a symbolic link to /nowhere/lock, whose folder is not there"
    )
    assert caught.value.hint == "remove the link: a lock file is created when it is needed"


def test_folder_in_place_of_the_lock_file_is_told_with_its_way_out(directory: StateDirectory) -> None:
    (directory.path / LOCK).mkdir(parents=True)

    with pytest.raises(MachineError) as caught, directory.lock():
        pass

    assert caught.value.message == f"{directory.path}/.lock: Is a directory"
    assert caught.value.hint == "move it away: there is a folder where a file belongs"


def test_second_lock_is_refused_with_the_pid_of_the_holder(directory: StateDirectory) -> None:
    with directory.lock(), pytest.raises(LockError) as caught, directory.lock():
        pass

    assert caught.value.pid == os.getpid()
    assert str(directory.path) in str(caught.value)


def test_lock_that_was_let_go_is_given_again(directory: StateDirectory) -> None:
    with directory.lock():
        pass
    with directory.lock():
        pass


def test_lock_of_a_killed_process_is_given_again(directory: StateDirectory) -> None:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with directory.lock():
            os.write(write, b"!")
            os.kill(os.getpid(), 9)
    os.read(read, 1)
    os.waitpid(child, 0)

    with directory.lock():
        assert directory.stores() == []


def test_locks_of_two_applications_do_not_meet(directory: StateDirectory, tmp_path: Path) -> None:
    with directory.lock(), StateDirectory(tmp_path / "state", "client-1", "other").lock():
        pass


def test_unreadable_lock_file_gives_an_error_without_pid(directory: StateDirectory) -> None:
    with directory.lock():
        (directory.path / ".lock").write_text("?")
        with pytest.raises(LockError) as caught, directory.lock():
            pass

    assert caught.value.pid is None


def test_removed_store_is_gone_and_removing_it_again_is_fine(directory: StateDirectory) -> None:
    with_stores(directory, A0, A1)

    directory.remove(A0)
    directory.remove(A0)

    assert directory.stores() == [A1]
    assert list((directory.path / "a").iterdir()) == [directory.store_path(A1)]


def test_cleaner_removes_what_nobody_owns_once_it_was_left_long_enough(directory: StateDirectory) -> None:
    with_stores(directory, A0, A1, B0)
    os.utime(directory.store_path(B0), (0, 0))
    for file in directory.store_path(B0).iterdir():
        os.utime(file, (0, 0))

    assert directory.clean([A1, B0], delay_s=600) == [B0]
    assert not (directory.path / "b").exists(), "empty folders go too"
    assert directory.clean([A1, B0], delay_s=-1) == [A1]
    assert directory.stores() == [A0]


def test_cleaner_keeps_what_is_owned_however_old_and_folders_that_are_not_ours(directory: StateDirectory) -> None:
    with_stores(directory, A0)
    (directory.path / "notes").mkdir()
    (directory.path / "notes" / "mine.txt").touch()

    assert directory.clean([], delay_s=0, now=1e12) == []
    assert directory.stores() == [A0]
    assert (directory.path / "notes" / "mine.txt").exists()


def test_note_that_a_dead_process_had_begun_to_write_is_removed_when_the_directory_is_taken(
    directory: StateDirectory, tmp_path: Path
) -> None:
    with_stores(directory, A0)
    write_commit_mark(directory.store_path(A0), CommitMark("project-topology", 1, 1))
    note = commit_mark_path(directory.store_path(A0))
    note.with_name(f"{note.name}.999999999").touch()
    with directory.lock():
        assert sorted(each.name for each in note.parent.iterdir()) == [".0.commit", "0"]


def test_store_that_a_dead_process_has_half_wiped_is_removed_when_the_directory_is_taken(tmp_path):
    held = StateDirectory(tmp_path, "client-1", "p-a")
    dead, alive = (held.path / "totals" / f".0-{pid}" for pid in (999_999_999, os.getpid()))
    for path in (dead, alive, held.path / "totals" / "1"):
        path.mkdir(parents=True)

    with held.lock():
        pass

    assert not dead.exists()
    assert alive.is_dir()
    assert (held.path / "totals" / "1").is_dir()


def test_store_is_wiped_though_a_killed_process_of_the_same_id_has_left_half_of_one(directory: StateDirectory) -> None:
    with_stores(directory, A0)
    left = directory.store_path(A0).with_name(f".{A0.partition}-{os.getpid()}")
    (left / "files").mkdir(parents=True)

    directory.remove(A0)

    assert directory.stores() == []
    assert not left.exists()
