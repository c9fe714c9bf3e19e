"""What happens to a store's files between two epochs, or between two runs: the result is as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import HeadwaterError
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import EpochCommitted, TaskBeginsAgain
from headwater.runtime.log.segments.segment import FileRange
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.restore.links import LocalLink, StateLink
from headwater.runtime.restore.requests import WITHOUT_OPENING, StateRequest, StateResponse
from headwater.runtime.state.lmdb.environment import process_environments
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story

CLIENT = "state/client-1"
EPOCHS = RECORDS // 3
"""Each brings a change of the key."""


def stores(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / CLIENT / "test-app").glob("totals/[0-9]/data.mdb"))


def deleted_files(root: Path) -> None:
    for path in stores(root):
        (path / "data.mdb").unlink()


def deleted_stores(root: Path) -> None:
    for path in stores(root):
        shutil.rmtree(path)


def older_copies(root: Path) -> None:
    for path in stores(root):
        older = path.with_name(f"older-{path.name}")
        shutil.rmtree(path)
        shutil.copytree(older, path)


def older_bytes(root: Path) -> None:
    """In the files that are there, which may be mapped."""
    for path in stores(root):
        content = (path.with_name(f"older-{path.name}") / "data.mdb").read_bytes()
        (path / "data.mdb").write_bytes(content)


def newer_copies(root: Path) -> None:
    for path in stores(root):
        store = LmdbStore(path)
        store.apply([([b"never committed"], [b"v"])], store.position, store.position + 1000)
        store.close()


def cut_off(size: int) -> Callable[[Path], None]:
    def fault(root: Path) -> None:
        for path in stores(root):
            with (path / "data.mdb").open("r+b") as file:
                file.truncate(size)

    return fault


def flipped_rows(root: Path) -> None:
    """A bit in each copy of each row's key."""
    for path in stores(root):
        file = path / "data.mdb"
        file.write_bytes(file.read_bytes().replace(b"k%d" % int(path.name), b"K%d" % int(path.name)))


def flipped_meta_page(root: Path) -> None:
    """A bit in the number that says that this is LMDB's."""
    for path in stores(root):
        file = path / "data.mdb"
        content = bytearray(file.read_bytes())
        content[16] ^= 0x40
        file.write_bytes(content)


FAULTS = [
    deleted_files,
    deleted_stores,
    older_copies,
    newer_copies,
    cut_off(0),
    cut_off(3 * 4096),
    flipped_rows,
    flipped_meta_page,
]


def keep_older_copies(root: Path) -> None:
    for path in stores(root):
        shutil.copytree(path, path.with_name(f"older-{path.name}"), dirs_exist_ok=True)


def whole(app: LocalApplication) -> None:
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


@pytest.mark.parametrize("happens", FAULTS)
def test_store_that_is_another_between_two_epochs_is_restored(application, happens: Callable[[Path], None]) -> None:
    app = fed(application(summed()))

    def then(commits: int) -> None:
        if commits == 3:
            keep_older_copies(app.path)
        if commits == 6:
            happens(app.path)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), Story(then))
    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    whole(app)
    app.run()
    whole(app)


@pytest.mark.parametrize(
    ("happens", "something_to_do"),
    [
        *((each, True) for each in (*FAULTS, older_bytes)),
        (older_bytes, False),
        *(pytest.param(each, False, marks=pytest.mark.soak) for each in FAULTS),
    ],
)
def test_store_that_is_another_at_a_start_is_restored(
    application, happens: Callable[[Path], None], something_to_do: bool
) -> None:
    app = fed(application(summed()))
    stop = Story(lambda commits: keep_older_copies(app.path) if commits == 2 else None)
    app.attempt(app.settings(max_records=3), LocalCluster(), stop)
    process_environments.before_fork()  # as it is in a new process
    process_environments.after_fork()
    happens(app.path)

    if something_to_do:
        fed(app)
    result = app.attempt(app.settings(max_records=3), LocalCluster())

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    twice = {key: (2 * count, 2 * total) for key, (count, total) in WHOLE_SUMS.items()}
    assert last_sums(app) == (twice if something_to_do else WHOLE_SUMS)
    for path in stores(app.path):
        assert LmdbStore(path).position == (2 * EPOCHS if something_to_do else EPOCHS)


class Noting(LocalCluster):
    """The real clients; `asked`: what was asked of their stores."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def link(self, client: Client, application: str) -> StateLink:
        return NotingLink(self.asked)


class NotingLink(LocalLink):
    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        self._asked += [request.what for request in requests if request.what not in WITHOUT_OPENING]
        return super().send(requests)


def test_run_with_nothing_to_do_opens_no_store_that_is_as_it_was_closed(application) -> None:
    app = fed(application(summed()))
    app.run()
    idle, other, last = Noting(), Noting(), Noting()

    app.attempt(cluster=idle)
    path = stores(app.path)[1] / "data.mdb"
    path.write_bytes(path.read_bytes())
    app.attempt(cluster=other)
    app.attempt(cluster=last)

    assert idle.asked == []
    assert other.asked == ["open", "close"]
    assert last.asked == []
    whole(app)


def test_state_directory_that_vanishes_between_two_epochs_is_made_again_and_restored(
    application,
) -> None:
    app = fed(application(summed()))
    story = Story(lambda commits: shutil.rmtree(app.path / CLIENT) if commits == 6 else None)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    whole(app)


def test_state_directory_that_cannot_be_written_between_two_epochs_ends_the_run_and_the_next_one_goes_on(
    application,
) -> None:
    app = fed(application(summed()))
    client = app.path / CLIENT

    def then(commits: int) -> None:
        if commits == 6:
            shutil.rmtree(client)
            client.write_text("in the way of a folder")

    result = app.attempt(app.settings(max_records=3), LocalCluster(), Story(then))

    assert result.status == "failed"
    assert result.error is not None
    assert str(client) in result.error
    client.unlink()
    app.run()
    whole(app)


def missing(path: Path) -> None:
    path.unlink()


def damaged(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-200] + bytes(200))


@pytest.fixture
def without_stores(application) -> LocalApplication:
    app = fed(application(summed()))
    app.run(max_records=7)
    shutil.rmtree(app.path / "state")
    return fed(app)


def changelog_segment(app: LocalApplication, number: int = 2) -> Path:
    """One of the store's partition 1."""
    state = LogState.load(app.log.commits("test-app"))
    within = state.lane_ranges("test-app-totals-changelog", 1, 1)[number]
    return app.path / "log" / FileRange.from_token(within.token).path


@pytest.mark.parametrize("happens", [missing, damaged])
def test_changelog_segment_that_is_there_again_holds_up_only_its_own_task(without_stores, happens) -> None:
    app, path = without_stores, changelog_segment(without_stores)
    content = path.read_bytes()
    happens(path)
    others: list[int] = []

    class Putting(Story):
        def on(self, event):
            super().on(event)
            if isinstance(event, StoreRestored) and not others:
                others.append(event.partition)
                path.write_bytes(content)

    result = app.attempt(observer=Putting())

    assert (result.status, result.error) == ("caught_up", None)
    assert others != [1]
    assert {key: n for key, (n, _) in last_sums(app).items()} == {f"k{n}": 2 * RECORDS for n in range(PARTITIONS)}


@pytest.mark.parametrize(("happens", "cause"), [(missing, "is missing from the log"), (damaged, "is damaged")])
def test_changelog_segment_that_stays_unreadable_ends_the_run_with_store_segment_and_way_out(
    without_stores, happens, cause
) -> None:
    app, path = without_stores, changelog_segment(without_stores)
    happens(path)
    story = Story()

    result = app.attempt(observer=story)

    assert result.status == "failed"
    assert "store totals, partition 1, cannot be restored on client-1: " in result.error
    assert "test-app-totals-changelog, partition 1, offset 2, cannot be read: " in result.error
    assert path.name in result.error
    assert cause in result.error
    assert "put the file back from a copy of the log" in result.error
    assert {event.partition for event in story.of(StoreRestored)} == {0, 2, 3}


class LastSegment(Story):
    """At the fourth commit something happens to what the store of partition 1 is to apply next. `back`: it is put back
    when the task begins again."""

    def __init__(self, app: LocalApplication, happens: Callable[[Path], None], *, back: bool) -> None:
        super().__init__()
        self.happened = False
        self.path = Path()
        self._app = app
        self._content = b""
        self._happens = happens
        self._back = back

    def on(self, event):
        super().on(event)
        if isinstance(event, EpochCommitted) and len(self.of(EpochCommitted)) == 4:
            self.path = changelog_segment(self._app, -1)
            self._content = self.path.read_bytes()
            self._happens(self.path)
        if isinstance(event, TaskBeginsAgain) and self._back:
            self.path.write_bytes(self._content)


@pytest.mark.parametrize("happens", [missing, damaged])
def test_changelog_segment_that_an_epoch_cannot_read_holds_up_only_its_own_task(application, happens) -> None:
    app = fed(application(summed()))
    story = LastSegment(app, happens, back=True)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    (told,) = story.of(TaskBeginsAgain)
    assert told.partition == 1
    assert told.cause.startswith(
        "store totals, partition 1, cannot be brought forward: test-app-totals-changelog, partition 1, offset "
    )
    assert story.path.name in told.cause
    assert story.of(EpochCommitted)[4].records == 3 * (PARTITIONS - 1)
    whole(app)


@pytest.mark.parametrize(("happens", "cause"), [(missing, "is missing from the log"), (damaged, "is damaged")])
def test_changelog_segment_that_epochs_cannot_read_ends_the_run_once_the_others_are_committed(
    application, happens, cause
) -> None:
    app = fed(application(summed()))
    story = LastSegment(app, happens, back=False)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), story)

    assert result.status == "failed"
    assert "the stores of task" in result.error
    assert "could not be restored 3 times in a row on client-1: store totals, partition 1, " in result.error
    assert story.path.name in result.error
    assert cause in result.error
    assert "put the file back from a copy of the log" in result.error
    assert story.of(EpochCommitted)[4].records == 3 * (PARTITIONS - 1)


WHOLE = ["[]", "null", '"x"', "", "\0", "[" * 100_000, "9" * 5_000]
"""In place of a whole file."""


def with_another_value(found: Any) -> Iterator[Any]:
    """The JSON with a value of another type in place of each of its values, one at a time."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from ({**found, key: other} for other in with_another_value(value))
    elif isinstance(found, list):
        for place, value in enumerate(found[:3]):
            yield from ([*found[:place], other, *found[place + 1 :]] for other in with_another_value(value))
    yield from (other for other in (None, "x", -1, 10**30, 1.5, [], {}, True, [[]]) if type(other) is not type(found))


def changed(content: str) -> Iterator[str]:
    yield from WHOLE
    with suppress(ValueError):
        yield from map(json.dumps, with_another_value(json.loads(content)))


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_changed_small_file_is_an_error_or_makes_no_difference(application, tmp_path, few):
    app = fed(application(summed()))
    app.run()
    shutil.copytree(app.path, tmp_path / "saved")
    files = [path for path in app.path.rglob("*") if path.is_file() and path.suffix not in (".mdb", ".seg")]
    small = {path: path.read_text() for path in files if path.parent.parent.name != "commits"}
    assert {".process.json", ".closed.json", "log.json", "test-app.json", ".0.commit"} <= {path.name for path in small}
    for path, before in small.items():
        for content in WHOLE[:3] if few else changed(before):
            path.write_text(content)
            with suppress(HeadwaterError):  # with a sentence, whatever it says; nothing else is raised
                result = app.attempt()
                assert result.error or last_sums(app) == WHOLE_SUMS, (path, content)
            shutil.rmtree(app.path)
            shutil.copytree(tmp_path / "saved", app.path)
