"""`headwater test`, and what `build` makes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from jsonschema import Draft7Validator

TABLE = Path(__file__).parent / "failing.txt"
SCHEMA = Draft7Validator(json.loads((Path(__file__).parents[3] / "schemas" / "test_results.json").read_text("utf-8")))

FAILING = """\
tests:
  - test: nothing is as expected
    topology: sales
    given:
      - topic: orders
        rows:
          - {order_id: 1, product: tea, quantity: 2, price: 4.5, ordered_at: "2024-05-01T08:00:00Z"}
          - {order_id: 2, product: mug, quantity: 1, price: 9.9, ordered_at: "2024-05-01T09:00:00Z"}
      - topic: orders
        rows:
          - {order_id: 3, product: tea, quantity: 1, price: 4.5, ordered_at: "2024-05-02T08:00:00Z"}
          - {order_id: 4, product: mug, quantity: 1, price: 4.5, ordered_at: "2024-05-01T08:00:00Z"}
    expect:
      - topic: daily_sales
        rows:
          # tea is what the shop lives from
          - {product: tea, window_start: "2024-05-01T00:00:00Z", orders: 2, revenue: 9.0}   # by hand
          - {product: tea, window_start: "2024-05-02T00:00:00Z", orders: 1, revenue: 4.5}
          - {product: cup, orders: 1}
      - store: sales_by_day
        contains: true
        rows:
          - {product: mug, revenue: 10.0}
      - dropped:
          late: 7
"""


@pytest.fixture
def failing(shop: Path) -> Path:
    path = shop / "tests" / "sales.yml"
    path.write_text(FAILING)
    return path


Run = Callable[..., Result]


def test_scaffold_passes_without_spark(headwater: Run) -> None:
    result = headwater("test")

    assert result.exit_code == 0
    assert result.stdout.startswith("passed  the orders of a day add up, for each product  ")
    assert "\n1 passed in " in result.stdout
    assert "Spark" not in result.stdout


def test_cases_of_folders_and_of_files_in_capitals_are_run_and_named_by_them(headwater: Run, shop: Path) -> None:
    first = (shop / "tests" / "sales.yml").read_text()
    (shop / "tests" / "deep" / "er").mkdir(parents=True)
    (shop / "tests" / "deep" / "er" / "a.yml").write_text(first.replace("add up", "add up below"))
    (shop / "tests" / "B.YML").write_text(first.replace("add up", "add up in capitals"))
    (shop / "tests" / "c.json").write_text("{}")

    every, one = headwater("test"), headwater("test", "er/a.yml")

    assert [result.exit_code for result in (every, one)] == [0, 0], every.output
    assert "\n3 passed in " in every.stdout
    assert "add up below" in one.stdout
    assert "\n1 passed in " in one.stdout
    assert "tests/c.json:1:1: warning HW037: Nothing reads this file." in every.stderr


def test_variable_that_nothing_uses_is_warned_of(headwater: Run) -> None:
    result = headwater("test", "--vars", "{smalest_order: 1}")

    assert result.exit_code == 0
    assert "--vars: warning HW035: No file of the project uses the variable 'smalest_order'." in result.stderr


def test_failing_case_shows_what_was_expected_and_found(headwater: Run, failing: Path, update_golden: bool) -> None:
    result = headwater("test")

    printed = "".join(result.stdout.splitlines(keepends=True)[:-1])  # the last line has the time
    if update_golden:
        TABLE.write_text(printed)
    assert result.exit_code == 1
    assert printed == TABLE.read_text()
    assert "1 failed, 0 passed in" in result.stdout


def test_failing_rows_are_annotated_at_their_lines(headwater: Run, failing: Path) -> None:
    result = headwater("test", "--format", "github")

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert [line.partition("line=")[2].partition(",")[0] for line in lines] == ["17", "19", "14", "23", "24"]
    assert lines[0].endswith(
        "topic daily_sales: orders is 1, not 2 in the row "
        "product: tea, window_start: 2024-05-01T00:00:00Z, revenue: 9.0"
    )
    assert lines[-1].endswith("dropped: late is 1, not 7")


def test_results_are_json_of_their_schema(headwater: Run, failing: Path) -> None:
    result = headwater("test", "--format", "json")

    found = json.loads(result.stdout)
    SCHEMA.validate(found)
    (case,) = found["tests"]
    assert (found["passed"], found["failed"], case["status"]) == (0, 1, "failed")
    assert [each["kind"] for each in case["differences"][0]["rows"]] == ["differs", "same", "missing", "unexpected"]


def test_results_are_junit_suites(headwater: Run, failing: Path) -> None:
    root = ElementTree.fromstring(headwater("test", "--format", "junit").stdout)

    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "1", "1", "0")
    (case,) = root.iter("testcase")
    assert (case.get("classname"), case.get("line")) == ("sales", "2")
    assert "revenue" in (case.findtext("failure") or "")


def test_update_writes_what_was_found_and_leaves_the_rest(headwater: Run, failing: Path) -> None:
    updated = headwater("test", "--update")
    again = headwater("test")

    text = failing.read_text()
    assert (updated.exit_code, again.exit_code) == (0, 0)
    assert "has been updated" in updated.stderr
    assert text.partition("    expect:")[0] == FAILING.partition("    expect:")[0]
    assert "          # tea is what the shop lives from\n" in text
    assert "orders: 1, revenue: 9.0}   # by hand" in text
    assert "cup" not in text
    assert text.endswith("      - dropped:\n          late: 1\n")


def test_update_of_tests_that_pass_touches_no_file(headwater: Run, shop: Path) -> None:
    path = shop / "tests" / "sales.yml"
    before = path.stat().st_mtime_ns

    assert headwater("test", "--update").exit_code == 0
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("nothing is as expected",), 1),
        (("nothing*",), 1),
        (("tests/sales.yml",), 1),
        (("sales.yml",), 1),
        (("--select", "sales"), 1),
        (("--select", "+daily_sales"), 1),
    ],
)
def test_cases_are_chosen_by_name_file_and_topology(
    headwater: Run, failing: Path, words: tuple[str, ...], names: int
) -> None:
    assert len(json.loads(headwater("test", "--format", "json", *words).stdout)["tests"]) == names


def test_unknown_name_is_wrong_use(headwater: Run, failing: Path) -> None:
    result = headwater("test", "nothing is as expectd")

    assert result.exit_code == 2
    assert "the project has no test 'nothing is as expectd'" in result.stderr
    assert "Did you mean 'nothing is as expected'?" in result.stderr


def test_project_without_tests_says_so(headwater: Run, shop: Path) -> None:
    (shop / "tests" / "sales.yml").unlink()

    result = headwater("test")

    assert result.exit_code == 0
    assert result.stderr.startswith("no tests: ")
    assert result.stdout == ""


def test_column_that_was_renamed_is_told_at_the_row_with_its_old_name(headwater: Run, shop: Path) -> None:
    for file in ("topics/orders.yml", "topologies/sales.yml"):
        path = shop / file
        path.write_text(path.read_text().replace("revenue:", "takings:"))

    result, annotated = headwater("test"), headwater("test", "--format", "github")

    assert (result.exit_code, annotated.exit_code) == (1, 1)
    assert "tests/sales.yml:15:77: error HW802: There is no column 'revenue' in daily_sales." in result.stderr
    assert "::error file=tests/sales.yml,line=15,col=77,endColumn=84,title=HW802::" in annotated.stdout


def test_record_that_cannot_be_processed_is_an_error_of_its_case(headwater: Run, shop: Path) -> None:
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text().replace("quantity >= {{ var('smallest_order') }}", "10 div quantity > 0"))
    tests = shop / "tests" / "sales.yml"
    tests.write_text(tests.read_text().replace("quantity: 2", "quantity: 0"))

    found = json.loads(headwater("test", "--format", "json", "--vars", "{}").stdout or "{}")

    (case,) = found["tests"]
    assert case["status"] == "error"
    assert case["error"].startswith("topologies/sales.yml:14: record orders[")
    assert case["hint"] == "`on_error: skip` or `on_error: dead_letter` of the flow or the topic skips such records"
    told = headwater("test").stdout
    assert f"  hint: {case['hint']}\n" in told
    assert "headwater read" not in told  # the log of a case is gone


def test_build_stops_where_a_test_fails(headwater: Run, failing: Path, shop: Path) -> None:
    result = headwater("build")

    assert result.exit_code == 1
    assert "error: 1 test has failed: 'nothing is as expected' (tests/sales.yml:2)" in result.stderr
    assert "topic daily_sales: " in result.stdout
    assert not (shop / ".headwater").exists()


def test_case_whose_time_does_not_fit_a_topic_is_in_error_and_the_others_run(headwater: Run, shop: Path) -> None:
    text = "tests:\n"
    for name, days in (("far", 4_000_000), ("near", 4)):
        text += f"  - test: {name}\n    topology: sales\n    given:\n      - advance: {days}d\n"
        text += "      - topic: orders\n        rows: [{order_id: 1, product: tea, quantity: 2, price: 4.5}]\n"
        text += "    expect: [{dropped: {late: 0}}]\n"
    (shop / "tests" / "sales.yml").write_text(text)

    result = headwater("test", "--format", "json")

    first, second = json.loads(result.stdout)["tests"]
    assert (first["status"], second["status"]) == ("error", "passed")
    assert "a record for orders has no time, and the test's time, 345600000000000 ms" in first["error"]


def test_crash_in_a_function_is_told_with_its_line(shop: Path) -> None:
    (shop / "functions").mkdir()
    code = "import faulthandler\n\n\ndef same(quantity):\n    faulthandler._sigsegv()\n    return quantity\n"
    (shop / "functions" / "same.py").write_text(code)
    declared = "functions:\n  same:\n    udf: functions.same:same\n    arguments: {quantity: int}\n    returns: int\n"
    with (shop / "headwater.yml").open("a") as project:
        project.write(declared)
    topology = shop / "topologies" / "sales.yml"
    topology.write_text(topology.read_text().replace("filter: quantity", "filter: same(quantity)"))

    arguments = [sys.executable, "-c", "from headwater.cli.main import main; main()", "test"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert 'File "functions/same.py", line 5 in same' in done.stderr
