"""Stores whose files are not what was written: found when they are read or opened, and given up by all who use them."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from headwater.runtime.state.lmdb.environment import process_environments
from headwater.runtime.state.lmdb.file import RowDamagedError, missing_bytes
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.store import StateStore, StoreDamagedError
from headwater.tests.runtime.restore.fatal_flips import FIRST_ROW, FLAGS, LEAF, PAGE

KEYS = [b"key %03d" % number for number in range(200)]
VALUES = [b"value of %03d" % number for number in range(200)]
LONG = [b"l" * 600 + b"%d" % number for number in range(3)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = LmdbStore(tmp_path / "store")
    store.apply([(KEYS, VALUES), (LONG, LONG)], 0, 203)
    store.close()
    return tmp_path / "store"


def change(directory: Path, found: bytes, put: bytes) -> None:
    """Other bytes in place of all that LMDB has of some, in pages of now and of before."""
    file = directory / "data.mdb"
    content = file.read_bytes()
    assert found in content
    file.write_bytes(content.replace(found, put))


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.get_many([b"key 007"]),
        lambda store: store.get_many(KEYS),
        lambda store: list(store.range(None, None)),
        lambda store: list(store.range(b"key 005", b"key 009")),
        lambda store: list(store.range(b"key 005", b"key 009", reverse=True)),
    ],
)
@pytest.mark.parametrize(
    ("found", "put"),
    [(b"value of 007", b"value of 0~7"), (b"key 007", b"key 0~7"), (b"key 007", b"key 000"), (b"key 007", b"a")],
)
def test_changed_byte_of_value_or_key_is_found_by_whoever_reads_the_row(
    directory: Path, read: Callable[[StateStore], object], found: bytes, put: bytes
) -> None:
    change(directory, found, put.ljust(len(found), b"\0"))

    with pytest.raises(StoreDamagedError) as raised:
        read(LmdbStore(directory))

    assert raised.value.path == directory
    assert "is damaged: " in raised.value.message


def test_changed_byte_of_the_position_is_found(directory: Path) -> None:
    change(directory, b"position" + (203).to_bytes(8, "little"), b"position" + (204).to_bytes(8, "little"))

    with pytest.raises(StoreDamagedError):
        _ = LmdbStore(directory).position


def test_position_that_cannot_be_found_is_damage_and_not_an_empty_store(directory: Path) -> None:
    change(directory, b"position", b"positiom")

    with pytest.raises(StoreDamagedError):
        _ = LmdbStore(directory).position


def test_changed_byte_of_a_long_key_is_found_when_rows_expire(directory: Path) -> None:
    change(directory, LONG[1][590:], b"l" * 10 + b"7")

    with pytest.raises(StoreDamagedError):
        LmdbStore(directory).apply((), 203, 203, expire_below=b"l" * 600 + b"9")


@pytest.fixture
def partitions(tmp_path: Path) -> tuple[Path, Path]:
    """Two partitions of a store, each closed, with as many records but other rows."""
    directories = tmp_path / "totals/0", tmp_path / "totals/1"
    for directory in directories:
        store = LmdbStore(directory)
        store.apply([(KEYS, [key + directory.name.encode() for key in KEYS])], 0, 200)
        store.close()
    return directories


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("open_before", [False, True])
def test_file_of_another_partition_is_found_and_replaced_by_the_next_writer(
    partitions: tuple[Path, Path], writable: bool, open_before: bool
) -> None:
    mine, other = partitions
    if open_before:
        assert LmdbStore(mine).position == 200
    shutil.copyfile(other / "data.mdb", mine / "data.mdb")

    with pytest.raises(StoreDamagedError, match="is damaged: it is the file of partition 1"):
        _ = LmdbStore(mine, writable=writable).position
    assert (LmdbStore(mine).position, LmdbStore(other).position) == (0, 200)


def test_store_of_a_version_that_did_not_write_its_partition_is_kept(partitions: tuple[Path, Path]) -> None:
    mine, other = partitions
    process_environments.before_fork()
    process_environments.after_fork()
    with lmdb.open(str(mine), max_dbs=4) as environment:
        facts = environment.open_db(b"checked facts")
        with environment.begin(write=True) as transaction:
            assert transaction.delete(b"partition", db=facts)
    store = LmdbStore(mine)
    assert store.position == 200

    store.apply([], 200, 201)
    store.close()
    shutil.copyfile(mine / "data.mdb", other / "data.mdb")

    with pytest.raises(StoreDamagedError, match="it is the file of partition 0"):
        _ = LmdbStore(other).position


@pytest.mark.parametrize("bit", [0x01, 0x10, 0x40, 0x80])
def test_changed_list_of_databases_is_found_though_they_are_open(directory: Path, bit: int) -> None:
    """The bit is in the place of the first entry of every page of rows that is mapped, that of the list among them."""
    store = LmdbStore(directory)
    assert store.position == 203
    with (directory / "data.mdb").open("r+b") as file:
        content = file.read()
        for page in range(2 * PAGE, len(content), PAGE):
            if content[page : page + PAGE][FLAGS] == LEAF:
                file.seek(page + FIRST_ROW - 1)
                file.write(bytes([content[page + FIRST_ROW - 1] ^ bit]))

    with pytest.raises(StoreDamagedError):
        _ = store.position
    assert store.position == 0


def test_row_that_nobody_reads_does_not_harm_the_others(directory: Path) -> None:
    change(directory, b"value of 007", b"value of 0~7")

    assert LmdbStore(directory).get_many([b"key 008", b"key 1501"]) == [b"value of 008", None]


def test_store_that_was_found_damaged_starts_empty_for_all_who_write(directory: Path) -> None:
    change(directory, b"value of 007", b"value of 0~7")
    store, other = LmdbStore(directory), LmdbStore(directory)
    with pytest.raises(StoreDamagedError):
        store.get_many(KEYS)

    assert other.position == 0
    store.apply([(KEYS, VALUES)], 0, 200)
    assert store.get_many(KEYS) == VALUES
    assert not (directory / "damaged").exists()


def test_store_that_was_found_damaged_is_left_alone_and_refused_by_who_only_reads(directory: Path) -> None:
    change(directory, b"value of 007", b"value of 0~7")
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match="a row is not what was written"):
            LmdbStore(directory, writable=False).get_many(KEYS)

    content = (directory / "data.mdb").read_bytes()
    assert b"value of 0~7" in content


def test_closed_store_with_a_shorter_file_starts_empty_when_it_is_opened(directory: Path) -> None:
    size = (directory / "data.mdb").stat().st_size
    os.truncate(directory / "data.mdb", size - 4096)

    with pytest.raises(StoreDamagedError, match="is 4,096 bytes too short"):
        _ = LmdbStore(directory, writable=False).position
    assert LmdbStore(directory).position == 0


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("size", [0, 100, 4096, 8192, 12288, 20480])
def test_store_in_use_with_a_shorter_file_is_found_damaged_when_it_is_read(
    tmp_path: Path, size: int, mapped: bool
) -> None:
    """LMDB itself leaves out pages at the end, so a store that was not closed may end too early without harm.

    A process that has it mapped would die at a page that is not there.
    """
    store = LmdbStore(tmp_path / "store")
    store.apply([(KEYS, VALUES)], 0, 200)
    if not mapped:
        process_environments.before_fork()
        process_environments.after_fork()
    os.truncate(tmp_path / "store" / "data.mdb", size)

    try:
        empty = store.position == 0
    except StoreDamagedError:
        empty = store.position == 0
    if not empty:
        with pytest.raises(StoreDamagedError):
            list(store.range(None, None))
        empty = store.position == 0
    assert empty


def test_file_is_as_long_as_it_says_whatever_lmdb_leaves_out(tmp_path: Path) -> None:
    numbers = random.Random(1)
    store = LmdbStore(tmp_path / "store")
    for position in range(60):
        keys = [numbers.randbytes(numbers.choice([1, 2, 200])) for _ in range(numbers.choice([3, 50, 300]))]
        values = [numbers.choice([None, numbers.randbytes(numbers.choice([0, 10, 9000]))]) for _ in keys]
        store.apply([(keys, values)], position, position + 1)
        assert missing_bytes(tmp_path / "store" / "data.mdb") == 0


def test_changed_byte_of_the_first_pages_gives_an_empty_store_or_the_commit_before(directory: Path) -> None:
    """The pages that say where everything is: of two, the newer one counts."""
    content = (directory / "data.mdb").read_bytes()
    for at in (0, 10, 16, 20, 32, 40, 4096 + 16, 4096 + 40, 136, 4096 + 136):
        changed = bytearray(content)
        changed[at] ^= 0x41
        (directory / "data.mdb").write_bytes(changed)
        process_environments.before_fork()
        process_environments.after_fork()
        store = LmdbStore(directory)
        assert store.position in (0, 203), at
        assert [value for _, value in store.range(b"k", b"l")] in ([], VALUES), at
        store.close()


def written_by_version_0_1(directory: Path) -> None:
    directory.mkdir(parents=True)
    with lmdb.open(str(directory), max_dbs=2, map_size=1 << 16) as environment:
        rows, facts = environment.open_db(b"rows"), environment.open_db(b"facts")
        with environment.begin(write=True) as transaction:
            for key, value in zip(KEYS, VALUES, strict=True):
                transaction.put(key, value, db=rows)
            transaction.put(b"position", (200).to_bytes(8, "little"), db=facts)


@pytest.mark.parametrize("map_size", [1 << 16, 64 << 20])
def test_store_of_version_0_1_is_kept_and_gets_checksums(tmp_path: Path, map_size: int) -> None:
    written_by_version_0_1(tmp_path / "store")
    store = LmdbStore(tmp_path / "store", map_size)
    assert store.position == 200
    assert list(store.range(None, None)) == list(zip(KEYS, VALUES, strict=True))
    store.apply([([b"key 007"], [b"new"])], 200, 201)
    assert LmdbStore(tmp_path / "store").get_many([b"key 006", b"key 007"]) == [b"value of 006", b"new"]
    store.close()

    change(tmp_path / "store", b"value of 008", b"value of 0~8")
    with pytest.raises(StoreDamagedError):
        store.get_many([b"key 008"])


def test_store_of_version_0_1_can_be_read_as_it_is(tmp_path: Path) -> None:
    written_by_version_0_1(tmp_path / "store")
    content = (tmp_path / "store" / "data.mdb").read_bytes()

    store = LmdbStore(tmp_path / "store", writable=False)

    assert store.position == 200
    assert store.get_many([*KEYS, b"none"]) == [*VALUES, None]
    assert list(store.range(b"key 100", None)) == list(zip(KEYS[100:], VALUES[100:], strict=True))
    assert (tmp_path / "store" / "data.mdb").read_bytes() == content


def test_store_is_made_again_though_a_killed_process_of_the_same_id_has_left_half_of_one(directory: Path) -> None:
    left = directory.with_name(f".{directory.name}-{os.getpid()}")
    (left / "files").mkdir(parents=True)
    (directory / "damaged").write_text("so they said")

    assert LmdbStore(directory).position == 0
    assert not left.exists()


def test_store_without_its_file_is_refused_by_who_only_reads(directory: Path) -> None:
    (directory / "data.mdb").unlink()

    with pytest.raises(StoreDamagedError, match=r"its file data\.mdb is not there"):
        _ = LmdbStore(directory, writable=False).position


def test_damage_in_files_that_were_replaced_meanwhile_is_not_said_of_the_new_ones(directory: Path) -> None:
    def find_too_late() -> None:
        with process_environments.use(directory, 1 << 20):
            directory.rename(directory.with_name("wiped"))
            lmdb.open(str(directory)).close()
            raise RowDamagedError("a row is not what was written")

    with pytest.raises(StoreDamagedError):
        find_too_late()
    assert sorted(path.name for path in directory.iterdir()) == ["data.mdb", "lock.mdb"]


def grow_and_close(directory: Path) -> None:
    store = LmdbStore(directory)
    rows = [b"another %05d" % number for number in range(2000)]
    store.apply([(rows, rows)], store.position, store.position + 1)
    store.close()


def test_file_that_was_cut_off_after_another_process_had_grown_and_closed_it_is_not_read(directory: Path) -> None:
    store = LmdbStore(directory)
    assert store.position == 203
    before = (directory / "data.mdb").stat().st_size
    process = multiprocessing.get_context("spawn").Process(target=grow_and_close, args=(directory,))
    process.start()
    process.join()
    grown = (directory / "data.mdb").stat().st_size
    os.truncate(directory / "data.mdb", grown - 4096)
    assert grown - 4096 > before
    assert (store.position, list(store.range(None, None))) == (0, [])
