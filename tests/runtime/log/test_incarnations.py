"""An application that is fully refreshed, while somebody still works on its earlier commits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.records import CommitRecord, EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.embedded.commits import DirectoryCommitStore
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import FullyRefreshedError
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.folded import SNAPSHOT_EVERY
from headwater.runtime.task_id import TaskKey

APPLICATION = "p-t"
PART = TaskKey(APPLICATION, "part", 0)


def generation(incarnation: str) -> GenerationRecord:
    return GenerationRecord(1, 0, TopologyDescription(incarnation=incarnation))


def epoch(incarnation: str, records: int = 1) -> EpochRecord:
    return EpochRecord(1, 1, 0, (TaskCommit("part", 0, {"topic": {0: records}}, 0, records=records),), incarnation)


def begun(log: EmbeddedLog, incarnation: str, epochs: int) -> LogState:
    state = LogState.load(log.commits(APPLICATION))
    state.commit(generation(incarnation))
    for _ in range(epochs):
        state.commit(epoch(incarnation))
    return state


@pytest.mark.parametrize("epochs", [0, 2, 5])
def test_driver_of_earlier_commits_cannot_commit_however_many_there_are_now(log: EmbeddedLog, epochs: int) -> None:
    old = begun(log, "before", 2)
    log.drop(APPLICATION)
    begun(log, "after", epochs)
    with pytest.raises(FullyRefreshedError):
        old.check_same()
    with pytest.raises(FullyRefreshedError):
        old.commit(epoch("before"))
    assert LogState.load(log.commits(APPLICATION)).number == 1 + epochs


@pytest.mark.parametrize("epochs", [0, 2, 5])
def test_reader_of_earlier_commits_takes_none_of_those_that_came_after(log: EmbeddedLog, epochs: int) -> None:
    begun(log, "before", 2)
    reader = LogState.load(log.commits(APPLICATION))
    log.drop(APPLICATION)
    begun(log, "after", epochs)

    def follow() -> None:
        reader.refresh()
        reader.check_same()

    with pytest.raises(FullyRefreshedError):
        follow()
    assert (reader.incarnation, reader.tasks.last_commit(PART).records) == ("before", 2)


@pytest.mark.parametrize(
    "record", [epoch("before", 1000), GenerationRecord(2, 0, TopologyDescription(incarnation="before"))]
)
def test_commit_of_an_earlier_incarnation_counts_for_nothing(log: EmbeddedLog, record: CommitRecord) -> None:
    state = begun(log, "after", 2)
    log.commits(APPLICATION).create(4, encode_commit(record))
    assert (state.refresh(), state.generation, state.tasks.last_commit(PART).records) == (1, 1, 2)
    state.commit(epoch("after"))
    loaded = LogState.load(log.commits(APPLICATION))
    assert (loaded.number, loaded.generation, loaded.tasks.last_commit(PART).records) == (5, 1, 3)


class Meanwhile(DirectoryCommitStore):
    """Commits where something happens after the driver has made sure that they are its own, just before it commits."""

    happens: Callable[[], object] | None = None

    def create(self, number: int, data: bytes) -> str:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super().create(number, data)


def test_driver_that_commits_just_as_its_application_is_fully_refreshed_learns_of_it(log: EmbeddedLog) -> None:
    commits = Meanwhile(APPLICATION, log.root / "commits" / APPLICATION)
    old = LogState.load(commits)
    old.commit(generation("before"))

    def refreshed() -> None:
        log.drop(APPLICATION)
        begun(log, "after", 0)

    commits.happens = refreshed
    with pytest.raises(FullyRefreshedError):
        old.commit(epoch("before", 1000))
    now = LogState.load(log.commits(APPLICATION))
    assert (now.incarnation, now.tasks.last_commit(PART).records) == ("after", 0)


def test_driver_whose_commits_are_dropped_as_it_commits_learns_of_it(log: EmbeddedLog) -> None:
    commits = Meanwhile(APPLICATION, log.root / "commits" / APPLICATION)
    old = LogState.load(commits)
    old.commit(generation("before"))
    commits.happens = lambda: log.drop(APPLICATION)
    with pytest.raises(FullyRefreshedError):
        old.commit(epoch("before"))
    assert log.applications() == []


def test_snapshot_of_other_commits_is_passed_over(log: EmbeddedLog) -> None:
    begun(log, "before", SNAPSHOT_EVERY)
    directory = log.root / "commits" / APPLICATION
    (snapshot,) = directory.glob("*.snapshot")
    kept = snapshot.read_bytes()
    log.drop(APPLICATION)
    begun(log, "after", SNAPSHOT_EVERY + 5)
    snapshot.write_bytes(kept)
    assert LogState.load(log.commits(APPLICATION)).incarnation == "after"


def test_snapshot_without_its_commit_is_passed_over(log: EmbeddedLog) -> None:
    begun(log, "one", SNAPSHOT_EVERY)
    for path in sorted((log.root / "commits" / APPLICATION).glob("*.json"))[50:]:
        path.unlink()  # as if an older copy had been put back, and the snapshot had stayed
    assert LogState.load(log.commits(APPLICATION)).number == 50


def test_snapshot_under_the_name_of_another_is_passed_over(log: EmbeddedLog) -> None:
    begun(log, "one", SNAPSHOT_EVERY + 9)
    (snapshot,) = (log.root / "commits" / APPLICATION).glob("*.snapshot")
    snapshot.rename(snapshot.with_name(f"{SNAPSHOT_EVERY + 3:012d}.snapshot"))
    loaded = LogState.load(log.commits(APPLICATION))
    assert (loaded.number, loaded.tasks.last_commit(PART).records) == (SNAPSHOT_EVERY + 10, SNAPSHOT_EVERY + 9)
