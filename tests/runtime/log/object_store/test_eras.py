"""Commits in an object store: an application that begins again, folding by two at once, and writers that come late."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.embedded import commits as embedded_checksums
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitExistsError, CommitGapError, CommitsMissingError, FullyRefreshedError
from headwater.runtime.log.inspection.contents import walk
from headwater.runtime.log.object_store import commits as folded_checksums
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.state import LogState


@pytest.fixture
def log(tmp_path: Path) -> ObjectStoreLog:
    log = ObjectStoreLog((tmp_path / "log").as_uri())
    log.check()
    return log


def made(log: ObjectStoreLog, count: int, first: int = 1) -> list[str]:
    """Commits `first` and following; their identities."""
    commits = log.commits("a")
    return [commits.create(number, b"%d" % number) for number in range(first, first + count)]


def objects(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_late_commit_of_a_driver_of_an_ended_era_is_refused_and_what_is_left_of_it_is_seen_by_nobody_and_removed(
    log: ObjectStoreLog, tmp_path: Path
) -> None:
    late = log.commits("a")
    late.create(1, b"old")
    log.drop("a")
    log.commits("a").create(1, b"new")
    with pytest.raises(CommitGapError):
        late.create(2, b"late")
    assert late.identity(1) is None
    with pytest.raises(CommitExistsError):
        late.create(1, b"late")
    (tmp_path / "log" / "commits" / "a" / "000000000001.json").write_bytes(b"killed before it took it back")
    assert [log.commits("a").read(number) for number in (1, 2)] == [b"new", None]
    assert log.commits("a").latest() == 1
    log.remove_leftovers()
    assert objects(tmp_path / "log" / "commits") == [
        "a/000001/000000000001.json",
        "a/000001/begun",
    ]


def test_state_of_an_ended_era_is_told_of_the_full_refresh_and_has_the_new_commits_when_it_is_loaded_again(
    log: ObjectStoreLog,
) -> None:
    state = LogState.load(log.commits("a"))
    state.commit(AppendRecord(1, ()))
    log.drop("a")
    LogState.load(log.commits("a")).commit(AppendRecord(2, ()))
    with pytest.raises(FullyRefreshedError):
        state.refresh()
    state.reload()
    assert (state.number, state.refresh()) == (1, 0)


def test_application_that_was_dropped_again_and_again_has_what_was_committed_last(
    log: ObjectStoreLog, tmp_path: Path
) -> None:
    for again in range(12):
        made(log, again % 3 + 1)
        log.drop("a")
        log.drop("a")
        assert (log.applications(), log.commits("a").latest()) == ([], 0)
    made(log, 2)
    log.check()
    assert (log.applications(), log.commits("a").latest()) == (["a"], 2)
    assert [each.split("/")[1] for each in objects(tmp_path / "log" / "commits")] == ["000012"] * 3


def test_commits_that_somebody_has_removed_are_missed(log: ObjectStoreLog, tmp_path: Path) -> None:
    made(log, 3)
    for path in (tmp_path / "log" / "commits" / "a").iterdir():
        path.unlink()
    with pytest.raises(CommitsMissingError, match=r"file:///.*commits/a was removed or emptied"):
        log.commits("a").latest()


@pytest.mark.parametrize("data", [b"3", b"other"])
def test_writer_that_was_suspended_until_its_number_was_folded_learns_whether_the_commit_is_its_own(
    log: ObjectStoreLog, data: bytes
) -> None:
    made(log, 1)
    suspended = log.commits("a")
    suspended.create(2, b"2")  # it need not ask for commit 2 again
    identities = made(log, 4, first=3)
    commits = log.commits("a")
    commits.save_snapshot(5, b"folded", identities[2])
    commits.fold(5, identities[2])
    if data == b"3":  # as it was folded: nobody can tell the writers apart any more, and need not
        suspended.create(3, data)
    else:
        with pytest.raises(CommitExistsError):
            suspended.create(3, data)
    assert (commits.first(), commits.read(3), commits.checksum(3)) == (5, None, crc32(b"3"))


def test_checksums_are_kept_whole_by_two_that_fold_at_the_same_time(
    log: ObjectStoreLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_checksums, "BLOCK", 10)
    identities = made(log, 40)
    one, other = log.commits("a"), log.commits("a")
    for number in (7, 15, 36):
        one.save_snapshot(number, b"folded", identities[number - 1])
    one.fold(7, identities[6])
    # What the other one has listed before the first one folded: it goes on when those commits are gone.
    era = other._look()
    one.fold(15, identities[14])
    folded = folded_checksums.FoldedChecksums(other._objects, era)
    folded.keep([(number, crc32(b"%d" % number)) for number in range(12, 15)])
    one.fold(36, identities[35])
    reader = log.commits("a")
    assert [reader.checksum(number) for number in range(1, 41)] == [crc32(b"%d" % each) for each in range(1, 41)]
    assert reader.checksum(41) is None
    assert len([name for name in reader._look().names if name.endswith(".checksums")]) == 4


def test_checksums_of_commits_that_were_folded_long_ago_are_forgotten_block_by_block(
    log: ObjectStoreLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_checksums, "BLOCK", 10)
    monkeypatch.setattr(folded_checksums, "KEPT_CHECKSUMS", 20)
    identities = made(log, 60)
    commits = log.commits("a")
    for number in (25, 50):
        commits.save_snapshot(number, b"folded", identities[number - 1])
        commits.fold(number, identities[number - 1])
    assert [number for number in range(1, 61) if commits.checksum(number) is not None] == list(range(20, 61))
    with pytest.raises(CommitExistsError):
        commits.create(1, b"1")


def test_checksums_of_an_embedded_log_that_was_copied_here_are_known_and_stay(
    log: ObjectStoreLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With files of 100 commits there, and of 10 here, so that the copied ones are longer than a block."""
    for module, name, commits in (
        (embedded_checksums, "IN_A_FILE", 100),
        (folded_checksums, "EMBEDDED", 100),
        (folded_checksums, "BLOCK", 10),
    ):
        monkeypatch.setattr(module, name, commits)
    embedded = EmbeddedLog(tmp_path / "log").commits("a")
    identities = [embedded.create(number, b"%d" % number) for number in range(1, 131)]
    embedded.save_snapshot(124, b"folded", identities[123])
    embedded.fold(124, identities[123])

    def known() -> list[int]:
        commits = log.commits("a")
        return [number for number in range(1, 161) if commits.checksum(number) == crc32(b"%d" % number)]

    def fold(last: int) -> None:
        commits = log.commits("a")
        identity = commits.identity(last) or ""
        assert commits.save_snapshot(last, b"folded", identity)
        commits.fold(last, identity)

    assert (known(), log.commits("a").first()) == ([*range(1, 131)], 124)
    with pytest.raises(CommitExistsError):
        log.commits("a").create(120, b"late")
    made(log, 30, first=131)
    for last in (127, 150):
        fold(last)
        assert (known(), log.commits("a").first()) == ([*range(1, 161)], last)
    monkeypatch.setattr(folded_checksums, "KEPT_CHECKSUMS", 40)
    fold(152)
    assert known() == [*range(100, 161)]


@pytest.mark.parametrize("behind", [0, 1, 57])
def test_commit_of_a_folded_number_whose_writer_was_killed_counts_for_no_reader(
    log: ObjectStoreLog, tmp_path: Path, behind: int
) -> None:
    driver = LogState.load(log.commits("a"))

    def commit_up_to(last: int) -> None:
        for number in range(driver.number + 1, last + 1):
            driver.commit(AppendRecord(number, ()))

    commit_up_to(behind)
    reader = LogState.load(log.commits("a"))
    commit_up_to(behind + 1)
    knows_it = LogState.load(log.commits("a"))
    commit_up_to(450)
    late = tmp_path / "log" / "commits" / "a" / f"{behind + 1:012d}.json"
    assert not late.exists()
    late.write_bytes(encode_commit(AppendRecord(9999, ())))
    assert log.commits("a").read(behind + 1) is None
    assert (reader.refresh(), knows_it.refresh()) == (450 - behind, 450 - behind - 1)
    loaded = LogState.load(log.commits("a"))
    assert reader.snapshot() == knows_it.snapshot() == loaded.snapshot() == driver.snapshot()
    assert reader.refresh() == loaded.refresh() == 0
    assert log.commits("a").first() > behind + 1
    assert walk(log.commits("a")).broken == ()
    commit_up_to(600)
    assert not late.exists()
