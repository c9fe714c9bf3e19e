"""Clients that come and go while steps with stores of all kinds run: copies take over, with what they should hold.

Sessions, windows, sliding windows, buffers of suppress, records that wait to be joined, rows of joined tables and of
foreign keys, stores of processors.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import ClientLost, StoreRestoring
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.runtime.log.state import LogState
from headwater.runtime.task_id import StoreId
from headwater.tests.runtime.local import every_step
from headwater.tests.runtime.local.test_rebalance import Story
from headwater.tests.runtime.local.test_snapshots import Requests

MOMENTS, MORE = 32, 6
STORES, PARTITIONS = 16, 2
CHANGELOG = PluginRef("changelog")
SNAPSHOT = PluginRef("snapshot", {"every_epochs": 2})


def quiet(fed: Path, into: Path, more: int = 0) -> dict[str, list[str]]:
    """The results of a run in one epoch, and of another one with so many moments more."""
    shutil.copytree(fed, into, dirs_exist_ok=True)
    every_step.application(into).run()
    every_step.feed(into, more, MOMENTS)
    every_step.application(into).run()
    return every_step.results(into)


def sticky(standbys: int) -> Assignment:
    return Assignment(PluginRef("sticky"), standby_replicas=standbys, probing_rebalance_interval_ms=60_000)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with its input, which nobody has taken."""
    path = every_step.copied(tmp_path_factory.mktemp("fed"))
    every_step.feed(path, MOMENTS)
    return path


@pytest.fixture(scope="module")
def expected(fed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a run comes to of which nobody is lost."""
    return quiet(fed, tmp_path_factory.mktemp("quiet"))


@pytest.fixture(scope="module")
def expected_of_more(fed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The same with more moments, for which there is a run of their own."""
    return quiet(fed, tmp_path_factory.mktemp("quiet"), MORE)


@pytest.fixture
def path(fed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fed, tmp_path, dirs_exist_ok=True))


@contextmanager
def only(state: Path, client: str) -> Iterator[None]:
    """Without the directories of others."""
    others = [each for each in state.iterdir() if each.name not in (client, "~beside")]
    for each in others:
        each.rename(state.parent / each.name)
    yield
    for each in others:
        (state.parent / each.name).rename(each)


def test_copies_of_all_kinds_of_stores_hold_what_their_owners_hold(path: Path, expected: Any) -> None:
    app = every_step.application(path, assignment=sticky(1), restore=CHANGELOG)
    app.run(max_records=20, clients=2)
    for client in ("client-1", "client-2"):
        with only(path / "state", client):
            assert len(list((path / "state" / client).glob("*/*/*/data.mdb"))) == STORES * PARTITIONS
            assert every_step.results(path) == expected


def test_tasks_of_a_lost_client_go_on_with_the_copies_of_another_one(path: Path, expected_of_more: Any) -> None:
    app = every_step.application(path, assignment=sticky(1), restore=CHANGELOG)
    app.run(max_records=20, clients=2)  # at its end the copies have all that their owners have
    every_step.feed(path, MORE, MOMENTS)
    cluster = LocalCluster()
    story = Story(lambda commits: cluster.lose("client-2") if commits == 1 else None)
    result = app.attempt(app.settings(max_records=8, clients=2), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert len(story.of(ClientLost)) == 1
    assert {event.store for event in story.of(StoreRestoring) if event.position == 0} == set()
    assert every_step.results(path) == expected_of_more


def test_stores_of_all_kinds_are_restored_from_snapshots(
    path: Path, expected_of_more: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = every_step.application(path, restore=SNAPSHOT)
    app.run(max_records=8)
    shutil.rmtree(path / "state")
    saved = LogState.load(app.log.commits(app.topology.application)).store_snapshots
    (visit,) = (part for part in app.topology.subtopologies if part.name == "visit")
    assert {each.name for each in visit.stores} - {each.store for each in saved.listed} == set()
    newest = {saved.of(StoreId(each.store, each.partition))[0].path for each in saved.listed}

    every_step.feed(path, MORE, MOMENTS)
    requests = Requests(monkeypatch)
    app.run(max_records=8)

    assert set(requests.loads) == newest
    assert every_step.results(path) == expected_of_more


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize(("standbys", "restore"), [(1, CHANGELOG), (0, SNAPSHOT)], ids=["standbys", "snapshots"])
def test_clients_that_come_and_go_while_epochs_fail_change_no_result(
    path: Path, expected: Any, standbys: int, restore: PluginRef
) -> None:
    app = every_step.application(path, assignment=sticky(standbys), restore=restore)
    app.run_randomly(1, moving=True)
    assert every_step.results(path) == expected
