"""A log whose old commits are folded: what is left of it, and what is said if that is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import (
    CommitDamagedError,
    CommitFormatError,
    CommitsMissingError,
    LogError,
    SnapshotsDamagedError,
)
from headwater.runtime.log.inspection.contents import walk
from headwater.runtime.log.log import CommitStore
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.folded import AT_MOST, SNAPSHOT_EVERY, GoodSnapshot

APPLICATION = "p-t"


def epochs(state: LogState, last: int) -> LogState:
    """The same state, with commits up to number `last`."""
    if not state.number:
        state.commit(GenerationRecord(1, 0, TopologyDescription(incarnation="one")))
    while state.number < last:
        task = TaskCommit("part", 0, {"topic": {0: state.number}}, state.number, records=1)
        state.commit(EpochRecord(1, state.number, 0, (task,), "one"))
    return state


@pytest.fixture
def state(log: EmbeddedLog) -> LogState:
    """The state of a log with the snapshots 300 and 400 and the commits from 300 to 450."""
    log.check()
    return epochs(LogState.load(log.commits(APPLICATION)), 450)


@pytest.fixture
def folder(log: EmbeddedLog, state: LogState) -> Path:
    """The folder of its commits."""
    return log.root / "commits" / state.application


def file(number: int, kind: str = "json") -> str:
    return f"{number:012d}.{kind}"


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def loaded(log: EmbeddedLog) -> LogState:
    return LogState.load(log.commits(APPLICATION))


def test_commits_and_snapshots_before_the_older_of_two_snapshots_are_gone(folder: Path, state: LogState) -> None:
    there = {file(number) for number in range(300, 451)}
    kept = {file(300, "snapshot"), file(400, "snapshot"), file(0, "checksums")}
    assert {path.name for path in folder.iterdir()} == there | kept


def test_state_after_a_damaged_snapshot_is_that_of_the_older_one_and_the_commits(
    log: EmbeddedLog, folder: Path, state: LogState
) -> None:
    for damage in (spoil, Path.unlink):
        damage(folder / file(400, "snapshot"))
        assert loaded(log).snapshot() == state.snapshot()


def test_damaged_snapshot_goes_with_the_second_after_it_and_nothing_is_folded_before_that(
    log: EmbeddedLog, folder: Path, state: LogState
) -> None:
    spoil(folder / file(400, "snapshot"))
    commits = epochs(loaded(log), 451).commits
    assert (commits.snapshots(), commits.first()) == ([451, 400, 300], 300)
    epochs(loaded(log), 551)
    assert (commits.snapshots(), commits.first()) == ([551, 451], 451)


@pytest.mark.parametrize("damage", [spoil, Path.unlink])
def test_commits_that_were_only_in_damaged_snapshots_are_named(
    log: EmbeddedLog, folder: Path, state: LogState, damage: Callable[[Path], None]
) -> None:
    for number in (300, 400):
        damage(folder / file(number, "snapshot"))
    with pytest.raises(SnapshotsDamagedError, match="commits of p-t before 300 are only in its snapshots") as caught:
        loaded(log)
    assert (caught.value.first, caught.value.snapshots) == (300, (400, 300) if damage is spoil else ())
    with pytest.raises(LogError):  # a state from before any commit does not take the rest for the beginning
        LogState(log.commits(APPLICATION)).refresh()


@pytest.mark.parametrize("number", [401, 430])
def test_missing_commit_behind_a_snapshot_is_named(
    log: EmbeddedLog, folder: Path, state: LogState, number: int
) -> None:
    (folder / file(number)).unlink()
    with pytest.raises(CommitDamagedError, match=f"commit {number} of p-t is missing, though later ones exist"):
        loaded(log)


def test_snapshots_without_commits_are_not_taken_for_an_application_that_never_ran(
    log: EmbeddedLog, folder: Path, state: LogState
) -> None:
    for path in folder.glob("*.json"):
        path.unlink()
    for _ in range(2):
        with pytest.raises(CommitsMissingError, match="the commits of p-t are missing") as caught:
            loaded(log)
        assert str(folder) in (caught.value.hint or "")
        (log.root / "applications" / APPLICATION).unlink(missing_ok=True)


def test_log_whose_last_commits_are_gone_goes_on_before_them(log: EmbeddedLog, folder: Path, state: LogState) -> None:
    for number in range(390, 451):  # as if an older copy had been put back, and the last snapshot had stayed
        (folder / file(number)).unlink()
    again = epochs(loaded(log), 420)
    assert again.tasks.all()[0].records == 419
    epochs(again, 520)
    assert loaded(log).snapshot() == again.snapshot()


def test_snapshot_is_of_a_format_that_versions_refuse_which_need_all_commits(folder: Path, state: LogState) -> None:
    assert json.loads((folder / file(400, "snapshot")).read_bytes())["format"] == 3


def test_snapshot_of_a_later_version_is_refused(log: EmbeddedLog, folder: Path, state: LogState) -> None:
    path = folder / file(400, "snapshot")
    path.write_bytes(path.read_bytes().replace(b'"format":3', b'"format":99', 1))
    with pytest.raises(CommitFormatError, match="the log was written in format 99"):
        loaded(log)


@pytest.mark.parametrize(
    ("commits", "size", "due"),
    [
        (SNAPSHOT_EVERY - 1, 10**9, False),
        (SNAPSHOT_EVERY, 5000, True),
        (SNAPSHOT_EVERY, 4999, False),
        (AT_MOST, 0, True),
    ],
)
def test_snapshot_is_due_once_as_much_was_committed_as_it_takes(commits: int, size: int, due: bool) -> None:
    assert GoodSnapshot(300, "x", 5000).due(commits, size) == due


def test_commits_are_read_by_number_from_the_snapshot_on(state: LogState, monkeypatch: pytest.MonkeyPatch) -> None:
    store: CommitStore = state.commits
    read, numbers = store.read, []
    monkeypatch.setattr(type(store), "read", lambda _, number: numbers.append(number) or read(number))
    LogState.load(store)
    assert (min(numbers), len(numbers)) == (400, 51)


@pytest.mark.parametrize("behind", [0, 57])
def test_commit_of_a_folded_number_whose_writer_was_killed_counts_for_no_reader(log: EmbeddedLog, behind: int) -> None:
    log.check()
    commits = log.commits(APPLICATION)
    driver = LogState(commits)
    if behind:
        epochs(driver, behind)
    reader = LogState.load(commits)
    refused = encode_commit(EpochRecord(1, 9, 0, (TaskCommit("part", 0, {}, 0, records=1_000_000),), "one"))
    epochs(driver, behind + 1)
    knows_it = LogState.load(log.commits(APPLICATION))
    epochs(driver, 450)
    (log.root / "commits" / APPLICATION / file(behind + 1)).write_bytes(refused)
    assert (reader.refresh(), knows_it.refresh()) == (450 - behind, 450 - behind - 1)
    assert reader.snapshot() == knows_it.snapshot() == driver.snapshot() == loaded(log).snapshot()
    assert (commits.first(), walk(commits).broken) == (300, ())
    log.remove_leftovers()
    assert sorted((log.root / "commits" / APPLICATION).glob("*.json"))[0].name == file(300)
    epochs(driver, 550)
    assert commits.first() == 400
