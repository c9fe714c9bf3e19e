"""Deletions are dropped from changelogs while applications run, and stores that need them begin again, in real runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.runtime.driver import upkeep as cleaning
from headwater.runtime.driver.client_events import StoreOutdated, StoreRestored
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import PluginRef, Topic
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import changelog_topic
from headwater.tests.runtime.local.joining import KNOWN, NAMED, NAMES, PARTITIONS, WORDS, fed, named, rows_of
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, part
from headwater.tests.runtime.local.test_rebalance import Story, sticky

Make = Callable[..., LocalApplication]
PAIRS = Topic("pairs", PARTITIONS, "k string", "x bigint, name string", writer=APPLICATION)
TOPIC = changelog_topic(APPLICATION, KNOWN.name)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few segments are worth a merge."""
    monkeypatch.setattr(cleaning, "LIMITS", Limits(fan_out=2))


def paired(backend: str):
    """Numbers with the name of their key."""
    store = replace(KNOWN, backend=backend)

    def same(batches):
        yield from batches

    join = StreamTableJoin("f", "t", store, "left", {"name": "name"})
    joined = (Source(NAMES, "t"), Source(WORDS, "f"), Table("t", store), join)
    flow = {"f": Flow("k string", "x bigint, name string")}
    return part("named", PARTITIONS, ((joined, {}, flow), same, ((Sink("f", PAIRS),), flow, {})), (store,))


def name(app: LocalApplication, turn: int, *, there: bool) -> None:
    """Names of ten keys of each partition come, or go."""
    for partition in range(PARTITIONS):
        rows = [((f"{partition}-{key}",), (f"name {turn}",) if there else None, 10 * turn) for key in range(10)]
        app.append(NAMES, rows, partition)


def horizons(app: LocalApplication) -> list[int]:
    state = LogState.load(app.log.commits(APPLICATION))
    return [state.horizon(TOPIC, partition, partition) for partition in range(PARTITIONS)]


def ends(app: LocalApplication) -> list[int]:
    state = LogState.load(app.log.commits(APPLICATION))
    return [state.lane_ends(TOPIC, partition)[partition] for partition in range(PARTITIONS)]


@pytest.mark.parametrize(
    ("backend", "restore"),
    [
        ("lmdb", "snapshot"),
        ("rocksdb", "changelog"),
        pytest.param("lmdb", "changelog", marks=pytest.mark.soak),
        pytest.param("rocksdb", "snapshot", marks=pytest.mark.soak),
    ],
)
def test_store_that_comes_back_after_deletions_were_dropped_is_restored_from_nothing_and_told(
    application: Make, backend: str, restore: str
) -> None:
    app = application(paired(backend), clean=True)
    app.topology = replace(app.topology, restore=PluginRef(restore))
    name(app, 1, there=True)
    app.run()
    shutil.copytree(app.path / "state", app.path / "old")
    at = ends(app)
    for turn in range(2, 6):
        name(app, turn, there=turn == 4)
        app.run(max_records=3)
    app.append(NAMES, [(("0-77",), ("there",), 100)])
    app.run()
    assert all(0 < position < horizon for position, horizon in zip(at, horizons(app), strict=True))

    shutil.rmtree(app.path / "state")
    (app.path / "old").rename(app.path / "state")
    if backend == "lmdb":
        assert rows_of(app, KNOWN, "named") == rows_of(app, KNOWN, "named", None)
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"{partition}-{key}",), (key,), 200) for key in (3, 77)], partition)
    story = Story()
    result = app.attempt(observer=story)

    assert (result.status, result.error) == ("caught_up", None)
    assert sorted((each.partition, each.position) for each in story.of(StoreOutdated)) == list(enumerate(at))
    assert "is restored from scratch on client-1: it was at position" in story.of(StoreOutdated)[0].text
    assert {each.partition for each in story.of(StoreRestored)} == {0, 1}
    found = {row["key.k"]: row["value.name"] for row in app.read(PAIRS)}
    assert found == {"0-3": None, "0-77": "there", "1-3": None, "1-77": None}
    if backend == "lmdb":
        (row,) = rows_of(app, KNOWN, "named")
        assert "0-77" in row[0]
        assert rows_of(app, KNOWN, "named", None) == [row]


@pytest.mark.parametrize("log", ["sparse", pytest.param("embedded", marks=pytest.mark.soak)])
def test_standbys_and_tasks_that_move_have_no_row_that_was_deleted(application: Make, log: str) -> None:
    kept, cleaned = application(named()), application(named(), log=log, clean=True)
    for turn in range(3):
        for app in (kept, cleaned):
            sticky(app, standbys=1)
            fed(app, 40 * turn)
        kept.run()
        cleaned.run_randomly(turn, moving=True)
        assert rows_of(cleaned, KNOWN, "named", None) == rows_of(kept, KNOWN, "named") != []
        assert rows_of(cleaned, KNOWN, "named") == rows_of(kept, KNOWN, "named")
    assert any(horizons(cleaned))
    assert len(cleaned.read(NAMED)) == len(kept.read(NAMED))
