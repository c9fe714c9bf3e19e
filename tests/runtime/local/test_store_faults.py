"""What happens to a store's file between two epochs: the result is that of a run that nothing has happened to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from local_application import LocalApplication
from summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, fed, last_sums, summed
from test_rebalance import Story

from headwater.runtime.driver.reports.events import StoreRestored
from headwater.runtime.local.cluster import LocalCluster
from headwater.runtime.log.segments.segment import FileRange
from headwater.runtime.log.state import LogState
from headwater.runtime.state.lmdb.store import LmdbStore


def stores(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / "state/client-1/test-app").glob("totals/[0-9]/data.mdb"))


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


def newer_copies(root: Path) -> None:
    for path in stores(root):
        store = LmdbStore(path)
        store.apply([([b"never committed"], [b"v"])], store.position, store.position + 1000)


@pytest.mark.parametrize("happens", [deleted_files, deleted_stores, older_copies, newer_copies])
def test_store_that_is_another_between_two_epochs_is_restored(application, happens: Callable[[Path], None]) -> None:
    app = fed(application(summed()))

    def then(commits: int) -> None:
        if commits == 3:
            for path in stores(app.path):
                shutil.copytree(path, path.with_name(f"older-{path.name}"))
        if commits == 6:
            happens(app.path)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), Story(then))
    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS
    app.run()
    assert last_sums(app) == WHOLE_SUMS


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


def changelog_segment(app: LocalApplication) -> Path:
    """The third of the store's partition 1."""
    state = LogState.load(app.log.commits("test-app"))
    within = state.lane_ranges("test-app-totals-changelog", 1, 1)[2]
    return app.path / "log" / FileRange.of(within.token).path


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
    assert path.name in result.error
    assert cause in result.error
    assert "put the files of the log back from a copy" in result.error
    assert {event.partition for event in story.of(StoreRestored)} == {0, 2, 3}
