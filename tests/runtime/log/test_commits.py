import errno
import os
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import pytest

from headwater.runtime.log.embedded.commits import IN_A_FILE, DirectoryCommitStore, FoldedChecksums
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitExistsError, CommitGapError, UnsupportedFileSystemError
from headwater.runtime.log.log import KEPT_CHECKSUMS


@pytest.fixture
def store(tmp_path):
    return DirectoryCommitStore("flights-delays", tmp_path / "commits")


def test_application_without_commits_has_none(store):
    assert (store.latest(), store.read(1), store.snapshots()) == (0, None, [])


def test_created_commit_is_read_back(store):
    store.create(1, b"one")
    store.create(2, b"two")
    assert (store.read(1), store.read(2), store.read(3), store.latest()) == (b"one", b"two", None, 2)


def test_commit_that_exists_is_refused_and_stays(store):
    store.create(1, b"one")
    with pytest.raises(CommitExistsError) as caught:
        store.create(1, b"other")
    assert (caught.value.application, caught.value.number) == ("flights-delays", 1)
    assert store.read(1) == b"one"


def test_commit_after_a_missing_one_is_refused(store):
    store.create(1, b"one")
    with pytest.raises(CommitGapError):
        store.create(3, b"three")
    assert store.latest() == 1


def test_many_creators_of_one_commit_leave_one_whole_winner(store):
    def create(writer):
        try:
            store.create(1, bytes([writer]) * 10_000)
        except CommitExistsError:
            return None
        return writer

    with ThreadPoolExecutor(8) as pool:
        winners = [writer for writer in pool.map(create, range(16)) if writer is not None]
    assert len(winners) == 1
    assert store.read(1) == bytes(winners) * 10_000


def test_created_commits_leave_no_other_files(store, tmp_path):
    store.create(1, b"one")
    with pytest.raises(CommitExistsError):
        store.create(1, b"one")
    assert os.listdir(tmp_path / "commits") == ["000000000001.json"]


def folded(store, before=3, last=4):
    """Commits of which those before one are folded."""
    for number in range(1, last + 1):
        store.create(number, b"%d" % number)
    for number in range(before, last + 1):
        store.save_snapshot(number, b"folded", store.identity(number))
    store.fold(before, store.identity(before))


def test_folding_leaves_the_commits_and_snapshots_from_one_on_and_the_checksums(store, tmp_path):
    folded(store)
    assert sorted(os.listdir(tmp_path / "commits")) == [
        "000000000000.checksums",
        "000000000003.json",
        "000000000003.snapshot",
        "000000000004.json",
        "000000000004.snapshot",
    ]


@pytest.mark.parametrize("lasting", ["snapshot", "fold"])
def test_folding_of_an_application_that_was_fully_refreshed_meanwhile_touches_nothing_of_the_new_one(
    tmp_path, monkeypatch, lasting
):
    log = EmbeddedLog(tmp_path)
    old = log.commits("p-t")
    folded(old)
    identity = old.identity(3)
    there = []

    def suspended(*_, **__):
        monkeypatch.undo()
        log.drop("p-t")
        for number in range(1, 9):
            log.commits("p-t").create(number, b"new")
        there.extend(os.listdir(tmp_path / "commits" / "p-t"))

    monkeypatch.setattr(os, "replace" if lasting == "snapshot" else "listdir", _after(suspended))
    if lasting == "snapshot":
        assert not old.save_snapshot(3, b"old", identity)
    else:
        old.fold(3, identity)
    assert len(there) == 8
    assert sorted(os.listdir(tmp_path / "commits" / "p-t")) == sorted(there)


def _after(happens):
    """The function of `os` that is patched, after something has happened."""

    def call(*arguments, **options):
        name = "replace" if options else "listdir"
        happens()
        return getattr(os, name)(*arguments, **options)

    return call


@pytest.mark.parametrize("number", [1, 2, 3])
def test_commit_of_a_writer_that_was_suspended_until_its_number_was_folded_is_refused(store, monkeypatch, number):
    before = DirectoryCommitStore("flights-delays", store._directory)
    for each in range(1, number):
        before.create(each, b"%d" % each)
    link = os.link

    def suspended(source, target):
        monkeypatch.undo()
        for each in range(number, 9):
            store.create(each, b"%d" % each)
        store.save_snapshot(5, b"folded", store.identity(5))
        store.fold(5, store.identity(5))
        link(source, target)

    monkeypatch.setattr(os, "link", suspended)
    with pytest.raises(CommitExistsError):
        before.create(number, b"late")
    assert (store.read(number), store.checksum(number), store.first()) == (None, crc32(b"%d" % number), 5)


def test_folding_that_was_broken_off_is_done_by_the_next_one(store, tmp_path, monkeypatch):
    for number in range(1, 7):
        store.create(number, b"%d" % number)
        store.save_snapshot(number, b"folded", store.identity(number))
    unlink, removed = os.unlink, []

    def killed(name, **options):
        if len(removed) == 5:
            raise KeyboardInterrupt
        removed.append(name)
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        store.fold(5, store.identity(5))
    monkeypatch.undo()
    assert (store.first(), store.snapshots()) == (2, [6, 5])
    store.fold(6, store.identity(6))
    assert (store.first(), store.snapshots()) == (6, [6])
    assert [store.checksum(number) for number in range(1, 8)] == [*(crc32(b"%d" % each) for each in range(1, 7)), None]


def test_checksums_are_kept_for_so_many_commits_and_numbers_stay_taken(store, tmp_path):
    store.create(1, b"1")
    sums = FoldedChecksums(tmp_path / "commits")
    directory = os.open(tmp_path / "commits", os.O_DIRECTORY)
    few = [1, 2, IN_A_FILE - 1, IN_A_FILE, KEPT_CHECKSUMS + IN_A_FILE - 1, KEPT_CHECKSUMS + IN_A_FILE]
    sums.keep(directory, [(number, number) for number in few[:4]])
    sums.keep(directory, [(2, 99)])
    assert [sums.checksum(number) for number in (*few[:4], 3)] == [*few[:4], None]
    sums.keep(directory, [(few[4], 4)])
    assert [sums.checksum(number) for number in few] == [*few[:4], 4, None]
    sums.keep(directory, [(few[5], 5)])
    os.close(directory)
    assert [sums.checksum(number) for number in few] == [None, None, None, IN_A_FILE, 4, 5]
    assert [sums.differ(number, 1) for number in (1, IN_A_FILE, IN_A_FILE + 1)] == [True, True, False]
    assert (store.read(1), store.checksum(1)) == (None, None)  # it cannot be told from one that was made too late


@pytest.fixture
def no_links(monkeypatch):
    """A file system that cannot link, as FAT or some network ones."""

    def refuse(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_file_system_without_links_is_refused_before_and_at_a_commit(store, tmp_path):
    with pytest.raises(UnsupportedFileSystemError, match="hard links do not work"):
        EmbeddedLog(tmp_path / "log").check()
    with pytest.raises(UnsupportedFileSystemError):
        store.create(1, b"one")
    assert (store.latest(), os.listdir(tmp_path / "log"), os.listdir(tmp_path / "commits")) == (0, [], [])


def test_file_system_with_links_passes_the_check(tmp_path):
    EmbeddedLog(tmp_path / "log").check()
    assert os.listdir(tmp_path / "log") == ["log.json"]


def test_files_of_others_are_passed_over(store, tmp_path):
    store.create(1, b"one")
    store.save_snapshot(1, b"folded", store.identity(1))
    for name in ("000000000001 (copy).json", "notes.json", "~.snapshot", "2.snapshot"):
        (tmp_path / "commits" / name).write_text("x")
    assert (store.latest(), store.first(), store.snapshots()) == (1, 1, [1])


def test_file_of_checksums_that_a_killed_process_has_just_made_refuses_no_commit(tmp_path):
    commits = EmbeddedLog(tmp_path / "log").commits("a")
    commits.create(1, b"one")
    (tmp_path / "log" / "commits" / "a" / f"{0:012d}.checksums").touch()
    commits.create(2, b"two")
    assert (commits.latest(), commits.checksum(1)) == (2, crc32(b"one"))
