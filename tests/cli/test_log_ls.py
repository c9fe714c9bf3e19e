"""`headwater log ls`: what it says of a log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import jsonschema
import pyarrow as pa
from click.testing import CliRunner, Result

from headwater import Project
from headwater.cli.main import main
from headwater.cli.printing.tables import size_text
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import changelog_topic

Headwater = Callable[..., Result]
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "log_contents.json").read_text())


def words(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_log_without_commits_says_so(headwater: Headwater) -> None:
    result = headwater("log", "ls")
    assert (result.exit_code, result.stdout) == (0, "nothing was committed to the log yet\n")
    assert headwater("log", "repair", "--dry-run").stdout == result.stdout


def test_seeded_log_shows_its_application_and_topic(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    (seed,) = Project(shop).log_contents()

    applications, topics, times = headwater("log", "ls").stdout.split("\n\n")

    assert applications.splitlines()[1].split()[:2] == ["shop-seed", "1"]
    assert topics.splitlines()[1].split()[:4] == ["orders", "2", "10", "2"]
    assert times.splitlines()[1].split() == ["orders", "2024-05-01T08:02:11Z", "2024-05-03T06:30:00Z"]
    (file,) = (shop / ".headwater" / "log" / "segments").rglob("*.seg")
    assert 0 <= file.stat().st_size - seed.size < 16  # the mark at the end of an Arrow file is listed by no commit
    assert (seed.size, seed.files, seed.records) == (seed.topics[0].size, 1, 10)


def test_topics_that_are_named_show_each_partition_with_its_offsets(headwater: Headwater) -> None:
    headwater("seed")
    title, head, *rows = words(headwater("log", "ls", "orders"))
    assert (title, head[:4]) == (["orders,", "of", "shop-seed"], ["partition", "records", "from", "to"])
    assert [row[:4] for row in rows] == [["0", "5", "0", "5"], ["1", "5", "0", "5"]]


def write_changelog(project: Project, application: str) -> None:
    """Gives an application a changelog with a record, as a run of it would."""
    log = project.log()
    state = LogState.load(log.commits(application))
    state.commit(GenerationRecord(1, 0, TopologyDescription(incarnation="i")))
    table = pa.table({"key": [b"k"], "value": [b"v"], "_timestamp": [0]})
    written = log.write(application, changelog_topic(application, "sales_by_day"), "x", table, 0, 0)
    state.commit(EpochRecord(1, 0, 0, (TaskCommit("sales", 0, {}, 0, segments=written),), "i"))


def test_topic_or_store_without_records_is_told_apart_from_one_that_the_project_does_not_have(
    headwater: Headwater, shop: Path
) -> None:
    headwater("seed")
    for name, kind in (("daily_sales", "topic"), ("sales_by_day", "store"), ("sales.sales_by_day", "store")):
        result = headwater("log", "ls", name)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: nothing was written to the {kind} {name!r} yet\n")
    assert "did you mean 'sales_by_day'?" in headwater("log", "ls", "sale_by_day").stderr

    write_changelog(Project(shop), "shop-sales")
    listed = headwater("log", "ls", "sales_by_day").stdout
    assert listed.startswith("shop-sales-sales_by_day-changelog, of shop-sales\n")


def test_commits_that_are_gone_although_the_log_names_their_application_are_an_error(
    headwater: Headwater, shop: Path
) -> None:
    headwater("seed")
    rmtree(shop / ".headwater" / "log" / "commits" / "shop-seed")
    result = headwater("log", "ls")
    assert (result.exit_code, words(result)[1]) == (1, ["shop-seed", "unreadable"])
    assert "the commits of shop-seed are missing" in result.stderr


def on(record: dict[str, Any], day: str) -> dict[str, Any]:
    """The record as it can be appended, of another day."""
    return {"key": record["key"], "value": {**record["value"], "ordered_at": day}}


def test_records_that_wait_for_a_topology_are_listed_until_it_is_not_in_the_project(
    headwater: Headwater, shop: Path
) -> None:
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("    partitions: 2\n", "    partitions: 2\n    retention: 1d\n"))
    headwater("seed")
    record = json.loads(headwater("read", "orders", "--format", "json", "--limit", "1").stdout)
    for day in ("2024-06-01T00:00:00Z", "2024-06-08T00:00:00Z"):
        assert headwater("seed", "orders", "--append", stdin=json.dumps(on(record, day))).exit_code == 0

    listed = headwater("log", "ls", "orders")
    (shown,) = json.loads(headwater("log", "ls", "--format", "json").stdout)["applications"]
    (held,) = shown["held_back"]

    assert held["reader"] == "shop-sales"
    assert held["since"] is None
    assert listed.stdout.splitlines()[-1].split() == ["orders", str(held["records"]), "shop-sales", "never"]
    assert "headwater remove" in listed.stderr
    told = headwater("log", "clean").stderr
    assert f"{held['records']} records of orders cannot be removed: shop-sales has still to read them" in told
    (shop / "topologies" / "sales.yml").unlink()
    assert "wait for" not in headwater("log", "ls").stdout


def test_unknown_topic_is_wrong_use_and_told_what_may_be_meant(headwater: Headwater) -> None:
    headwater("seed")
    result = headwater("log", "ls", "oders")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: the log has no topic 'oders'\n  hint: did you mean 'orders'?\n",
    )


def test_json_has_the_published_form(headwater: Headwater) -> None:
    for _ in range(2):
        shown = json.loads(headwater("log", "ls", "--format", "json").stdout)
        jsonschema.validate(shown, SCHEMA)
        headwater("seed")
    (application,) = shown["applications"]
    assert [part["end"] for part in application["topics"][0]["partitions"]] == [5, 5]


def test_commits_that_cannot_be_read_are_told_and_all_else_is_shown(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    commits = shop / ".headwater" / "log" / "commits"
    (commits / "shop-sales").mkdir()
    (commits / "shop-sales" / "000000000001.json").write_text("{")

    result = headwater("log", "ls")

    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"error: commit 1 of shop-sales is damaged: {commits}/shop-sales/000000000001.json\n  hint: "
    )
    assert [row[:2] for row in words(result)[1:3]] == [["shop-sales", "unreadable"], ["shop-seed", "1"]]
    assert ["orders", "2", "10"] in [row[:3] for row in words(result)]
    jsonschema.validate(json.loads(headwater("log", "ls", "--format", "json").stdout), SCHEMA)


def test_options_of_the_project_may_stand_before_any_of_the_words(shop: Path) -> None:
    where = ["--project-dir", str(shop)]
    orders = (["log", "ls", *where], ["log", *where, "ls"], [*where, "log", "ls"])
    assert {CliRunner().invoke(main, order).stdout for order in orders} == {"nothing was committed to the log yet\n"}
    refused = CliRunner().invoke(main, [*where, "-s", "sales", "log", "ls"])
    assert refused.exit_code == 2
    assert "error: The command 'ls' has no option '--select'." in refused.stderr


def test_unknown_command_of_the_log_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(main, ["log", "frobnicate"])
    assert result.exit_code == 2
    assert "There is no command 'frobnicate'; `headwater log --help` lists the commands." in result.stderr


def test_sizes_have_two_digits_at_least() -> None:
    sizes = (0, 999, 1000, 9_949, 9_960, 123_456, 999_499, 999_500, 5 * 10**12, 12_345 * 10**12)
    texts = "0 B, 999 B, 1.0 kB, 9.9 kB, 10 kB, 123 kB, 999 kB, 1.0 MB, 5.0 TB, 12,345 TB"
    assert ", ".join(map(size_text, sizes)) == texts


def test_commands_of_the_log_are_listed_with_their_whole_summaries_and_without_an_option_that_none_takes() -> None:
    shown = CliRunner().invoke(main, ["log", "--help"], terminal_width=80).stdout
    assert "--select" not in shown
    assert "..." not in shown.partition("Commands:")[2]
