"""Snapshots of stores, in real runs: they are saved beside the epochs, and stores are restored from them."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from headwater.errors import MachineError
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import (
    ClientLost,
    SnapshotNotSaved,
    SnapshotUnusable,
    StoreDamaged,
    StoreRestored,
)
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.runtime.log import durable_files as saved_files
from headwater.runtime.log.commit.records import SnapshotRecord, StoreSnapshot
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.restore import client_stores
from headwater.runtime.restore.copies import load
from headwater.runtime.restore.links import LocalLink, StateLink, WorkerCrashedError
from headwater.runtime.restore.requests import StateLocation, StateRequest, StateResponse
from headwater.runtime.state.catch_up import TimeBudget
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbBackend, LmdbStore
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId
from headwater.tests.disks import small_disk
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, TOTALS, WHOLE_SUMS, WORDS, fed, last_sums, summed
from headwater.tests.runtime.local.test_random_runs import IN_ORDER, sums_in_order
from headwater.tests.runtime.local.test_rebalance import Story, sticky
from headwater.tests.runtime.local.test_store_faults import EPOCHS, newer_copies, stores


def with_snapshots(app: LocalApplication, **options: int) -> LocalApplication:
    app.topology = replace(app.topology, restore=PluginRef("snapshot", options or {"every_epochs": 2}))
    return app


def state_of(app: LocalApplication) -> LogState:
    return LogState.load(app.log.commits(app.topology.application))


def snapshots_of(app: LocalApplication, partition: int) -> tuple[StoreSnapshot, ...]:
    """The furthest first."""
    return state_of(app).store_snapshots.of(StoreId(TOTALS.name, partition))


def files(app: LocalApplication) -> set[str]:
    return {path.relative_to(app.path / "log").as_posix() for path in (app.path / "log/snapshots").rglob("*.snap")}


@pytest.fixture
def app(application: Callable[..., LocalApplication]) -> LocalApplication:
    """It has run in ten epochs, has two snapshots of each store, and no store."""
    app = with_snapshots(fed(application(summed())))
    app.run(max_records=3)
    shutil.rmtree(app.path / "state")
    return app


class Requests:
    """What clients are asked to do, and what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.restores: list[tuple[int, int]] = []
        self.loads: list[str] = []
        self.fetched: list[int] = []
        self.happens: Callable[[int], None] = lambda _: None
        answer = client_stores.handle

        def noted(request: StateRequest) -> StateResponse:
            found = answer(request)
            if request.what == "restore":
                for target, each in zip(request.stores, found.stores, strict=True):
                    self.restores.append((target.input.applied, each.position))
                    if target.load is not None:
                        self.loads.append(target.load.path)
                        self.fetched.append(each.fetched)
                        self.happens(each.fetched)
            return found

        monkeypatch.setattr("headwater.runtime.restore.links.handle", noted)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


def test_stores_are_saved_beside_epochs_and_the_newest_two_are_kept(app):
    assert last_sums(app) == WHOLE_SUMS
    for partition in range(PARTITIONS):
        newest, older = snapshots_of(app, partition)
        assert 0 < older.position < newest.position <= RECORDS
    assert files(app) == state_of(app).store_snapshots.paths()


def test_store_is_restored_from_its_newest_snapshot_and_what_the_changelog_has_since(app, requests):
    newest = {snapshots_of(app, partition)[0].path for partition in range(PARTITIONS)}
    fed(app)

    app.run()

    assert set(requests.loads) == newest
    assert max(applied for applied, _ in requests.restores) > 0  # the rest of the way
    assert last_sums(app) == {
        f"k{partition}": (2 * RECORDS, 2 * sum(range(RECORDS))) for partition in range(PARTITIONS)
    }


def test_store_that_is_there_is_not_loaded(application, requests):
    app = with_snapshots(fed(application(summed())))
    app.run(max_records=3)
    app.run()
    assert requests.loads == []


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is the least that can be done."""
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(saved_files, "_PIECE", 4096)


def left_behind(app: LocalApplication) -> list[str]:
    return [path.name for path in (app.path / "state").rglob(".*-0")]


@pytest.mark.usefixtures("short_slices")
def test_snapshot_is_loaded_in_slices_and_nothing_of_it_is_left(app, requests):
    size = snapshots_of(app, 0)[0].size
    assert size > 3 * 4096

    app.run()

    assert set(requests.fetched) == {0, *range(4096, size, 4096)}
    assert requests.fetched.count(4096) == PARTITIONS
    assert left_behind(app) == []
    assert last_sums(app) == WHOLE_SUMS


@pytest.mark.usefixtures("short_slices")
def test_snapshot_that_is_gone_while_it_is_loaded_is_left_for_the_older_one(app, requests):
    newest, older = snapshots_of(app, 3)
    path = app.path / "log" / newest.path
    requests.happens = lambda fetched: path.unlink(missing_ok=True) if fetched == 3 * 4096 else None
    story = Story()

    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    assert [event.partition for event in story.of(SnapshotUnusable)] == [3]
    assert older.path in requests.loads
    assert left_behind(app) == []
    assert last_sums(app) == WHOLE_SUMS


@pytest.mark.usefixtures("short_slices")
def test_run_that_ends_while_a_snapshot_is_loaded_leaves_nothing_to_the_next(app, requests):
    stop = threading.Event()
    requests.happens = lambda fetched: stop.set() if fetched == 3 * 4096 else None

    assert app.attempt(stop=stop).status == "interrupted"

    assert left_behind(app)
    requests.happens = lambda fetched: None
    app.run()
    assert left_behind(app) == []
    assert last_sums(app) == WHOLE_SUMS


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("happens", [Path.unlink, damaged, cut_off, emptied])
def test_broken_snapshot_is_told_and_the_older_one_is_loaded(app, requests, happens: Callable[[Path], None]):
    newest, older = snapshots_of(app, 1)
    happens(app.path / "log" / newest.path)
    fed(app)
    story = Story()

    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    (told,) = story.of(SnapshotUnusable)
    assert (told.store, told.partition) == ("totals", 1)
    assert f"is restored on client-1 without a snapshot that cannot be loaded: {newest.path}: " in told.text
    assert [path for path in requests.loads if "-s1-" in path] == [newest.path, older.path]
    assert last_sums(app)["k1"] == (2 * RECORDS, 2 * sum(range(RECORDS)))
    assert newest.path not in state_of(app).store_snapshots.paths()


def test_store_without_a_whole_snapshot_is_restored_from_the_changelog(app, requests):
    for partition in range(PARTITIONS):
        for each in snapshots_of(app, partition):
            damaged(app.path / "log" / each.path)
    fed(app)
    story = Story()

    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    assert len(story.of(SnapshotUnusable)) == 2 * PARTITIONS
    assert {(applied, position > 0) for applied, position in requests.restores} == {(0, False), (0, True)}
    assert last_sums(app) == {
        f"k{partition}": (2 * RECORDS, 2 * sum(range(RECORDS))) for partition in range(PARTITIONS)
    }


def test_snapshots_that_cannot_be_saved_are_told_and_the_run_goes_on_and_saves_later(application):
    app = with_snapshots(fed(application(summed())))
    blocker = app.path / "log/snapshots"
    blocker.write_text("no folder")
    story = Story(lambda commits: blocker.unlink() if commits == 6 else None)

    result = app.attempt(app.settings(max_records=3), observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    told = story.of(SnapshotNotSaved)
    assert "could not be saved as a snapshot on client-1" in told[0].text
    assert "Not a directory" in told[0].text
    assert len(told) < 4 * PARTITIONS  # each only when as much has changed again
    assert last_sums(app) == WHOLE_SUMS
    assert snapshots_of(app, 0)


def test_store_is_saved_by_the_bytes_of_its_changelog_over_several_runs(application):
    app = with_snapshots(fed(application(summed())), every_bytes=10_000_000)
    app.run(max_records=3)
    assert state_of(app).store_snapshots.listed == ()

    size = sum(each.size for each in state_of(app).lane_ranges("test-app-totals-changelog", 0, 0))
    with_snapshots(app, every_bytes=size)
    app.run()

    assert snapshots_of(app, 0)


def test_full_refresh_leaves_no_snapshot(app):
    app.log.drop(app.topology.application)

    assert files(app) == set()
    app.run()
    assert last_sums(app) == WHOLE_SUMS


def test_files_that_no_commit_lists_are_removed_by_the_next_run(app):
    listed = app.path / "log" / snapshots_of(app, 0)[0].path
    left = listed.with_name(listed.name.replace("-s0-", "-s0-left"))
    shutil.copy(listed, left)

    app.run()

    assert listed.exists()
    assert not left.exists()


@pytest.mark.parametrize("log", ["embedded", "sparse"])
@pytest.mark.parametrize("standbys", [0, 1])
def test_clients_that_come_and_go_while_stores_are_saved_cost_no_record(application, log, standbys, monkeypatch):
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", 0.0)
    for seed in range(3):
        app = with_snapshots(fed(application(summed(), log=log)), every_epochs=1, keep=1)
        assignment = Assignment(PluginRef("sticky"), standby_replicas=standbys, probing_rebalance_interval_ms=60_000)
        app.topology = replace(app.topology, assignment=assignment)
        app.run_randomly(seed, moving=True)
        assert sums_in_order(app) == IN_ORDER


def test_snapshots_on_a_full_disk_are_told_with_their_path_and_leave_nothing_half_written(application):
    app = with_snapshots(fed(application(summed())))
    story = Story()
    with small_disk(app.path / "log/snapshots", 96 << 10):
        result = app.attempt(app.settings(max_records=3), observer=story)
        listed = state_of(app).store_snapshots.paths()
        assert files(app) == listed

    assert (result.status, result.error) == ("caught_up", None)
    told = story.of(SnapshotNotSaved)[0].text
    assert f"{app.path}/log/snapshots/test-app/totals/" in told
    assert "No space left on device" in told
    assert 0 < len(listed) < 2 * PARTITIONS
    assert last_sums(app) == WHOLE_SUMS


def test_snapshot_that_does_not_fit_on_the_clients_disk_is_an_error_of_the_machine(app, tmp_path):
    snapshot = snapshots_of(app, 0)[0]
    with small_disk(tmp_path / "disk", 12 << 10) as disk:
        with pytest.raises(MachineError, match="No space left on device") as raised:
            load(LmdbBackend(), disk / "0", snapshot=snapshot, log=app.log, budget=TimeBudget())
        assert (raised.value.path or "").startswith(str(disk))
        assert list(disk.iterdir()) == []


def test_damage_that_was_copied_into_snapshots_is_restored_from_the_changelog(application, requests):
    app = with_snapshots(application(summed()))
    app.append(WORDS, [(("quiet",), (5,), 0)], 1)
    fed(app).run(max_records=3)
    shutil.rmtree(app.path / "state")
    state, (newest, older) = state_of(app), snapshots_of(app, 1)
    content = bytearray((app.path / "log" / newest.path).read_bytes())
    at = content.find(b"quiet")
    assert at > 0
    while at >= 0:
        content[at + 13] ^= 0x20  # in the row's value, whose checksum it does not fit any more
        at = content.find(b"quiet", at + 1)
    flipped = replace(newest, path=newest.path.replace("-s1-", "-s1-flipped"), checksum=crc32(content))
    (app.path / "log" / flipped.path).write_bytes(content)
    removed = (newest.path, older.path)
    state.commit(SnapshotRecord(state.generation, 0, (flipped,), removed, state.incarnation))
    app.append(WORDS, [(("quiet",), (6,), 100)], 1)
    story = Story()

    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    assert flipped.path in requests.loads
    assert [(event.store, event.partition) for event in story.of(StoreDamaged)] == [("totals", 1)]
    assert last_sums(app) == {**WHOLE_SUMS, "quiet": (2, 11)}
    assert flipped.path not in state_of(app).store_snapshots.paths()


class Clients(LocalCluster):
    """The real clients; `before` is called before a store is copied, with its partition."""

    def __init__(self, before: Callable[[int], object]) -> None:
        super().__init__()
        self.before = before

    def link(self, client: Client, application: str) -> StateLink:
        return Link(self.before)


class Link(LocalLink):
    def __init__(self, before: Callable[[int], object]) -> None:
        self._before = before

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        for request in requests:
            if request.what == "save":
                self._before(request.stores[0].partition)
        return super().send(requests)


@pytest.mark.parametrize("quiet", [False, True])
def test_store_that_is_found_damaged_while_it_is_copied_is_restored_and_its_task_goes_on(application, quiet: bool):
    app = with_snapshots(fed(application(summed())), every_epochs=9 if quiet else 2)
    story = Story()
    deaths = ["with others", "alone"]

    def dies(partition: int) -> None:
        if partition == 1 and deaths:
            deaths.pop()
            raise WorkerCrashedError("test-app", "client-1", "the worker has died", "Bus error")

    result = app.attempt(app.settings(max_records=3), Clients(dies), story)

    assert (result.status, result.error) == ("caught_up", None)
    (damage,) = story.of(StoreDamaged)
    assert (damage.partition, damage.cause) == (1, "its file crashes every process that reads it (Bus error)")
    assert last_sums(app) == WHOLE_SUMS
    assert 1 in {event.partition for event in story.of(StoreRestored)}
    assert bool(snapshots_of(app, 1)) != quiet
    assert files(app) == state_of(app).store_snapshots.paths()


def test_idle_store_that_is_ahead_of_the_commits_is_restored_and_not_copied_for_ever(application):
    app = with_snapshots(fed(application(summed())), every_epochs=9)
    stop, copied = threading.Event(), Counter[int]()
    story = Story(lambda commits: newer_copies(app.path) if commits == EPOCHS else None)

    def copies(partition: int) -> None:
        copied[partition] += 1
        if copied[partition] > 5:
            stop.set()

    result = app.attempt(app.settings(max_records=3), Clients(copies), story, stop=stop)

    assert (result.status, result.error) == ("caught_up", None)
    assert copied
    for path in stores(app.path):
        assert LmdbStore(path).position == EPOCHS
    assert files(app) == state_of(app).store_snapshots.paths()


class Held:
    """Copies of stores, none of which is made before `go`."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()

    def __call__(self, partition: int) -> None:
        self.begun.set()
        self.go.wait()


def test_rebalance_does_not_wait_for_a_store_that_is_copied(application):
    app = with_snapshots(fed(application(summed())), every_epochs=1)
    sticky(app)
    copies = Held()
    cluster = Clients(copies)
    cluster.lose("client-2")

    class Moved(Story):
        def on(self, event: Event) -> None:
            super().on(event)
            if copies.begun.is_set():
                cluster.find("client-2")
            if isinstance(event, EpochCommitted) and event.client == "client-2":
                copies.go.set()

    story = Moved()
    result = app.attempt(app.settings(max_records=1, clients=2), cluster, story)

    assert (result.status, result.error) == ("caught_up", None)
    assert story.commits_by("client-2") > 0
    assert last_sums(app) == WHOLE_SUMS
    assert files(app) == state_of(app).store_snapshots.paths()


def test_copy_of_a_client_that_is_lost_meanwhile_is_removed_once_it_is_made(application):
    app = with_snapshots(fed(application(summed())), every_epochs=1)
    sticky(app)
    held, go = list[int](), threading.Event()
    cluster = Clients(lambda partition: (held.append(partition), go.wait()))

    class Lost(Story):
        def on(self, event: Event) -> None:
            super().on(event)
            if len(held) == 2:  # one of each client
                cluster.lose("client-1")
            if isinstance(event, ClientLost):
                go.set()

    result = app.attempt(app.settings(max_records=1, clients=2), cluster, Lost())

    assert (result.status, result.error) == ("caught_up", None)
    join_copies()
    assert files(app) == state_of(app).store_snapshots.paths()
    assert last_sums(app) == WHOLE_SUMS


def join_copies() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("test-app/snapshots"):
            thread.join()


def test_run_that_ends_does_not_wait_for_a_store_that_is_copied_and_the_copy_is_removed(application):
    app = with_snapshots(fed(application(summed())), every_epochs=1)
    copies, stop = Held(), threading.Event()
    story = Story(lambda _: stop.set() if copies.begun.is_set() else None)

    result = app.attempt(app.settings(max_records=1), Clients(copies), story, stop=stop)

    assert (result.status, result.error) == ("interrupted", None)
    assert files(app) == set()
    copies.go.set()
    join_copies()
    assert files(app) == set()
    app.run()
    assert last_sums(app) == WHOLE_SUMS


@pytest.mark.usefixtures("short_slices")
def test_snapshot_that_is_listed_no_more_while_it_is_loaded_leaves_nothing_and_is_not_told(app, requests):
    removed = tuple(each.path for each in snapshots_of(app, 3))

    def happens(fetched: int) -> None:
        state = state_of(app)
        if fetched == 3 * 4096 and state.store_snapshots.of(StoreId(TOTALS.name, 3)):
            state.commit(SnapshotRecord(state.generation, 0, (), removed, state.incarnation))
            for path in removed:
                (app.path / "log" / path).unlink()

    requests.happens = happens
    story = Story()

    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    assert not state_of(app).store_snapshots.paths().intersection(removed)
    assert story.of(SnapshotUnusable) == []
    assert left_behind(app) == []
    assert last_sums(app) == WHOLE_SUMS


def half_loaded(app: LocalApplication, snapshot: StoreSnapshot, place: Path) -> Path:
    """The first piece of a snapshot, beside the place of its store."""
    over = TimeBudget(0.0)
    assert load(LmdbBackend(), place, snapshot=snapshot, log=app.log, budget=over) == 4096
    (folder,) = place.parent.glob(".0_*-0")
    return folder


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize("note", ["", "4096", "4096 1 another-boot", "8192 {checksum} {boot}"])
def test_note_of_what_is_here_of_a_snapshot_that_cannot_be_trusted_has_it_begin_again(app, tmp_path, note):
    snapshot, place = snapshots_of(app, 0)[0], tmp_path / "stores/0"
    folder = half_loaded(app, snapshot, place)
    _, checksum, boot = (folder / "fetched").read_text().split()
    (folder / "fetched").write_text(note.format(checksum=checksum, boot=boot))

    assert load(LmdbBackend(), place, snapshot=snapshot, log=app.log, budget=TimeBudget()) == snapshot.size

    assert LmdbStore(place).position == snapshot.position
    assert [path.name for path in place.parent.iterdir()] == ["0"]


@pytest.mark.usefixtures("short_slices")
def test_half_loaded_snapshots_are_removed_with_their_store_and_when_an_executor_takes_its_directory(app):
    directory = StateDirectory(app.path / "state", "client-1", "test-app")
    (owner := Owner.from_pid(os.getpid())) and ProcessFile.take(directory.path, owner)
    store = StoreId(TOTALS.name, 0)
    folder = half_loaded(app, snapshots_of(app, 0)[0], directory.store_path(store))
    directory.remove(store)
    assert not folder.exists()

    folder = half_loaded(app, snapshots_of(app, 0)[0], directory.store_path(store))
    log = (app.log_ref.name, dict(app.log_ref.options))
    held = client_stores.handle(
        StateRequest("claim", StateLocation(str(app.path / "state"), "test-app", "client-1", log=log))
    )
    assert held.failure is None
    assert not folder.exists()
