"""Deletions are dropped from a changelog a day after they came, and no store is left with a row that was deleted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.inspection.repair import plan_repair, repair
from headwater.runtime.log.segments.segment import Deletions
from headwater.runtime.log.state import LogState
from headwater.runtime.state import closed_stores as horizon
from headwater.runtime.state.directory import StateDirectory
from headwater.tests.runtime.log.cleaning.deleting import ACTIVE, KEPT_MS, LANE, STORE, TOPIC, Shop

FEW = Limits(fan_out=2)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, FEW)


def dropped(shop: Shop) -> Shop:
    """Keys 0 to 9 came, 0 to 4 went, their deletions too, and 20 came since."""
    shop.epoch(*((key, key) for key in range(10)))
    shop.epoch(*((key, None) for key in range(5)))
    shop.epoch()
    shop.clean()
    shop.clean(KEPT_MS)
    shop.epoch((20, 20))
    assert (shop.horizon, shop.records) == (15, 6)
    return shop


@pytest.mark.parametrize("size", [1_000, 16 << 20])
def test_changelog_of_a_store_whose_keys_come_and_go_stays_bounded(tmp_path: Path, size: int) -> None:
    kept_ms = {"bounded": KEPT_MS, "grows": 10**12}
    records: dict[str, list[int]] = {}
    for name, ms in kept_ms.items():
        shop = Shop(tmp_path / name, Limits(fan_out=2, size=size), ms)
        for turn in range(40):
            shop.epoch(*((10 * turn + key, key) for key in range(10)))
            shop.epoch(*((10 * turn + key, None) for key in range(10)))
            shop.clean(KEPT_MS // 2)
            records.setdefault(name, []).append(shop.records)
        assert shop.queried() == shop.rows == {}
        assert shop.end == 40 * 20
    # What has come and gone within three times the retention.
    assert max(records["bounded"]) <= 6 * 20
    assert records["grows"][-1] >= 40 * 10


def test_deletions_stay_until_their_time_has_come_and_their_store_has_applied_them(shop: Shop) -> None:
    shop.epoch(*((key, key) for key in range(10)))
    shop.epoch(*((key, None) for key in range(5)))  # the store stands at 10
    shop.clean()
    assert shop.records == 10
    assert shop.segments[0].deletions == Deletions(0, 10, shop.now)
    shop.clean(2 * KEPT_MS)
    assert shop.records == 10
    shop.epoch()  # now at 15
    shop.clean()
    shop.clean(KEPT_MS - 1)
    assert (shop.records, shop.horizon < 15) == (10, True)
    shop.clean(1)
    assert (shop.records, shop.horizon) == (5, 15)
    assert shop.queried() == shop.rows_of(shop.copy(ACTIVE)) == shop.rows


def test_store_from_which_nothing_is_deleted_is_never_restored_from_nothing(shop: Shop) -> None:
    behind = shop.copy("behind")
    for turn in range(12):
        shop.epoch(*((key, turn) for key in range(4)))
        if turn == 2:
            shop.bring(behind)
        shop.clean(2 * KEPT_MS)
    shop.bring(behind)
    assert (shop.horizon, behind.wiped) == (0, 0)


def test_few_deletions_in_a_large_segment_wait_until_it_is_written_again(shop: Shop) -> None:
    shop.epoch(*((key, key) for key in range(100)))
    shop.epoch((0, None))
    shop.epoch()
    shop.clean()
    before = shop.state.number
    shop.clean(5 * KEPT_MS)
    assert (shop.state.number, shop.records) == (before, 100)
    for turn in range(2):
        shop.epoch(*((key, -turn) for key in range(1, 100)))
    shop.clean()
    assert (shop.horizon, shop.records) == (101, 99)


@pytest.mark.parametrize("position", range(1, 17))
def test_copy_comes_back_at_any_position_with_the_rows_that_there_are(shop: Shop, position: int) -> None:
    copy = shop.copy("behind")
    shop.epoch(*((key, key) for key in range(10)))
    shop.epoch(*((key, None) for key in range(5)))
    shop.epoch((20, 20))
    shop.ask("restore", copy, shop.plan(copy, position))
    assert copy.position == position
    shop.epoch()
    shop.clean()
    shop.clean(KEPT_MS)
    assert (shop.horizon, shop.records) == (16, 6)
    assert shop.queried() == shop.rows
    shop.bring(copy)
    assert (shop.rows_of(copy), copy.wiped) == (shop.rows, int(position < 16))


def test_restore_goes_on_over_several_requests_unless_other_deletions_were_dropped_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = dropped(shop).copy("new")
    for _ in range(3):
        shop.ask("restore", copy, shop.plan(copy, 3))
    assert (copy.position, copy.wiped) == (9, 0)
    with monkeypatch.context() as patched:
        # What was noted before the machine was started again may be about another store.
        patched.setattr(horizon, "boot_id", lambda: "another boot")
        shop.ask("restore", copy, shop.plan(copy, 3))
        assert (copy.position, copy.wiped) == (0, 1)
    for _ in range(3):
        shop.ask("restore", copy, shop.plan(copy, 3))
    shop.epoch((9, None))
    shop.epoch()
    shop.clean()
    shop.clean(KEPT_MS)
    shop.clean(KEPT_MS)
    assert shop.horizon > 15
    told = shop.ask("restore", copy, shop.plan(copy, 3))
    assert (told.position, told.outdated, told.horizon) == (0, 9, shop.horizon)
    shop.bring(copy)
    assert (shop.rows_of(copy), copy.wiped) == (shop.rows, 2)


def test_snapshot_that_may_have_rows_that_are_deleted_is_not_used(shop: Shop) -> None:
    shop.epoch(*((key, key) for key in range(10)))
    shop.epoch()
    shop.save(shop.copy(ACTIVE))
    copy = shop.copy("new")
    shop.epoch(*((key, None) for key in range(5)))
    shop.epoch((20, 20))
    shop.epoch()
    shop.clean()
    shop.clean(KEPT_MS)
    shop.take(copy)
    assert copy.position == 0
    shop.save(shop.copy(ACTIVE))
    shop.take(copy)
    assert copy.position == shop.end
    assert shop.rows_of(copy) == shop.rows


def test_versions_before_refuse_a_log_whose_deletions_are_dropped(shop: Shop) -> None:
    shop.epoch((1, 1))
    shop.epoch((1, None))
    shop.epoch()
    shop.clean()
    assert formats(shop) == 3
    shop.clean(KEPT_MS)
    assert (shop.horizon, formats(shop)) == (2, 5)
    folded = shop.state.snapshot()
    assert json.loads(folded)["format"] == 5
    loaded = LogState.load(shop.log.commits(shop.state.application))
    assert loaded.segments() == shop.state.segments()


def formats(shop: Shop) -> int:
    """The format of the last commit."""
    data = shop.state.commits.read(shop.state.number)
    assert data is not None
    return int(json.loads(data)["format"])


def test_repair_of_the_first_segment_keeps_what_it_says_of_deletions(shop: Shop) -> None:
    dropped(shop)
    first = shop.log_file(shop.segments[0].path)
    whole = first.read_bytes()
    first.write_bytes(whole[:-100] + b"x" * 100)
    for each in plan_repair(shop.log):
        repair(shop.log, each)
    shop.load()
    assert (shop.horizon, shop.segments[0].rows) == (15, 0)
    assert LogState.load(shop.log.commits(shop.state.application)).horizon(*LANE) == 15


def test_clean_segments_that_nobody_has_counted_deletions_in_lose_them_too(shop: Shop) -> None:
    """The version before has compacted without counting."""
    for turn in range(2):
        shop.epoch(*((key, None if key < 5 else turn) for key in range(10)))
    shop.clean()
    of_before = [replace(each, tombstones=None, deletions=Deletions()) for each in shop.segments]
    shop.committer.rewrite(of_before, 0)
    shop.epoch(*((key, 3) for key in range(8, 12)))
    for _ in range(4):
        shop.epoch(*((key, 4) for key in range(8, 12)))
        shop.clean(KEPT_MS)
    assert shop.horizon >= 20
    assert shop.records <= 8 + 4
    copy = shop.copy("new")
    shop.bring(copy)
    assert shop.rows_of(copy) == shop.rows


def test_note_of_a_store_goes_with_the_store(shop: Shop) -> None:
    copy = dropped(shop).copy("new")
    shop.ask("restore", copy, shop.plan(copy, 3))
    folder = StateDirectory(shop.root / "state", "new", "p-t").path / STORE.name
    assert {path.name for path in folder.iterdir()} == {"0", ".0.commit", ".0.horizon"}
    (folder / ".0.horizon.99999999").write_text("half")
    StateDirectory(shop.root / "state", "new", "p-t").remove_abandoned()
    shop.ask("wipe", copy, shop.plan(copy))
    assert list(folder.iterdir()) == []
    assert shop.state.horizon(TOPIC, 0, 1) == 0
