"""A client's stores, worked on where they lie: in the driver, and by Spark jobs. What comes of it is the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from commits import Applications, part, topic, topology

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.placing.client import Client
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.restore import restorer as restoring
from headwater.runtime.restore.links import InDriver, StateLink
from headwater.runtime.restore.requests import StateAnswer, StateLocation, StateRequest, StoreAnswer
from headwater.runtime.restore.restorer import StateError, StoreRestorer
from headwater.runtime.spark.executor_link import OnExecutor
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.process_file import ProcessFile
from headwater.runtime.tasks.errors import TaskCorruptedError
from headwater.runtime.tasks.task_id import StoreId, TaskId
from headwater.runtime.tasks.task_manager import Progress
from headwater.runtime.topology import Store, Window

HOUR = 3_600_000
DAY = 24 * HOUR
HOURS = Store("hours", 2, "k string", "n bigint", "window", Window(HOUR, HOUR, 0), retention_ms=DAY)
COUNTS = part("counts", (topic("events", 2),), stores=(HOURS,))
DECLARED = topology("t", COUNTS)
TASK, OTHER = TaskId(0, 0, "counts"), TaskId(0, 1, "counts")
STREAM_TIME = 30 * HOUR
KEPT = range(7, 31)
"""Hours that begin after the stream time less a day."""


@pytest.fixture(params=["driver", pytest.param("spark", marks=pytest.mark.spark)])
def link(request: pytest.FixtureRequest) -> StateLink:
    if request.param == "driver":
        return InDriver()
    session = request.getfixturevalue("spark_session")
    return OnExecutor(session, Client("executor-0", 2), "p-t", lambda _: False)


class Place:
    """An application's log, and a client that finds its state directory over a link."""

    def __init__(self, root: Path, link: StateLink) -> None:
        self.root = root
        self.link = link
        self.log = EmbeddedLog(root / "log")
        self.applications = Applications(self.log)
        self.committed: Committed = self.applications.start(DECLARED)
        self.location = StateLocation(
            str(root / "state"), "p-t", incarnation="1", log=("embedded", {"path": str(root / "log")}), stores=(HOURS,)
        )
        self.folder = ""

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(self.root / "state", self.folder, "p-t")

    def commit(self, task: TaskId, *hours: int) -> None:
        """Windows that begin at these hours, in a segment of their own."""
        keys = [window(hour) for hour in hours]
        changes = pa.table({"key": keys, "value": [b"v"] * len(keys), "_timestamp": hours}).cast(CHANGELOG)
        name = f"{task}-{self.committed.own.number}"
        segments = self.log.write("p-t", "p-t-hours-changelog", name, changes, task.partition, task.partition)
        self.applications.commit("t", "counts", task.partition, {}, *segments, clocks={"hours": STREAM_TIME})
        self.committed.own.refresh()

    def hold(self, incarnation: str = "1") -> StateAnswer:
        location = replace(self.location, incarnation=incarnation)
        (answer,) = self.link.ask([StateRequest("hold", location)])
        self.folder = answer.folder
        return answer

    def restorer(self) -> StoreRestorer:
        answer = self.hold()
        location = replace(self.location, folder=answer.folder, process_id=answer.process_id)
        held = {StoreId(each.store, each.partition): each.position for each in answer.stores}
        return StoreRestorer("client-1", self.link, location, Planner(self.committed, 10), DECLARED.subtopologies, held)

    def windows(self, task: TaskId = TASK) -> list[bytes]:
        store = LmdbStore(self.directory.store_path(StoreId("hours", task.partition)))
        return [key for key, _ in store.range(None, None)]


def window(hour: int) -> bytes:
    return (hour * HOUR + 2**63).to_bytes(8, "big") + b"key"


@pytest.fixture
def place(tmp_path: Path, link: StateLink) -> Place:
    """Of a task that has committed the windows of 31 hours, an hour a commit."""
    place = Place(tmp_path, link)
    for hour in range(31):
        place.commit(TASK, hour)
    return place


def test_client_without_state_takes_a_folder_and_keeps_its_process_id(place: Place) -> None:
    first = place.hold()
    assert (first.stores, first.folder) == ((), "client-1")
    place.restorer().restore([TASK])

    again = place.hold()
    assert (again.folder, again.process_id) == (first.folder, first.process_id)
    assert [(each.store, each.partition, each.position) for each in again.stores] == [("hours", 0, 31)]


def test_state_of_another_incarnation_is_removed(place: Place) -> None:
    first = place.hold()
    place.restorer().restore([TASK])

    assert place.hold("2").stores == ()
    assert place.directory.stores() == []
    assert place.hold("2").process_id == first.process_id


def test_stores_of_commits_that_a_copied_log_does_not_have_are_wiped_and_the_others_kept(place: Place) -> None:
    place.commit(OTHER, 3, 4)
    place.restorer().restore([OTHER])
    shutil.copytree(place.root / "log", place.root / "copy")
    place.commit(TASK, 31)
    place.restorer().restore([TASK])  # with commit 34, which the copy does not have
    (place.root / "log").rename(place.root / "gone")
    (place.root / "copy").rename(place.root / "log")
    place.committed = Committed(place.log, DECLARED)
    for hour in 50, 51:  # nor with these, though it has as many, and the store is not ahead of them
        place.commit(TASK, hour)

    answer = place.hold()
    assert (answer.strangers, answer.failure) == ({"hours/0": 34}, None)
    assert [(each.partition, each.position) for each in answer.stores] == [(1, 2)]
    place.restorer().restore([TASK])
    assert place.windows() == [window(hour) for hour in (*range(31), 50, 51)]
    assert place.hold().strangers == {}


def test_restoring_comes_to_the_committed_end_of_all_tasks(place: Place) -> None:
    place.commit(OTHER, 3, 4)
    restorer = place.restorer()
    assert restorer.open([TASK, OTHER]) == {TASK: {"hours": 0}, OTHER: {"hours": 0}}
    assert restorer.restore([TASK, OTHER]) == {TASK: Progress({"hours": 31}, True), OTHER: Progress({"hours": 2}, True)}
    assert place.windows() == [window(hour) for hour in range(31)]
    assert place.windows(OTHER) == [window(3), window(4)]


def test_one_round_of_restoring_is_of_bounded_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "WORK_PER_REQUEST", 10 * 257)
    restorer = place.restorer()
    rounds = []
    while not rounds or not rounds[-1].done:
        progress = restorer.restore([TASK])[TASK]
        assert isinstance(progress, Progress)
        rounds.append(progress)
    assert [each.positions["hours"] for each in rounds] == [10, 20, 30, 31]


def test_clean_close_applies_all_that_is_committed_and_leaves_what_is_in_retention(place: Place) -> None:
    restorer = place.restorer()
    assert restorer.close([TASK], clean=True) == {}
    assert place.windows() == [window(hour) for hour in KEPT]


def test_other_close_applies_nothing_more(place: Place) -> None:
    restorer = place.restorer()
    restorer.restore([TASK])
    place.commit(TASK, 31)
    assert restorer.close([TASK], clean=False) == {}
    assert place.windows() == [window(hour) for hour in range(31)]


def test_store_ahead_of_its_changelog_is_corrupted_and_begins_anew_once_wiped(place: Place) -> None:
    place.hold()
    LmdbStore(place.directory.store_path(StoreId("hours", 0))).apply((), 0, 40)
    place.commit(OTHER, 3)
    restorer = place.restorer()

    found = restorer.restore([TASK, OTHER])

    assert isinstance(found[TASK], TaskCorruptedError)
    assert "ahead of its changelog: 40 > 31" in str(found[TASK])
    assert found[OTHER] == Progress({"hours": 1}, True)
    restorer.wipe([TASK])
    assert place.directory.stores() == [StoreId("hours", 1)]
    assert restorer.restore([TASK])[TASK] == Progress({"hours": 31}, True)


def test_positions_that_epochs_have_reached_are_taken_up(place: Place) -> None:
    restorer = place.restorer()
    restorer.restore([TASK])
    place.commit(TASK, 31)
    store = LmdbStore(place.directory.store_path(StoreId("hours", 0)))
    store.apply([([window(31)], [b"v"])], 31, 32)
    restorer.note(0, {"hours": 32})
    assert restorer.restore([TASK])[TASK] == Progress({"hours": 32}, True)


def test_directory_that_is_another_clients_is_not_worked_on(place: Place) -> None:
    restorer = place.restorer()
    found = ProcessFile.read(place.directory.path)
    assert found is not None
    replace(found, process_id="2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d").written(place.directory.path)

    with pytest.raises(StateError, match=r"is not at .*client-1/p-t any more"):
        restorer.restore([TASK])
    assert place.directory.stores() == []


def damage(place: Place) -> None:
    """A byte of each row, in all pages, once nobody has the file open."""
    path = place.directory.store_path(StoreId("hours", 0)) / "data.mdb"
    path.write_bytes(path.read_bytes().replace(b"key", b"kez"))


def test_store_that_an_epoch_found_damaged_is_restored_and_told(place: Place) -> None:
    restorer, told = place.restorer(), list[StoreAnswer]()
    restorer.restore([TASK])
    restorer.close([TASK], clean=False)
    process_id = place.hold().process_id  # by which all was read, and is whole
    damage(place)
    again = StoreRestorer(
        "client-1",
        place.link,
        replace(place.location, folder=place.folder, process_id=process_id),
        Planner(place.committed, 10),
        DECLARED.subtopologies,
        {StoreId("hours", 0): 31},
        told.append,
    )

    assert again.recover([TASK]) == {TASK: {"hours": 31}}

    assert [(each.store, each.damage) for each in told] == [("hours", "a row is not what was written")]
    assert place.windows() == [window(hour) for hour in range(31)]


def test_store_whose_position_is_damaged_is_held_as_empty_and_restored(place: Place) -> None:
    place.restorer().restore([TASK])
    place.restorer().close([TASK], clean=False)
    path = place.directory.store_path(StoreId("hours", 0)) / "data.mdb"
    position = b"position" + (31).to_bytes(8, "little")
    path.write_bytes(path.read_bytes().replace(position, b"position" + (30).to_bytes(8, "little")))

    (held,) = place.hold().stores

    assert (held.position, held.damage) == (0, "a row is not what was written")
    assert place.restorer().restore([TASK])[TASK] == Progress({"hours": 31}, True)
