"""A client's stores, worked on where they lie: in the driver, and by Spark jobs. What comes of it is the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.cluster.spark.cluster import OnExecutor
from headwater.runtime.ir.topology import Store
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.commit.records import SnapshotRecord, StoreSnapshot
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.restore import client_stores, linked_stores, store_changelog_reader
from headwater.runtime.restore.copies import Snapshots
from headwater.runtime.restore.linked_stores import LinkedStores, StateError
from headwater.runtime.restore.links import LocalLink, StateLink, claim_stores
from headwater.runtime.restore.requests import StateLocation, StateRequest, StateResponse, StoreResponse, StoreTarget
from headwater.runtime.restore.store_changelog_reader import (
    COST_OF_RANGE,
    MAX_STALLS,
    ChangelogState,
    ReaderMode,
    RestoreStalledError,
    StoreChangelogReader,
)
from headwater.runtime.restore.strategies import SnapshotRestore
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.process_file import ProcessFile
from headwater.runtime.task_id import StoreId, TaskId
from headwater.runtime.tasks.errors import LockError, TaskCorruptedError
from headwater.runtime.tasks.plan import StoreInput
from headwater.runtime.tasks.task import StandbyTask, StreamTask
from headwater.tests.runtime.driver.commits import Applications, part, topic, topology
from headwater.tests.runtime.tasks.client_tasks import Heard, LaterSlices, at_once

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
        return LocalLink()
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

    def hold(self, incarnation: str = "1") -> StateResponse:
        location = replace(self.location, incarnation=incarnation)
        answer = claim_stores(self.link, location)
        self.folder = answer.folder
        return answer

    def client(
        self,
        told: Callable[[StoreResponse], None] = lambda _: None,
        snapshots: Snapshots | None = None,
        link: StateLink | None = None,
        **held: int,
    ) -> Restoring:
        """The client as it comes: `held` instead of what it says of its stores."""
        answer = self.hold()
        location = replace(self.location, folder=answer.folder, process_id=answer.process_id)
        found = {each.store: each.position for each in answer.stores}
        found |= {StoreId(store, 0): position for store, position in held.items()}
        planner = Planner(self.committed, 10)
        at = "client-1", link or self.link, location, planner, DECLARED.subtopologies, found, told
        return Restoring(LinkedStores(*at, SnapshotRestore() if snapshots else None, snapshots))

    def windows(self, task: TaskId = TASK) -> list[bytes]:
        store = LmdbStore(self.directory.store_path(StoreId("hours", task.partition)))
        return [key for key, _ in store.range(None, None)]


class Restoring:
    """A client's stores and their reader, whose slices are done before it is asked for them."""

    def __init__(self, stores: LinkedStores) -> None:
        self.stores = stores
        self.heard = Heard()
        self.reader = StoreChangelogReader(stores, at_once, self.heard)

    def task(self, task_id: TaskId) -> StreamTask:
        """The task, registered."""
        task = StreamTask(task_id, ("hours",))
        self.reader.register(task)
        task.initialize_if_needed()
        return task

    def restore(self, *tasks: TaskId) -> Mapping[TaskId, Exception]:
        """Until nothing is left to do, or something goes wrong: what."""
        self.reader.unregister(tasks)
        for task in tasks:
            self.task(task)
        for _ in range(100):
            if failed := self.reader.restore():
                return failed
            if {StoreId("hours", task.partition) for task in tasks} <= set(self.reader.completed()):
                return {}
        raise AssertionError("never restored")

    def close(self, task: TaskId, *, clean: bool) -> None:
        closing = StreamTask(task, ("hours",))
        closing.initialize_if_needed()
        assert self.stores.close([closing], clean=clean) == {}


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
    place.client().restore(TASK)

    again = place.hold()
    assert (again.folder, again.process_id) == (first.folder, first.process_id)
    assert [(each.store, each.position) for each in again.stores] == [(StoreId("hours", 0), 31)]


def test_state_of_another_incarnation_is_removed(place: Place) -> None:
    first = place.hold()
    place.client().restore(TASK)

    assert place.hold("2").stores == ()
    assert place.directory.stores() == []
    assert place.hold("2").process_id == first.process_id


def test_stores_of_commits_that_a_copied_log_does_not_have_are_wiped_and_the_others_kept(place: Place) -> None:
    place.commit(OTHER, 3, 4)
    place.client().restore(OTHER)
    shutil.copytree(place.root / "log", place.root / "copy")
    place.commit(TASK, 31)
    place.client().restore(TASK)  # with commit 34, which the copy does not have
    (place.root / "log").rename(place.root / "gone")
    (place.root / "copy").rename(place.root / "log")
    place.committed = Committed(place.log, DECLARED)
    for hour in 50, 51:  # nor with these, though it has as many, and the store is not ahead of them
        place.commit(TASK, hour)

    answer = place.hold()
    assert (answer.foreign_stores, answer.failure) == ({"hours/0": 34}, None)
    assert [(each.store.partition, each.position) for each in answer.stores] == [(1, 2)]
    place.client().restore(TASK)
    assert place.windows() == [window(hour) for hour in (*KEPT, 50, 51)]
    assert place.hold().foreign_stores == {}


def test_restoring_comes_to_the_committed_end_of_all_tasks_without_expired_rows_and_is_told(place: Place) -> None:
    place.commit(OTHER, 3, 14)
    client = place.client()
    assert client.restore(TASK, OTHER) == {}
    assert [client.stores.offsets(task) for task in (TASK, OTHER)] == [{"hours": 31}, {"hours": 2}]
    assert place.windows() == [window(hour) for hour in KEPT]
    assert place.windows(OTHER) == [window(14)]
    assert client.heard.words == [
        "active hours/0 started at 0 of 31",
        "active hours/1 started at 0 of 2",
        "active hours/0 at 31 of 31 by 31",
        "active hours/1 at 2 of 2 by 2",
        "active hours/0 ended after 31",
        "active hours/1 ended after 2",
    ]


def test_store_that_stands_at_the_end_is_completed_without_a_batch(place: Place) -> None:
    place.client().restore(TASK)
    again = place.client()
    assert again.restore(TASK) == {}
    assert again.heard.words == ["active hours/0 started at 31 of 31", "active hours/0 ended after 0"]


def test_one_slice_is_of_bounded_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_changelog_reader, "RECORDS_PER_REQUEST", 10 * (COST_OF_RANGE + 1))
    client = place.client()
    client.task(TASK)
    positions = []
    while not client.reader.completed():
        client.reader.restore()
        positions.append(client.stores.offsets(TASK)["hours"])
    assert positions == [10, 20, 30, 31, 31]


def test_store_that_is_left_alone_while_it_is_restored_is_told_as_migrated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_changelog_reader, "RECORDS_PER_REQUEST", 10 * (COST_OF_RANGE + 1))
    client = place.client()
    client.task(TASK)
    for _ in range(2):
        client.reader.restore()
    client.reader.unregister([TASK])
    assert client.heard.words[-1] == "active hours/0 migrated after 10"
    assert client.reader.state(StoreId("hours", 0)) is None


def test_standby_waits_for_active_tasks_then_follows_the_changelog_for_ever(place: Place) -> None:
    place.commit(OTHER, 3)
    client = place.client()
    copy = StandbyTask(OTHER, ("hours",))
    client.reader.register(copy)
    copy.initialize_if_needed()
    client.task(TASK)
    assert client.reader.mode is ReaderMode.ACTIVE_RESTORING
    while not client.reader.completed():
        client.reader.restore()
        if client.reader.mode is ReaderMode.ACTIVE_RESTORING:
            assert client.stores.offsets(OTHER) == {"hours": 0}
    assert client.reader.mode is ReaderMode.STANDBY_UPDATING

    for hour in (4, 5):
        client.reader.restore()
        client.reader.restore()
        assert client.stores.offsets(OTHER) == {"hours": hour - 3}
        place.commit(OTHER, hour)
    assert client.reader.state(StoreId("hours", 1)) is ChangelogState.RESTORING
    client.reader.unregister([OTHER])
    assert client.heard.words[-1] == "standby hours/1 promoted after 2"


class TwoThreads(LocalLink):
    """A link to a client with two threads; how many requests it is given at once."""

    threads = 2

    def __init__(self) -> None:
        self.asked: list[int] = []

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        if any(request.what == "restore" for request in requests):
            self.asked.append(len(requests))
        return super().send(requests)


@pytest.mark.parametrize(("runs", "asked"), [(True, [1]), (False, [2])])
def test_one_thread_is_left_to_epochs_where_a_task_may_run(tmp_path: Path, runs: bool, asked: list[int]) -> None:
    link = TwoThreads()
    place = Place(tmp_path, link)
    for task in (TASK, OTHER):
        place.commit(task, *KEPT)
    reader = StoreChangelogReader(place.client().stores, at_once, Heard(), runs=lambda: runs)
    for task in (TASK, OTHER):
        active = StreamTask(task, ("hours",))
        reader.register(active)
        active.initialize_if_needed()
    for _ in range(3):
        reader.restore()
    assert link.asked == asked
    assert len(reader.completed()) == 2


def test_standby_task_that_has_come_to_the_end_rests_until_it_is_an_active_one(tmp_path: Path) -> None:
    place = Place(tmp_path, LocalLink())
    place.commit(OTHER, *KEPT)
    stores = place.client().stores
    reader = StoreChangelogReader(stores, at_once, Heard(), standby_rest=1e9)
    copy = StandbyTask(OTHER, ("hours",))
    reader.register(copy)
    copy.initialize_if_needed()
    for _ in range(3):
        reader.restore()
    place.commit(OTHER, 30)
    for _ in range(3):
        reader.restore()
    assert stores.offsets(OTHER) == {"hours": len(KEPT)}

    reader.unregister([OTHER])
    active = StreamTask(OTHER, ("hours",))
    reader.register(active)
    active.initialize_if_needed()
    for _ in range(3):
        reader.restore()
    assert stores.offsets(OTHER) == {"hours": len(KEPT) + 1}


class Unlisting(LocalLink):
    """A link to a client that loads a snapshot when the driver has just listed it no more."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        loads = [each.load.path for request in requests for each in request.stores if each.load is not None]
        if loads:
            unlisted = SnapshotRecord(self._state.generation, 0, (), tuple(loads), self._state.incarnation)
            self._state.commit(unlisted)
        return super().send(requests)


@pytest.mark.parametrize("listed", [True, False])
def test_snapshot_that_the_driver_has_removed_while_it_was_to_be_loaded_is_not_told(
    tmp_path: Path, listed: bool
) -> None:
    place = Place(tmp_path, LocalLink())
    place.commit(TASK, *KEPT)
    state = place.committed.own
    gone = StoreSnapshot("hours", 0, 5, "snapshots/p-t/hours/gone.snap", 10_000, 1, "lmdb", 0)
    state.commit(SnapshotRecord(state.generation, 0, (gone,), (), state.incarnation))
    told: list[str] = []
    link = LocalLink() if listed else Unlisting(state)
    client = place.client(lambda answer: told.append(answer.unusable), Snapshots(state), link)

    assert client.restore(TASK) == {}

    assert [text.partition(":")[0] for text in told] == ([gone.path] if listed else [])
    assert place.windows() == [window(hour) for hour in KEPT]


def test_stores_that_a_slice_has_no_time_for_come_first_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", -1.0)
    place = Place(tmp_path, LocalLink())
    for task in (TASK, OTHER):
        place.commit(task, *KEPT)
    client = place.client()
    for task in (TASK, OTHER):
        client.task(task)
    positions = []

    for _ in range(2):
        client.reader.restore()
        positions.append([client.stores.position(StoreId("hours", task.partition)) for task in (TASK, OTHER)])

    assert positions == [[len(KEPT), 0], [len(KEPT), len(KEPT)]]


def test_store_that_a_slice_has_no_time_for_has_no_size_yet_though_its_task_has_another_one_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", -1.0)
    answer = place.hold()
    stores = (HOURS, replace(HOURS, name="days"))
    location = replace(place.location, folder=answer.folder, process_id=answer.process_id, stores=stores)
    targets = tuple(StoreTarget(0, StoreInput(each.name, 0, 0, ()), subtopology="counts") for each in stores)

    (restored,) = LocalLink().send([StateRequest("restore", location, targets)])

    assert restored.failure is None
    assert [each.size is not None for each in restored.stores] == [True, False]


def test_small_store_does_not_wait_until_large_ones_are_restored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.commit(OTHER, 3)
    monkeypatch.setattr(store_changelog_reader, "RECORDS_PER_REQUEST", 6 * (COST_OF_RANGE + 1))
    client = place.client()
    client.task(TASK)
    client.task(OTHER)
    while StoreId("hours", 1) not in client.reader.completed():
        client.reader.restore()
    assert client.stores.offsets(TASK)["hours"] < 10


def test_task_that_is_registered_while_a_slice_works_on_it_is_locked(place: Place) -> None:
    slices = LaterSlices()
    client = place.client()
    client.reader = StoreChangelogReader(client.stores, slices, Heard())
    client.task(TASK)
    client.reader.restore()
    client.reader.unregister([TASK])
    with pytest.raises(LockError, match="hours/0"):
        client.task(TASK)

    slices.run()
    client.reader.restore()
    client.task(TASK)
    assert client.stores.offsets(TASK) == {"hours": 31}


def test_strategy_that_makes_no_progress_is_told(place: Place) -> None:
    client = place.client()
    client.reader = StoreChangelogReader(client.stores, lambda _: done({}), Heard())
    client.task(TASK)
    for _ in range(MAX_STALLS):
        client.reader.restore()
    with pytest.raises(RestoreStalledError, match="restoring on client-1 makes no progress"):
        client.reader.restore()


def done(errors: dict[StoreId, Exception]) -> Future[dict[StoreId, Exception]]:
    future: Future[dict[StoreId, Exception]] = Future()
    future.set_result(errors)
    return future


def test_clean_close_applies_all_that_is_committed_and_leaves_what_is_in_retention(place: Place) -> None:
    place.client().close(TASK, clean=True)
    assert place.windows() == [window(hour) for hour in KEPT]


def test_clean_close_leaves_a_store_that_is_far_behind_as_it_stands(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_stores, "MAX_RECORDS_AT_CLOSE", 30)
    place.client().close(TASK, clean=True)
    assert place.windows() == []


def test_other_close_applies_nothing_more(place: Place) -> None:
    client = place.client()
    client.restore(TASK)
    place.commit(TASK, 31)
    client.close(TASK, clean=False)
    assert place.windows() == [window(hour) for hour in KEPT]


def test_store_ahead_of_its_changelog_is_corrupted_and_begins_again_once_it_was_looked_at(place: Place) -> None:
    place.hold()
    LmdbStore(place.directory.store_path(StoreId("hours", 0))).apply((), 0, 40)
    place.commit(OTHER, 3)
    client = place.client()

    failed = client.restore(TASK, OTHER)

    assert list(failed) == [TASK]
    assert isinstance(failed[TASK], TaskCorruptedError)
    assert "ahead of its changelog: 40 > 31" in str(failed[TASK])
    assert client.stores.offsets(OTHER) == {"hours": 1}
    client.reader.verify_on_register([TASK])
    assert client.restore(TASK) == {}
    assert client.stores.offsets(TASK) == {"hours": 31}
    assert place.windows() == [window(hour) for hour in KEPT]


def test_positions_that_epochs_have_reached_are_taken_up(place: Place) -> None:
    client = place.client()
    client.restore(TASK)
    place.commit(TASK, 31)
    store = LmdbStore(place.directory.store_path(StoreId("hours", 0)))
    store.apply([([window(31)], [b"v"])], 31, 32)
    client.stores.advance(TASK, {"hours": 32})
    assert client.stores.offsets(TASK) == {"hours": 32}
    assert client.stores.stored() == {TASK: {"hours": 32}}


def test_epoch_that_ends_after_its_store_was_wiped_does_not_bring_it_forward(place: Place) -> None:
    client = place.client()
    client.restore(TASK)
    client.stores.record(StoreResponse(StoreId("hours", 0), 0, damage="its file crashes every process that reads it"))

    client.stores.advance(TASK, {"hours": 31})
    assert client.stores.offsets(TASK) == {"hours": 0}

    client.reader.verify_on_register([TASK])
    assert client.restore(TASK) == {}
    client.stores.advance(TASK, {"hours": 32})
    assert client.stores.offsets(TASK) == {"hours": 32}


def test_directory_that_is_another_clients_is_not_worked_on(place: Place) -> None:
    client = place.client()
    found = ProcessFile.read(place.directory.path)
    assert found is not None
    replace(found, process_id="2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d").write(place.directory.path)

    with pytest.raises(StateError, match=r"is not at .*client-1/p-t any more"):
        client.restore(TASK)
    assert place.directory.stores() == []


def damage(place: Place, partition: int = 0) -> None:
    """A byte of each row, in all pages, once nobody has the file open."""
    path = place.directory.store_path(StoreId("hours", partition)) / "data.mdb"
    path.write_bytes(path.read_bytes().replace(b"key", b"kez"))


def test_store_that_an_epoch_found_damaged_is_restored_and_told(place: Place) -> None:
    told = list[StoreResponse]()
    client = place.client()
    client.restore(TASK)
    client.close(TASK, clean=False)
    again = place.client(told.append)  # by which all was read, and is whole
    damage(place)

    again.reader.verify_on_register([TASK])
    assert again.restore(TASK) == {}

    assert [(each.store.store, each.damage) for each in told] == [("hours", "a row is not what was written")]
    assert place.windows() == [window(hour) for hour in KEPT]


def test_epochs_bring_a_damaged_store_forward_of_which_nothing_was_committed(place: Place) -> None:
    told = list[StoreResponse]()
    client = place.client(told.append)
    LmdbStore(place.directory.store_path(StoreId("hours", 1))).apply([([window(1)], [b"v"])], 0, 1)
    damage(place, 1)

    client.reader.verify_on_register([OTHER])
    assert client.restore(OTHER) == {}
    assert [(each.store.store, each.damage) for each in told] == [("hours", "a row is not what was written")]

    client.stores.advance(OTHER, {"hours": 1})
    assert client.stores.offsets(OTHER) == {"hours": 1}


def test_store_whose_position_is_damaged_is_held_as_empty_and_restored(place: Place) -> None:
    place.client().restore(TASK)
    place.client().close(TASK, clean=False)
    path = place.directory.store_path(StoreId("hours", 0)) / "data.mdb"
    position = b"position" + (31).to_bytes(8, "little")
    path.write_bytes(path.read_bytes().replace(position, b"position" + (30).to_bytes(8, "little")))

    (held,) = place.hold().stores

    assert (held.position, held.damage) == (0, "a row is not what was written")
    client = place.client()
    assert client.restore(TASK) == {}
    assert client.stores.offsets(TASK) == {"hours": 31}
