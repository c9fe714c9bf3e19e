"""Python functions in expressions, from a project's folder to results, in this process and on Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater import Project, TopologyTestDriver
from headwater.errors import HeadwaterError
from headwater.runtime.changes.comparison import Comparison
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.topology import ExpressionEngine, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.observe.lineage_columns import column_lineage

GOLDEN = Path(__file__).parents[1] / "golden" / "udfs" / "project"
ENGINES = ["task", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def press(tmp_path: Path) -> Path:
    """The project of the golden case."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "press", ignore=shutil.ignore_patterns("target")))


def edit(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def articles(*rows: tuple[Any, Any, Any]) -> list[dict[str, Any]]:
    return [
        {"id": number, "title": title, "words": words, "fee": fee} for number, (title, words, fee) in enumerate(rows)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_in_all_steps_give_the_same_in_tasks_and_on_spark(press: Path, engine: ExpressionEngine) -> None:
    with TopologyTestDriver(press, "articles", engine=engine) as driver:
        rows = articles(("Hello  World", 40, 10.0), ("A b", None, None), (None, 5, 1.0), ("Last One", 200, None))
        driver.pipe_input("articles", [*rows, {"key": {"id": 9}, "value": None}])
        named = {each.key["id"]: each.value for each in driver.read_output("addresses") if each.value}
        short = [(each.key and each.key["slug"], each.value) for each in driver.read_output("short_articles")]
        long = [(each.key["slug"], each.value["part"]) for each in driver.read_output("long_articles")]

    assert {key: (row["address"], row["points"], row["tax"]) for key, row in named.items()} == {
        0: ("/hello-world/hello-world", "20.40", 2.0),
        3: ("/last-one/last-one", "2.00", None),
    }
    titles = {key: row and tuple(row.values()) for key, row in short if key is not None}
    assert titles == {"hello-world": ("Hello  World", "T", "t"), "a-b": ("A b", "T", "t")}
    nulls = [None, {"title": None, "large": None, "small": None}]
    assert sorted((row for key, row in short if key is None), key=str) == nulls
    assert long == [("last-one", "last"), ("last-one", "one")]


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_in_joins_aggregates_and_tables_give_the_same_in_tasks_and_on_spark(
    press: Path, engine: ExpressionEngine
) -> None:
    names = [(1, "Ann Lee"), (2, "Nobody"), (3, None)]
    rows = [(1, " A b ", 10, 1.0), (2, "C", 20, 2.0), (1, "Dd ee", 30, None)]
    with TopologyTestDriver(press, "authors", engine=engine) as driver:
        driver.pipe_input("sections", [{"slug": "a-b", "editor": "eva"}])
        driver.pipe_input("authors", [{"id": number, "name": name} for number, name in names])
        driver.pipe_input("articles", [dict(zip(("id", "title", "words", "fee"), row, strict=True)) for row in rows])
        signed = [(each.value["signature"], each.value["editor"]) for each in driver.read_output("signed_articles")]
        points = {each.key["id"]: each.value for each in driver.read_output("points_of_articles")}
        slugs = [(each.key["id"], each.value) for each in driver.read_output("slugs_of_writers")]

    assert sorted(signed) == [("ann-lee a-b", "eva"), ("ann-lee dd-ee", None), ("nobody c", None)]
    assert points == {
        1: {"points": "1.40", "last": "dd-ee", "named": 2},
        2: {"points": "2.20", "last": "c", "named": 1},
    }
    assert slugs == [(1, {"slug": "ann-lee"})]


FAILS = """
    if shares < 0:
        raise ValueError(shares)
"""
RAISED = "functions.scores:score raised ValueError: {}\n  functions/scores.py:11, in score: raise ValueError(shares)"
FAILS_IN_TWO_WAYS = """
    if -3 < shares < 0:
        raise ValueError(shares)
    if shares < 0:
        raise ValueError(chr(0xDC80) + "\\x1b[2J" + chr(0x202E))
"""
"""The text of the second error is one that no file takes."""

TOO_LARGE = "functions.scores:score returned Decimal('2000000000.01'): 2000000000.01 is no decimal(10,2)"


@pytest.mark.parametrize("engine", ENGINES)
def test_each_record_for_which_a_function_fails_is_left_out_with_its_own_reason(
    press: Path, engine: ExpressionEngine
) -> None:
    edit(press, "functions/scores.py", "\n    return Decimal", f"{FAILS_IN_TWO_WAYS}    return Decimal")
    edit(press, "topologies/articles.yml", "  named:\n", "  named:\n    on_error: dead_letter\n")
    rows = articles(("a", 1, 1.0), ("b", 1, -1.0), ("c", 1, 1e9), ("d", 1, -2.0), ("e", 1, 2.0))
    with TopologyTestDriver(press, "articles", engine=engine) as driver:
        driver.pipe_input("articles", rows)
        kept = sorted(each.value["title"] for each in driver.read_output("addresses"))
        letters = [each.value for each in driver.read_output("articles_articles_dead_letter")]

    assert kept == ["a", "e"]
    assert {each["step"] for each in letters} == {"topologies/articles.yml:8"}
    raised, odd, too_large = sorted(each["error"] for each in letters)
    assert (raised, too_large) == (RAISED.format(-2.0), TOO_LARGE)
    assert odd.startswith("functions.scores:score raised ValueError: \\udc80\\x1b[2J\\u202e\n")


def test_record_for_which_a_function_fails_stops_its_task_and_is_named(press: Path) -> None:
    edit(press, "functions/scores.py", "\n    return Decimal", f"{FAILS}    return Decimal")
    with TopologyTestDriver(press, "articles") as driver, pytest.raises(HeadwaterError) as failed:
        driver.pipe_input("articles", articles(("a", 1, -1.0)))
    assert "topologies/articles.yml:7: record articles[" in str(failed.value)
    assert RAISED.format(-2.0) in str(failed.value)
    assert str(failed.value).count(".py:") == 1  # no line of Headwater's own


def compiled(root: Path) -> Topology:
    emitted = next(each for each in Project(root).compile().emitted if each.topology == "articles")
    return load_runner(emitted.runner).topology


@pytest.mark.parametrize(
    ("file", "old", "new", "kinds"),
    [
        ("functions/text.py", "lower()", "upper()", ["flow.code"]),
        ("headwater.yml", "functions.scores:tax", "functions.text:slug", ["flow.steps"]),
        (
            "headwater.yml",
            "{amount: double}\n    returns: double",
            "{amount: double}\n    returns: float",
            ["flow.steps"],
        ),
        ("headwater.yml", "    arrow: true\n", "", ["flow.steps"]),
        ("functions/text.py", "import re\n", "import re\n", []),
    ],
)
def test_plan_tells_what_of_a_called_function_has_changed(
    press: Path, file: str, old: str, new: str, kinds: list[str]
) -> None:
    was = compiled(press)
    edit(press, file, old, new)
    is_ = compiled(press)
    now = TopologyDescription.from_topology(is_)
    changes = Comparison.of(is_, TopologyDescription.from_topology(was), now).changes(consumed=True)
    assert sorted({change.kind for change in changes if change.subject.kind == "flow"}) == kinds


@pytest.mark.parametrize("name", ["percent", "match", "Trail", "set"])
def test_name_may_be_any_that_sql_does_not_have(press: Path, name: str) -> None:
    edit(press, "headwater.yml", "  initial:\n", f"  {name}:\n")
    edit(press, "topologies/articles.yml", "initial(", f"{name.upper()}(")
    with TopologyTestDriver(press, "articles") as driver:
        driver.pipe_input("articles", articles(("b", 1, 1.0)))
        assert [each.value["large"] for each in driver.read_output("short_articles")] == ["T"]


@pytest.mark.parametrize("name", ["sum", "explode", "rand", "interval", "and", "Slug"])
def test_name_that_means_something_else_is_refused_at_its_place(press: Path, name: str) -> None:
    again = f"  {name}: {{udf: functions.text:slug, arguments: {{title: string}}, returns: string}}\n"
    edit(press, "headwater.yml", "  initial:\n", f"{again}  initial:\n")
    found = [(each.code, each.position.file, each.position.line) for each in Project(press).parse().errors]
    assert found == [("HW421", "headwater.yml", 9)]


def test_columns_come_from_the_arguments_of_functions(press: Path) -> None:
    columns = column_lineage(compiled(press))["addresses"]
    assert columns["value.address"] == {("articles", "value.title")}
    assert columns["value.points"] == {("articles", "value.words"), ("articles", "value.fee")}
    assert columns["value.tax"] == {("articles", "value.fee")}
