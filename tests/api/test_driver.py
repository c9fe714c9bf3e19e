"""`TopologyTestDriver` and `Project.test`, on the scaffold, without Java."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater import (
    HeadwaterError,
    InvalidProjectError,
    Project,
    TestsFailedError,
    TopologyTestDriver,
    UnknownNameError,
)
from headwater.api.topology_test_driver import UnfitRecordsError
from headwater.cli.commands.init import command as init
from headwater.runtime.log import state
from headwater.runtime.testing import driven

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)
TEA = {"order_id": 1, "product": "tea", "quantity": 2, "price": 4.5}
DAY = "2024-05-01T08:00:00Z"
DAY_MS = 1_714_521_600_000


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
    return root


@pytest.fixture
def sales(shop: Path) -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(shop, "sales") as driver:
        yield driver


def test_output_is_read_from_where_it_was_read_last(sales: TopologyTestDriver) -> None:
    sales.pipe_input("orders", [{**TEA, "ordered_at": DAY}])
    first = sales.read_output("daily_sales")
    sales.pipe_input("orders", [{**TEA, "ordered_at": DAY}])

    assert [record.value for record in first] == [{"orders": 1, "revenue": 9.0}]
    assert [record.value for record in sales.read_output("daily_sales")] == [{"orders": 2, "revenue": 18.0}]
    assert sales.read_output("daily_sales") == []
    assert [row.key for row in sales.query("sales_by_day")] == [
        {"product": "tea", "window_start": DAY_MS, "window_end": DAY_MS + 86_400_000}
    ]


def test_commits_that_have_been_read_are_not_read_again(
    sales: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, read = state.decode_commit, []

    def decoded(data: bytes) -> Any:
        read.append(data)
        return decode(data)

    sales.pipe_input("orders", [{**TEA, "ordered_at": DAY}])
    first = sales.read_output("daily_sales")
    monkeypatch.setattr(state, "decode_commit", decoded)

    assert (len(first), sales.read_output("daily_sales"), read) == (1, [], [])


def test_time_goes_on_with_records_and_by_advance(sales: TopologyTestDriver) -> None:
    times = [sales.time]
    sales.pipe_input("orders", [{**TEA, "ordered_at": DAY}])
    times.append(sales.time)
    sales.advance("90m")
    times.append(sales.time)
    sales.pipe_input("orders", [TEA, {**TEA, "ordered_at": "2024-04-01T00:00:00Z"}])
    times.append(sales.time)

    assert times == [0, DAY_MS + 8 * 3_600_000, DAY_MS + 9.5 * 3_600_000, DAY_MS + 9.5 * 3_600_000]
    assert sales.dropped == {"late": 1}


@pytest.mark.parametrize(
    "records",
    [
        [{"key": {"order_id": 1}, "value": {"product": "tea", "quantity": 2, "price": 4.5}, "timestamp": DAY_MS}],
        [{**TEA, "timestamp": DAY, "partition": 1}],
        pa.Table.from_pylist([{**TEA, "ordered_at": DAY}]),
    ],
    ids=["record form", "row with its time", "table"],
)
def test_records_come_in_every_form_that_append_takes(sales: TopologyTestDriver, records: Any) -> None:
    sales.pipe_input("orders", records)

    (record,) = sales.read_output("daily_sales")
    assert (record.key["window_start"], record.value["revenue"]) == (DAY_MS, 9.0)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([TEA, {**TEA, "prize": 1}], "row 2 for orders: there is no column 'prize' in orders (Did you mean 'price'?)"),
        ([{**TEA, "quantity": "two"}], "row 1 for orders: quantity: 'two' is no int"),
        ([{"key": {"order_id": 1}}], "row 1 for orders: the value is missing (null deletes)"),
    ],
)
def test_row_that_does_not_fit_is_refused_and_the_driver_goes_on(
    sales: TopologyTestDriver, records: Any, message: str
) -> None:
    with pytest.raises(UnfitRecordsError) as refused:
        sales.pipe_input("orders", records)
    sales.pipe_input("orders", [TEA])

    assert str(refused.value) == message
    assert len(sales.read_output("daily_sales")) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            lambda sales: sales.pipe_input("order", []),
            "the project has no input topic 'order' (Did you mean 'orders'?)",
        ),
        (lambda sales: sales.pipe_input("daily_sales", []), "no input topic 'daily_sales' (sales reads orders)"),
        (lambda sales: sales.read_output("orders"), "no output topic 'orders' (sales writes daily_sales)"),
        (lambda sales: sales.query("sales_by_dya"), "no store 'sales_by_dya' (Did you mean 'sales_by_day'?)"),
        (lambda sales: sales.advance("an hour"), "duration must be a duration such as '2h', not 'an hour'"),
    ],
)
def test_name_that_the_topology_does_not_have_is_told(sales: TopologyTestDriver, asked: Any, message: str) -> None:
    with pytest.raises(HeadwaterError) as refused:
        asked(sales)

    assert message in str(refused.value)


def test_unknown_topology_is_told(shop: Path) -> None:
    with pytest.raises(UnknownNameError, match=re.escape("no topology 'sale' (Did you mean 'sales'?)")):
        TopologyTestDriver(shop, "sale")


def test_project_with_errors_is_told(shop: Path) -> None:
    (shop / "topics" / "orders.yml").write_text("topics: 3\n")

    with pytest.raises(InvalidProjectError):
        TopologyTestDriver(shop, "sales")


def test_close_leaves_nothing_behind(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(driven, "memory_folder", lambda: place)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    before = sorted(shop.rglob("*"))

    with TopologyTestDriver(shop, "sales") as driver:
        driver.pipe_input("orders", [TEA])
        assert list(place.iterdir())

    assert list(place.iterdir()) == []
    assert sorted(shop.rglob("*")) == before


def test_driver_that_nobody_closes_leaves_nothing_behind(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driven, "memory_folder", lambda: tmp_path / "place")
    (tmp_path / "place").mkdir()

    driver = TopologyTestDriver(shop, "sales")
    assert list((tmp_path / "place").iterdir())
    del driver
    gc.collect()

    assert list((tmp_path / "place").iterdir()) == []


def test_driver_that_cannot_be_made_leaves_nothing_behind(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driven, "memory_folder", lambda: tmp_path / "place")
    (tmp_path / "place").mkdir()

    def refuse(_: object) -> None:
        raise HeadwaterError("no log")

    monkeypatch.setattr(driven, "log_of", refuse)
    with pytest.raises(HeadwaterError, match="no log") as failed:
        TopologyTestDriver(shop, "sales")
    del failed
    gc.collect()

    assert list((tmp_path / "place").iterdir()) == []


def test_failed_tests_are_raised_with_their_results(shop: Path) -> None:
    path = shop / "tests" / "sales.yml"
    path.write_text(path.read_text().replace("revenue: 13.5", "revenue: 13.6"))
    told: list[str] = []

    with pytest.raises(TestsFailedError) as failed:
        Project(shop).test(progress=lambda case: told.append(case.status)).check()

    (case,) = failed.value.results.failed
    (difference,) = case.differences
    assert told == ["failed"]
    assert [(each.line, each.row.differing) for each in difference.wrong] == [(15, ("revenue",))]
    with pytest.raises(TestsFailedError):
        Project(shop).build()
    assert not (shop / ".headwater").exists()


def test_topology_that_reads_what_another_writes_is_given_it(shop: Path) -> None:
    (shop / "topologies" / "best.yml").write_text(
        "topology: best\nflows: {best: {from: daily_sales, steps: [{drop: [orders]}], to: best_days}}\n"
    )
    record = {"product": "tea", "window_start": "2024-05-01T00:00:00Z", "window_end": "2024-05-02T00:00:00Z"}

    with TopologyTestDriver(shop, "best") as driver:
        driver.pipe_input("daily_sales", [{**record, "orders": 2, "revenue": 9.0}, {**record, "value": None}])

        found = [(each.key["window_start"], each.value) for each in driver.read_output("best_days")]

    assert found == [(DAY_MS, {"revenue": 9.0}), (DAY_MS, None)]


def test_case_of_the_page_passes(tmp_path: Path) -> None:
    project = tmp_path / "flights"
    skipped = shutil.ignore_patterns("tests", "target", ".*")
    shutil.copytree(ROOT / "projects" / "flights", project, ignore=skipped)
    ((path, text),) = re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    (project / "tests").mkdir()
    (project / path).write_text(text)

    results = Project(project).test()

    results.check()
    assert len(results.cases) == 1


def test_examples_of_the_page_hold(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code, expected), (tests, _) = EXAMPLES
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "testing.md", "exec"), {})
    (tmp_path / "test_page.py").write_text(tests)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"], capture_output=True, text=True
    )

    assert printed.getvalue() == expected
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout
