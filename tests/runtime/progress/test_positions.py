"""Positions that lie past the end of their topic: commits were removed, or one application's were put back alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.changes.found import lost_records
from headwater.runtime.driver.application import check_state
from headwater.runtime.ir.topology import GlobalTable, Store, Topology
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.committer import ConsumedRecordsMissingError
from headwater.runtime.progress.positions import Gap, gaps
from headwater.runtime.task_id import global_task
from headwater.tests.runtime.driver.commits import Applications, part, segment, topic, topology

RAW, NAMES = topic("raw"), topic("names")
CLEAN = topic("clean", writer="p-cleaning")
TABLE = GlobalTable("names", NAMES, Store("names", 2, "k string", "v bigint"))
CLEANING = topology("cleaning", part("clean", (RAW,), (CLEAN,), tables=(TABLE,)))
DAYS = topology("days", part("days", (CLEAN,)))


@pytest.fixture
def applications(tmp_path: Path) -> Applications:
    return Applications(EmbeddedLog(tmp_path))


def remove_last_commit(applications: Applications, application: str) -> None:
    paths = sorted((Path(applications.log.root) / "commits" / application).glob("*.json"))
    paths[-1].unlink()


def found(applications: Applications, declared: Topology) -> list[Gap]:
    return list(gaps(declared, Committed(applications.log, declared)))


def test_all_that_was_consumed_is_there(applications: Applications) -> None:
    applications.feed("raw", 3, 4)
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 0, {"raw": {0: 7}})
    assert found(applications, CLEANING) == []


def test_last_append_that_was_removed_is_missed(applications: Applications) -> None:
    applications.feed("raw", 3, 4)
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 0, {"raw": {0: 7}})
    remove_last_commit(applications, "p-seed")
    (gap,) = found(applications, CLEANING)
    assert gap == Gap("raw", 0, 7, 3)
    message = str(ConsumedRecordsMissingError("p-cleaning", [gap]))
    assert "raw[0]: consumed up to offset 7, and it ends at 3" in message


def test_writer_whose_commits_were_put_back_from_an_older_copy_is_missed(applications: Applications) -> None:
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 1, {}, segment("clean", 5, lane=1))
    applications.commit("cleaning", "clean", 1, {}, segment("clean", 5, lane=1))
    applications.start(DAYS)
    applications.commit("days", "days", 0, {"clean": {1: 10}})
    remove_last_commit(applications, "p-cleaning")
    (gap,) = found(applications, DAYS)
    assert gap == Gap("clean", 0, 10, 5, lane=1)
    assert str(gap) == "clean[0]: consumed up to position 10 of task 1 of its writer, and it ends at 5"


def test_records_of_a_global_table_that_are_gone_are_missed(applications: Applications) -> None:
    applications.feed("names", 1, 1, partition=1)
    applications.start(CLEANING)
    _, *task = global_task("p-cleaning")
    applications.commit("cleaning", *task, {}, globals_={"names": {1: 2}})
    remove_last_commit(applications, "p-seed")
    assert found(applications, CLEANING) == [Gap("names", 1, 2, 1)]


def read_all(applications: Applications, declared: Topology, name: str, positions: dict[str, dict[int, int]]) -> None:
    """An epoch as a driver commits it, with the commits of others that it knew."""
    known = Committed(applications.log, declared)
    applications.commit(name, declared.subtopologies[0].name, 0, positions, sources=known.sources())


def lost(applications: Applications, declared: Topology) -> list[str]:
    return [str(each) for each in lost_records(declared, Committed(applications.log, declared))]


@pytest.fixture(params=["embedded", "object store", "placed"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Applications:
    """Applications on each kind of log: all of them keep commits as files below `tmp_path`."""
    if request.param == "object store":
        return Applications(ObjectStoreLog(uri=tmp_path.as_uri()))
    log = EmbeddedLog(tmp_path)
    return Applications(PlacedLog(log) if request.param == "placed" else log)


def remove_commits(folder: Path, application: str, first: int) -> None:
    for path in sorted((folder / "commits" / application).glob("*.json")):
        if int(path.stem) >= first:
            path.unlink()


def test_source_that_was_appended_to_after_its_newest_commit_was_lost_is_refused(
    kept: Applications, tmp_path: Path
) -> None:
    kept.feed("raw", 3, 4)
    kept.start(CLEANING)
    read_all(kept, CLEANING, "cleaning", {"raw": {0: 7}})
    kept.feed("raw", 2)
    assert lost(kept, CLEANING) == []
    remove_commits(tmp_path, "p-seed", 2)
    kept.feed("raw", 5)
    assert lost(kept, CLEANING) == [
        "raw: read from commits of p-seed up to 2, and another commit has its place now",
        "names: read from commits of p-seed up to 2, and another commit has its place now",
    ]
    with pytest.raises(ConsumedRecordsMissingError, match="p-cleaning has consumed records that the log does not hold"):
        check_state(CLEANING, Committed(kept.log, CLEANING))


def test_source_with_fewer_but_longer_commits_than_were_read_is_refused(kept: Applications, tmp_path: Path) -> None:
    kept.feed("raw", 1, 1, 1)
    kept.start(CLEANING)
    read_all(kept, CLEANING, "cleaning", {"raw": {0: 3}})
    remove_commits(tmp_path, "p-seed", 2)
    kept.feed("raw", 9)
    assert lost(kept, CLEANING)[0] == "raw: read from commits of p-seed up to 3, and commit 2 is the last now"


def test_source_that_was_removed_and_seeded_anew_is_refused(kept: Applications, tmp_path: Path) -> None:
    kept.feed("raw", 3)
    kept.start(CLEANING)
    read_all(kept, CLEANING, "cleaning", {"raw": {0: 3}})
    remove_commits(tmp_path, "p-seed", 1)
    (tmp_path / "applications" / "p-seed").unlink(missing_ok=True)
    kept.feed("raw", 4)
    assert lost(kept, CLEANING)[0] == "raw: read from commits of p-seed up to 1, and another commit has its place now"


def test_writer_that_went_on_after_its_newest_commit_was_lost_is_refused(kept: Applications, tmp_path: Path) -> None:
    kept.start(CLEANING)
    kept.commit("cleaning", "clean", 0, {}, segment("clean", 5))
    kept.start(DAYS)
    read_all(kept, DAYS, "days", {"clean": {0: 5}})
    remove_commits(tmp_path, "p-cleaning", 2)
    kept.commit("cleaning", "clean", 0, {}, segment("clean", 6))
    assert lost(kept, DAYS) == ["clean: read from commits of p-cleaning up to 2, and another commit has its place now"]


def test_commits_of_a_source_that_were_folded_count_as_there(applications: Applications) -> None:
    applications.feed("raw", 3)
    applications.start(CLEANING)
    read_all(applications, CLEANING, "cleaning", {"raw": {0: 3}})
    applications.feed("raw", *[1] * 250)
    assert applications.log.commits("p-seed").read(1) is None
    assert lost(applications, CLEANING) == []


def test_application_of_a_version_that_did_not_note_commits_goes_on(kept: Applications, tmp_path: Path) -> None:
    kept.feed("raw", 3)
    kept.start(CLEANING)
    kept.commit("cleaning", "clean", 0, {"raw": {0: 3}})
    remove_commits(tmp_path, "p-seed", 1)
    (tmp_path / "applications" / "p-seed").unlink(missing_ok=True)
    kept.feed("raw", 4)
    assert lost(kept, CLEANING) == []


def test_noted_commits_of_sources_are_kept_in_snapshots(applications: Applications) -> None:
    applications.feed("raw", 3)
    applications.start(CLEANING)
    read_all(applications, CLEANING, "cleaning", {"raw": {0: 3}})
    for _ in range(250):
        applications.commit("cleaning", "clean", 0, {"raw": {0: 3}})
    state = LogState.load(applications.log.commits("p-cleaning"))
    assert applications.log.commits("p-cleaning").read(2) is None
    assert state.sources == Committed(applications.log, CLEANING).sources()
    assert list(state.sources) == ["p-seed"]
