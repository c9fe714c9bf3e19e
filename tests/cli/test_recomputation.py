"""What commands say and do while a result is computed again, and has not taken the place of the old one yet."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path

import jsonschema
import pytest

from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.tests.cli.planned import Shop

SALES = "topologies/sales.yml"
PLAN = json.loads((Path(__file__).parents[2] / "schemas" / "plan.json").read_text())
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "tasks.json").read_text())


class Stopping:
    """An observer that stops the run after so many commits."""

    def __init__(self, after: int) -> None:
        self.stop = threading.Event()
        self._left = after

    def on(self, event: Event) -> None:
        self._left -= isinstance(event, EpochCommitted)
        if not self._left:
            self.stop.set()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = Shop.made(tmp_path_factory.mktemp("begun") / "shop")
    shop.build()
    shop.edit(SALES, "sold: sum(quantity)", "sold: sum(quantity)\n            most: max(quantity)")
    stopping = Stopping(2)
    results = shop.run(observer=stopping, stop=stopping.stop)
    assert [each.recomputation for each in results] == ["unfinished", "unfinished"]
    return shop.root


@pytest.fixture
def shop(begun: Path, tmp_path: Path) -> Shop:
    """One whose recomputation was begun."""
    return Shop(Path(shutil.copytree(begun, tmp_path / "shop", symlinks=True)))


def test_query_of_a_store_that_was_changed_and_not_run_shows_the_rows_as_they_are(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop")
    shop.build()
    before = shop.headwater("query", "totals", "--format", "json").stdout
    assert '"sold": 4' in before
    counts = "orders: count(*)\n            sold: sum(quantity)"
    shop.edit(
        SALES, counts, "sold: sum(quantity)\n            most: max(quantity)\n            orders: count(*)"
    ).judge()
    assert shop.headwater("query", "totals", "--format", "json").stdout == before
    shop.edit(SALES, "tumbling: 1d", "tumbling: 2d").edit(
        SALES, "type: window,", "type: window, backend: rocksdb,"
    ).judge()
    assert shop.headwater("query", "totals", "--format", "json").stdout == before


def test_tasks_query_and_read_say_how_far_the_new_result_is(shop: Shop) -> None:
    told = shop.headwater("tasks")
    assert told.exit_code == 0, told.output
    assert "a new result is being built: 5 of 5 records, 100 %" in told.output
    assert "; no run works on it now: `headwater run` continues it" in told.output
    found = json.loads(shop.headwater("tasks", "--format", "json").output)
    jsonschema.validate(found, SCHEMA)
    sales = next(each for each in found["applications"] if each["application"] == "shop-sales")
    assert sales["recomputation"] == {"running": False, "records": 5, "of": 5}
    for command, name in (("query", "totals"), ("read", "daily"), ("read", "best_days")):
        told = shop.headwater(command, name)
        assert (told.exit_code, "most=3" in told.stdout) == (0, False), told.output
        said = f"{name} is shown as it is so far: a new result is being built ("
        assert said in told.stderr.replace("\n", " ")
    shop.run()
    for told in (shop.headwater("tasks"), shop.headwater("query", "totals")):
        assert "a new result" not in told.output


def test_plan_says_what_a_result_that_is_computed_again_takes_and_warns_of_a_disk_without_room(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.headwater("reset", "sales+", "--yes")
    shop.run()
    shop.edit(SALES, "most: max(quantity)", "most: min(quantity)").judge()
    told = " ".join(shop.headwater("plan").output.split())
    log, state = (str(shop.root / ".headwater" / name) for name in ("log", "state"))
    assert re.search(rf"take about \S+ kB in {log} and \S+ kB in {state}, in addition to the present ones", told), told
    assert "free only" not in told
    usage = shutil.disk_usage(log)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2000))
    told = " ".join(shop.headwater("plan").output.split())
    assert f"{log} has 2.0 kB free only: the run would end with a full disk" in told, told
    found = json.loads(shop.headwater("plan", "--format", "json").output)
    jsonschema.validate(found, PLAN)
    assert [(each["place"], each["free"], each["enough"]) for each in found["space"]] == [
        (log, 2000, False),
        (state, 2000, False),
    ]
    monkeypatch.undo()
    shop.run()
    assert json.loads(shop.headwater("plan", "--format", "json").output)["space"] == []


TOPICS, WANTED = "topics/topics.yml", "  wanted:\n    from: orders\n"

NEEDLESS = {
    "a comment above": (SALES, "topology: sales\n", "# How much is sold.\n\ntopology: sales\n"),
    "a description": (SALES, "topology: sales\n", "topology: sales\ndescription: of a day\n"),
    "the version of the project": ("headwater.yml", '"1.0"', '"1.1"'),
    "spaces in a step": (SALES, "quantity >= 1", "quantity   >= 1"),
    "an assignor": (SALES, "topology: sales\n", "topology: sales\nassignment: {assignor: sticky}\n"),
    "a backend": (SALES, "type: window,", "type: window, backend: rocksdb,"),
    "the cleanup of a changelog": (SALES, "retention: 30d", "retention: 30d, changelog: {cleanup: compact}"),
    "the retention of a topic": (TOPICS, "  orders:\n", "  orders:\n    retention: 10000d\n"),
    "a topic that nobody reads": (TOPICS, "  returns:\n", "  more: {partitions: 1, value: {x: int}}\n  returns:\n"),
    "a column of a topic that is fed from outside": (TOPICS, "quantity: int, price", "quantity: int, gift: int, price"),
}
"""What decides no result."""

NEEDED = {
    "a step": (SALES, "quantity >= 1", "quantity >= 2"),
    "an aggregate": (SALES, "most: max(quantity)", "most: min(quantity)"),
    "emit": (SALES, "          store: totals\n", "          store: totals\n          emit: each_update\n"),
    "on_error of a flow": (SALES, WANTED, f"{WANTED}    on_error: skip\n"),
    "on_error of a topic": (TOPICS, "  orders:\n", "  orders:\n    on_error: skip\n"),
    "the retention of a store": (SALES, "retention: 30d", "retention: 40d"),
    "grace": (SALES, "grace: 1h", "grace: 2h"),
    "a flow more": (SALES, "flows:\n", "flows:\n  more: {from: orders, to: copied}\n"),
    "where it begins": (SALES, WANTED, f'{WANTED}    start: "2024-05-01T00:00:00Z"\n'),
}
"""What decides the result."""


def places_computed(shop: Shop) -> dict[str, str]:
    """Where results are computed now, as a run finds it that is stopped before it computes anything."""
    stop = threading.Event()
    stop.set()
    shop.run(stop=stop)
    return {name: each.place for name, each in shop.project().log().places().recomputed.items()}


@pytest.mark.parametrize(
    ("edit", "goes_on"),
    [*((edit, True) for edit in NEEDLESS.values()), *((edit, False) for edit in NEEDED.values())],
    ids=[*NEEDLESS, *NEEDED],
)
def test_result_that_is_half_computed_begins_again_only_after_a_change_that_decides_it(
    shop: Shop, edit: tuple[str, str, str], goes_on: bool
) -> None:
    so_far = {"shop-sales": "shop-sales~2", "shop-best": "shop-best~2"}
    assert places_computed(shop) == so_far
    shop.edit(*edit)
    begun = places_computed(shop)
    assert begun == (so_far if goes_on else {"shop-sales": "shop-sales~3", "shop-best": "shop-best~3"})
    shop.run()
    assert shop.project().log().places().names == begun
    if goes_on:
        told = shop.headwater("query", "totals", "--format", "json").stdout
        assert sorted(re.findall(r'"most": (\d+)', told)) == sorted(re.findall(r'"sold": (\d+)', told)) == [*"1234"]


def test_clean_removes_stores_beside_too_and_the_next_run_restores_them(shop: Shop) -> None:
    state = shop.root / ".headwater" / "state"
    assert list((state / "~beside").glob("*/shop-sales"))
    cleaned = shop.headwater("clean", "--state", "--yes")
    assert cleaned.exit_code == 0, cleaned.output
    assert "~beside" in cleaned.output
    assert not list((state / "~beside").glob("*/*"))
    results = shop.run()
    assert [(each.status, each.recomputation) for each in results] == [("caught_up", "switched")] * 2
    assert '"most": 4' in shop.headwater("query", "totals", "--format", "json").stdout


def test_reset_forgets_what_is_computed_again_with_its_stores(shop: Shop) -> None:
    told = shop.headwater("reset", "sales+", "--yes")
    assert told.exit_code == 0, told.output
    assert not list((shop.root / ".headwater" / "state").rglob(".process.json"))
    assert "a new result" not in shop.headwater("tasks").output
    results = shop.run()
    assert [(each.status, each.recomputation) for each in results] == [("caught_up", None)] * 2


@pytest.mark.parametrize("by", ["remove", "run"])
def test_topology_that_was_removed_while_it_was_computed_again_leaves_nothing_beside(shop: Shop, by: str) -> None:
    (shop.root / "topologies" / "best.yml").unlink()
    log = shop.project().log()
    assert sorted(log.places().recomputed) == ["shop-best", "shop-sales"]
    if by == "remove":
        removed = shop.headwater("remove", "shop-best", "--yes")
        assert removed.exit_code == 0, removed.output
        assert list(log.places().recomputed) == ["shop-sales"]
        (sales,) = shop.run()
        assert (sales.status, sales.recomputation) == ("caught_up", "switched")
    else:
        (sales,) = shop.run()
        assert (sales.status, sales.recomputation) == ("failed", None)
        assert "headwater remove shop-best" in str(sales.error)
        assert list(log.places().recomputed) == ["shop-sales"]  # which goes on once the reader is removed


def test_log_that_is_copied_verified_and_repaired_meanwhile_goes_on_as_the_first_one(
    shop: Shop, tmp_path: Path
) -> None:
    for command in (("verify",), ("repair", "--dry-run"), ("copy", str(tmp_path / "copied")), ("ls",)):
        told = shop.headwater("log", *command)
        assert told.exit_code == 0, told.output
    shop.run()
    expected = shop.headwater("query", "totals", "--format", "json").stdout
    other = Shop(Path(shutil.copytree(shop.root, tmp_path / "other", ignore=shutil.ignore_patterns(".headwater"))))
    (other.root / ".headwater").mkdir()
    shutil.copytree(tmp_path / "copied", other.root / ".headwater" / "log")
    results = other.run()
    assert [(each.status, each.recomputation) for each in results] == [("caught_up", "switched")] * 2
    assert other.headwater("query", "totals", "--format", "json").stdout == expected
    assert other.headwater("log", "verify").exit_code == 0
