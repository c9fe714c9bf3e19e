"""What is RocksDB's own: checkpoints, unclean ends, damage, and one process at a time that writes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.state.rocksdb import databases
from headwater.runtime.state.rocksdb.databases import process_databases
from headwater.runtime.state.rocksdb.store import RocksdbBackend, RocksdbStore
from headwater.runtime.state.rocksdb.writer import WriteLock
from headwater.runtime.state.store import StoreDamagedError, StoreUnusableError
from headwater.runtime.tasks.errors import TaskMigratedError
from headwater.tests.waiting import wait_until

KEYS = [b"key %05d" % number for number in range(20_000)]
VALUES = [b"value of %05d" % number for number in range(20_000)]
BACKEND = RocksdbBackend(compression="none")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store" / "3"
    store = BACKEND.open(path)
    store.apply([(KEYS, VALUES)], 0, 20_000)
    store.close()
    return path


def forked(work: Callable[[], object]) -> int:
    """A process that does this and is killed then. A fork has this process close its stores."""
    if (child := os.fork()) == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(7)
    return child


def end_of(child: int) -> int:
    """How a forked process ends; 7: as it should."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_another_process(work: Callable[[], object]) -> int:
    return end_of(forked(work))


def in_a_new_program(work: Callable[..., object], *arguments: object) -> None:
    """Have it done by a process that is not forked: this one keeps its stores open."""
    child = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    child.start()
    child.join()
    assert child.exitcode == 0


def readable_by_all(directory: Path) -> None:
    for path in (directory, *directory.rglob("*"), *directory.parents):
        if path.stat().st_uid == os.getuid():
            path.chmod(path.stat().st_mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))


def become_another_user() -> None:
    os.setgid(65534)
    os.setuid(65534)


def held_with_a_checkpoint(directory: Path) -> RocksdbStore:
    """The store, to which this process has applied a change."""
    store = BACKEND.open(directory)
    store.apply([([b"x"], [b"1"])], 20_000, 20_001)
    store.checkpoint()
    return store


def test_checkpoint_is_there_from_the_flush_to_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / "store" / "3"
    store = BACKEND.open(path)
    store.apply([([b"a"], [b"1"])], 0, 5)
    assert not (path / ".checkpoint").exists()
    assert store.unwritten[0] == 5

    store.checkpoint()
    assert (path / ".checkpoint").read_text() == "0\n2\nrocksdb-sequence 0 1\nstore 3 4\n"
    assert store.unwritten == (0, 0)

    store.apply([([b"b"], [b"1"])], 5, 6)
    assert not (path / ".checkpoint").exists()
    assert (store.position, store.unwritten[0]) == (6, 1)


def test_store_that_is_killed_behind_its_checkpoint_is_whole_and_before_it_is_empty(directory: Path) -> None:
    store = BACKEND.open(directory)

    def change_and_flush() -> None:
        store.apply([([b"x"], [b"1"])], 20_000, 20_001)
        store.checkpoint()

    assert in_another_process(change_and_flush) == 7
    assert (store.position, store.get_many([b"x", KEYS[0]])) == (20_001, [b"1", VALUES[0]])

    assert in_another_process(lambda: store.apply([([b"x"], [b"2"])], 20_001, 20_002)) == 7
    for opened in (BACKEND.open_to_read(directory), store):
        with pytest.raises(StoreDamagedError, match="the process that had it open was killed"):
            _ = opened.position
    assert (store.position, list(store.range(None, None))) == (0, [])


def test_store_that_nobody_uses_for_a_moment_is_brought_to_the_disk(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BACKEND.open(directory)
    store.apply([([b"x"], [b"1"])], 20_000, 20_001)
    writer = process_databases._writers[directory.resolve()]
    process_databases.checkpoint_idle()
    assert not (directory / ".checkpoint").exists()
    monkeypatch.setattr(databases, "IDLE_S", 0)
    process_databases.checkpoint_idle()
    assert (directory / ".checkpoint").exists()
    assert process_databases._writers[directory.resolve()] is writer, "it stays open"


def open_for_a_change_that_is_refused(directory: Path) -> None:
    with pytest.raises(TaskMigratedError):
        BACKEND.open(directory).apply([], 1, 2)


def test_store_that_is_opened_for_writing_while_a_reader_opens_it_is_not_damaged(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # RocksDB replaces its list of files when it opens a database for writing. The checkpoint file stays the same.
    copyfile = shutil.copyfile

    def copy_after_another_writer(source: Path, target: Path) -> object:
        monkeypatch.setattr(shutil, "copyfile", copyfile)
        in_a_new_program(open_for_a_change_that_is_refused, directory)
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_after_another_writer)
    assert BACKEND.open(directory).get_many([KEYS[3]]) == [VALUES[3]]
    assert shutil.copyfile is copyfile
    assert BACKEND.open(directory).position == 20_000


def test_store_that_is_held_with_a_checkpoint_is_given_to_the_process_that_changes_it(directory: Path) -> None:
    store = held_with_a_checkpoint(directory)

    in_a_new_program(store.apply, [([b"x"], [b"2"])], 20_001, 20_002)

    assert (store.position, store.get_many([b"x", KEYS[0]])) == (20_002, [b"2", VALUES[0]])


def test_store_that_is_held_with_a_checkpoint_stays_open_for_readers_until_another_process_closes_it(
    directory: Path,
) -> None:
    store = held_with_a_checkpoint(directory)
    writer = process_databases._writers[directory.resolve()]

    in_a_new_program(store.get_many, [b"x"])
    assert process_databases._writers[directory.resolve()] is writer

    in_a_new_program(store.close)
    wait_until(lambda: directory.resolve() not in process_databases._writers)
    assert (store.position, store.get_many([b"x"])) == (20_001, [b"1"])


def test_store_that_another_one_has_replaced_is_let_go_and_leaves_the_checkpoint_of_the_other_one(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.copytree(directory, tmp_path / "other", ignore=shutil.ignore_patterns("asked"))
    BACKEND.open(directory).apply([([b"x"], [b"1"])], 20_000, 20_001)
    directory.rename(directory.with_name(".3-wiped"))
    other.rename(directory)
    checkpoint = (directory / ".checkpoint").read_text()
    monkeypatch.setattr(databases, "IDLE_S", 0)

    process_databases.checkpoint_idle()

    assert (directory / ".checkpoint").read_text() == checkpoint
    assert directory.resolve() not in process_databases._writers


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["*.sst", "MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("change", [shortened, flipped, Path.unlink])
def test_file_that_is_not_as_it_was_written_is_damage_and_the_store_starts_empty(
    directory: Path, change: Callable[[Path], None], name: str
) -> None:
    (file,) = (directory / "db").glob(name)
    change(file)

    store = BACKEND.open(directory)
    with pytest.raises(StoreDamagedError):
        list(store.range(None, None))
    assert (store.position, list(store.range(None, None))) == (0, [])
    store.apply([(KEYS, VALUES)], 0, 20_000)
    assert store.get_many(KEYS[:2]) == VALUES[:2]


def test_database_that_is_gone_is_damage(directory: Path) -> None:
    shutil.rmtree(directory / "db")

    for store in (BACKEND.open_to_read(directory), BACKEND.open(directory)):
        (directory / ".checkpoint").write_text("0\n2\nrocksdb-sequence 0 20000\nstore 3 19999\n")
        with pytest.raises(StoreDamagedError, match="is not there"):
            store.get_many([KEYS[0]])
    assert store.position == 0


@pytest.mark.parametrize("content", ["0\n1\n", "0\n1\nother 3 5\n", "9\n", ""])
def test_checkpoint_file_that_cannot_be_understood_is_damage(directory: Path, content: str) -> None:
    (directory / ".checkpoint").write_text(content)

    store = BACKEND.open(directory)
    with pytest.raises(StoreDamagedError, match="its checkpoint file"):
        _ = store.position
    assert store.position == 0


def test_damaged_row_is_found_by_whoever_asks_for_it(directory: Path) -> None:
    (file,) = (directory / "db").glob("*.sst")
    content = file.read_bytes()
    assert VALUES[10_000] in content
    file.write_bytes(content.replace(VALUES[10_000], VALUES[10_001]))

    assert BACKEND.open(directory).get_many([KEYS[0]]) == [VALUES[0]]
    with pytest.raises(StoreDamagedError, match="checksum mismatch"):
        BACKEND.open(directory).get_many([KEYS[10_000]])


def test_store_that_is_wiped_while_it_is_open_starts_empty(directory: Path) -> None:
    store = BACKEND.open(directory)
    store.apply([([b"x"], [b"1"])], 20_000, 20_001)
    directory.rename(directory.with_name(".3-wiped"))

    assert store.position == 0
    store.apply([([b"x"], [b"2"])], 0, 1)
    assert list(store.range(None, None)) == [(b"x", b"2")]


def test_closed_store_is_read_by_who_may_not_write_in_its_folder(directory: Path) -> None:
    def read() -> None:
        become_another_user()
        reader = RocksdbStore(directory, BACKEND._settings, writable=False)
        assert (reader.position, reader.get_many([KEYS[7]])) == (20_000, [VALUES[7]])

    if os.getuid():
        pytest.skip("only root can become another user")
    readable_by_all(directory)
    assert in_another_process(read) == 7


def test_store_that_a_process_of_another_user_changes_cannot_be_read_and_is_not_called_damaged(
    directory: Path,
) -> None:
    changed, tell = os.pipe()

    def read() -> None:
        become_another_user()
        os.read(changed, 1)
        with pytest.raises(StoreUnusableError, match=r"store cannot be used: another process has it open.*give this"):
            _ = BACKEND.open_to_read(directory).position

    if os.getuid():
        pytest.skip("only root can become another user")
    readable_by_all(directory)
    child = forked(read)
    BACKEND.open(directory).apply([([b"x"], [b"1"])], 20_000, 20_001)
    os.write(tell, b"!")
    assert end_of(child) == 7


def test_closed_store_is_plain_files_and_may_be_copied(directory: Path) -> None:
    copy = directory.with_name("4")
    shutil.copytree(directory, copy)
    (copy / ".checkpoint").write_text((copy / ".checkpoint").read_text().replace("store 3", "store 4"))

    assert BACKEND.open(copy).get_many([KEYS[7]]) == [VALUES[7]]


def test_files_are_their_owners_own(directory: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, directory / "db")} == {0o700}
    assert stat.S_IMODE((directory / ".checkpoint").stat().st_mode) == 0o600


@pytest.mark.parametrize("writes", [True, False])
def test_folder_that_cannot_be_looked_at_does_not_end_the_thread_that_answers_for_other_stores(
    directory: Path, tmp_path: Path, writes: bool
) -> None:
    store = BACKEND.open(directory) if writes else BACKEND.open_to_read(directory)
    assert store.position == 20_000
    if writes:
        store.apply([([b"a"], [b"b"])], 20_000, 20_001)
    with process_databases._lock:  # the thread itself must not look while the folder is on its way
        directory.parent.rename(tmp_path / "elsewhere")
        directory.parent.write_text("no folder")

        process_databases.checkpoint_idle()

        directory.parent.unlink()
        (tmp_path / "elsewhere").rename(directory.parent)
    assert store.position == 20_000 + writes


def test_right_to_write_is_given_up_where_its_folder_cannot_be_looked_at(directory: Path, tmp_path: Path) -> None:
    lock = WriteLock.try_acquire(directory)
    assert lock is not None
    directory.parent.rename(tmp_path / "elsewhere")
    directory.parent.write_text("no folder")

    lock.release()

    directory.parent.unlink()
    (tmp_path / "elsewhere").rename(directory.parent)
    assert BACKEND.open(directory).position == 20_000
