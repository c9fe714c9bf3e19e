"""seed, seed --append, read: records in and out, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from headwater import Project
from headwater.tests.cli.terminal import on_terminal

Headwater = Callable[..., Result]


def records(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_seed_fills_the_topic_once(headwater: Headwater) -> None:
    assert headwater("seed").stdout.splitlines()[1].split() == ["orders", "10", "seeded"]
    assert headwater("seed").stdout.splitlines()[1].split() == ["orders", "0", "unchanged"]


def test_changed_seed_is_an_error_that_names_full_refresh(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    with (shop / "seeds" / "orders.csv").open("a") as file:
        file.write("11,tea,1,4.5,2024-05-04T08:00:00Z\n")

    refused = headwater("seed")
    assert refused.exit_code == 1
    assert "--full-refresh" in refused.stderr
    assert headwater("seed", "--full-refresh").stdout.splitlines()[1].split() == ["orders", "11", "replaced"]
    assert len(records(headwater("read", "orders", "--format", "json"))) == 11


def test_full_refresh_keeps_what_was_appended_unless_that_is_to_be_dropped(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    line = records(headwater("read", "orders", "--format", "json"))[0]
    line = {**line, "timestamp": 5, "headers": {"from": "test"}, "key": {"order_id": 77}}
    headwater("seed", "orders", "--append", stdin=json.dumps(line))

    seeded = headwater("seed", "--full-refresh")
    assert seeded.stderr == (
        "topic orders starts again with its seed: in place of 10 records of before; it keeps 1 appended record, "
        "behind it\n"
    )
    kept = seeded.stdout.splitlines()[1].split()
    assert kept == ["orders", "10", "replaced;", "1", "appended", "record", "kept"]
    found = records(headwater("read", "orders", "--format", "json"))
    (appended,) = [each for each in found if each["key"] == {"order_id": 77}]
    assert (len(found), appended["timestamp"], appended["headers"]) == (11, 5, {"from": "test"})

    assert headwater("seed", "--drop-appended").exit_code == 2
    asked = headwater("seed", "--full-refresh", "--drop-appended")  # a script has to say yes to this
    assert (asked.exit_code, "it loses 1 appended record" in asked.stderr) == (1, True)
    assert len(records(headwater("read", "orders", "--format", "json"))) == 11
    dropped = headwater("seed", "--full-refresh", "--drop-appended", "--yes").stdout.splitlines()[1].split()
    assert dropped == ["orders", "10", "replaced"]


def test_full_refresh_asks_on_a_terminal_and_a_no_changes_nothing(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    with (shop / "seeds" / "orders.csv").open("a") as file:
        file.write("11,tea,1,4.5,2024-05-04T08:00:00Z\n")
    command = [sys.executable, "-m", "headwater.cli.main", "seed", "--project-dir", str(shop), "--full-refresh"]

    shown = on_terminal(command, 100, typed="n\n")

    assert "topic orders starts again with its seed: in place of 10 records of before\n" in shown
    assert shown.endswith("Remove this for good, and start again? [y/N]: Aborted!\n")
    assert len(records(headwater("read", "orders", "--format", "json"))) == 10
    assert "replaced" in on_terminal([*command, "--yes"], 100)


def test_topic_without_a_seed_is_wrong_use(headwater: Headwater) -> None:
    result = headwater("seed", "daily_sales")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: the project has no seed for the topic 'daily_sales'\n"
        "  hint: it is written by shop-sales; topics with a seed: orders\n"
    )


def test_seed_of_an_unknown_topic_says_so(headwater: Headwater) -> None:
    for name, hint in (
        ("oders", "Did you mean 'orders'?"),
        ("zz", "`headwater ls --type topic` lists the topics"),
    ):
        result = headwater("seed", name)
        assert (result.exit_code, result.stderr) == (2, f"error: the project has no topic {name!r}\n  hint: {hint}\n")


def test_read_as_json_gives_the_record_form(headwater: Headwater) -> None:
    headwater("seed")

    first = records(headwater("read", "orders", "--format", "json", "--limit", "1"))[0]

    assert first == {
        "partition": first["partition"],
        "offset": 0,
        "timestamp": 1714550531000,
        "key": {"order_id": 1},
        "value": {"product": "tea", "quantity": 2, "price": 4.5, "ordered_at": "2024-05-01T08:02:11Z"},
        "headers": {},
    }


def test_what_read_prints_can_be_appended(headwater: Headwater) -> None:
    headwater("seed")
    printed = headwater("read", "orders", "--format", "json").stdout

    appended = headwater("seed", "orders", "--append", stdin=printed)

    assert appended.stdout == "appended 10 records to orders\n"
    found = records(headwater("read", "orders", "--format", "json"))
    assert sorted(str(each["key"]) for each in found[:]) == sorted([str({"order_id": n}) for n in range(1, 11)] * 2)


def test_append_of_what_is_no_record_names_the_line(headwater: Headwater) -> None:
    result = headwater("seed", "orders", "--append", stdin='{"value": null}\n{"value"\n')

    assert result.exit_code == 1
    assert ":2: this is not JSON" in result.stderr


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, '{"value": ' + "9" * 5_000 + "}", "NOT", '{"value": null, "value": {}}'],
    ids=["deep", "number", "word", "twice"],
)
def test_append_of_what_json_cannot_read_names_the_line(headwater: Headwater, line: str) -> None:
    result = headwater("seed", "orders", "--append", stdin=f"\n{line}\n")

    assert result.exit_code == 1
    assert ":2: this is not JSON" in result.stderr


@pytest.mark.parametrize(
    ("column", "value", "cause"),
    [
        ("price", "NaN", "nan is no double"),
        ("price", "1e999", "1E+999 is no double"),
        ("price", '"4.5"', "'4.5' is no double"),
        ("quantity", '"5"', "'5' is no int"),
        ("quantity", "NaN", "nan is no int"),
        ("product", "NaN", "nan is no string"),
    ],
)
def test_append_reads_values_as_seeds_do(headwater: Headwater, column: str, value: str, cause: str) -> None:
    line = f'{{"key": {{"order_id": 1}}, "value": {{"{column}": {value}, "ordered_at": "2024-05-04T08:00:00Z"}}}}'

    result = headwater("seed", "orders", "--append", stdin=line)

    assert result.exit_code == 1
    assert f"row 1, column value.{column}: {cause}" in result.stderr


def test_append_of_another_encoding_is_refused(headwater: Headwater, tmp_path: Path) -> None:
    file = tmp_path / "latin.jsonl"
    file.write_bytes(b"\n" + '{"value": "\u00e9"}\n'.encode("latin-1"))
    result = headwater("seed", "orders", "--append", "--file", str(file))

    assert result.exit_code == 1
    assert "error: latin.jsonl:2: this is not UTF-8" in result.stderr


@pytest.mark.parametrize("moment", ["9" * 20, "--5", "\u0663", "2024-13-01"])
def test_bound_that_is_no_time_is_wrong_use(headwater: Headwater, moment: str) -> None:
    assert headwater("query", "sales_by_day", "--from", moment).exit_code == 2


def test_append_to_a_topic_that_a_topology_writes_is_refused(headwater: Headwater) -> None:
    result = headwater("seed", "daily_sales", "--append", stdin='{"value": null}\n')

    assert result.exit_code == 1
    assert "is written by shop-sales" in result.stderr


def test_read_as_a_table_shows_keys_and_values(headwater: Headwater) -> None:
    headwater("seed")

    header, first, *_ = headwater("read", "orders").stdout.splitlines()

    assert header.split() == ["partition", "offset", "timestamp", "key", "value"]
    assert first.split()[2:6] == ["2024-05-01T08:02:11Z", "order_id=1", "product=tea", "quantity=2"]


def test_read_from_an_offset_leaves_out_what_is_before(headwater: Headwater) -> None:
    headwater("seed")

    found = records(headwater("read", "orders", "--from", "3", "--format", "json"))

    assert found
    assert all(int(str(each["offset"])) >= 3 for each in found)


def test_read_of_an_empty_topic_says_so(headwater: Headwater) -> None:
    assert headwater("read", "daily_sales").stdout == "no records\n"


def test_topic_declared_otherwise_than_its_records_is_shown_as_these_are_and_warned_of(
    headwater: Headwater, shop: Path
) -> None:
    headwater("seed")
    assert headwater("read", "orders").stderr == ""
    before = headwater("read", "orders", "--format", "json").stdout
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("order_id: bigint", "number: string", 1))

    shown = headwater("read", "orders", "--format", "json")

    assert shown.stdout == before
    assert shown.stderr == (
        "warning: orders is shown as it was declared when its records were written: "
        "key: + number string, - order_id bigint\n"
    )
    with Project(shop) as project:
        assert project.declared_otherwise("orders") == "key: + number string, - order_id bigint"
        assert project.declared_otherwise("daily_sales") is None
        assert project.read("orders").schema.field("order_id").type == "int64"


def test_store_that_is_read_and_topic_that_is_queried_are_told_with_the_right_command(headwater: Headwater) -> None:
    read, query = headwater("read", "sales_by_day"), headwater("query", "orders")

    assert (read.exit_code, query.exit_code) == (2, 2)
    assert read.stderr == (
        "error: the project has no topic 'sales_by_day'\n"
        "  hint: it is a store: `headwater query sales_by_day` shows it\n"
    )
    assert query.stderr == (
        "error: the project has no store 'orders'\n  hint: it is a topic: `headwater read orders` shows it\n"
    )


def test_read_of_an_unknown_topic_is_wrong_use(headwater: Headwater) -> None:
    result = headwater("read", "oders")

    assert result.exit_code == 2
    assert "Did you mean 'orders'?" in result.stderr


def test_query_before_any_run_has_no_rows(headwater: Headwater) -> None:
    assert headwater("query", "sales_by_day").stdout == "no rows\n"


def test_query_without_rows_says_what_the_store_has(headwater: Headwater, shop: Path, local: Any) -> None:
    Project(shop, session=local).build()
    unknown = headwater("query", "sales_by_day", "-k", "product=none")
    assert unknown.stdout == "no rows\n"
    early = headwater("query", "sales_by_day", "-k", "product=tea", "--to", "1999-01-01")
    for told in (unknown.stderr, early.stderr):
        assert "sales_by_day keeps rows for " in told
        assert "rows of all keys: " in told
    assert "rows of this key: " in early.stderr
    assert " rows, of windows that start from 2024-05-01" in early.stderr


def test_query_of_an_unknown_store_or_key_column_is_wrong_use(headwater: Headwater) -> None:
    assert headwater("query", "sales_by_dya").exit_code == 2
    assert "hint: `headwater ls --type store` lists the stores" in headwater("query", "x").stderr
    assert headwater("query", "sales_by_day", "-k", "item=tea").exit_code == 2
    assert headwater("query", "sales_by_day", "-k", "tea").exit_code == 2
    assert headwater("query", "sales_by_day", "--from", "noon").exit_code == 2


@pytest.mark.parametrize(("command", "code"), [("seed", 0), ("seed --append orders", 2)])
def test_standard_input_is_wanted_for_appending_only(shop: Path, command: str, code: int) -> None:
    line = f'"{sys.executable}" -m headwater.cli.main {command} --project-dir "{shop}" <&-'
    ended = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)


def test_limit_on_the_size_of_files_is_told(shop: Path) -> None:
    lines = "".join(f"{number},tea{number * 7919 % 10007},1,4.5,2024-05-01T08:02:11Z\n" for number in range(20_000))
    with (shop / "seeds" / "orders.csv").open("a") as file:
        file.write(lines)
    line = f'ulimit -f 50; "{sys.executable}" -m headwater.cli.main seed --project-dir "{shop}"'
    ended = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {shop.resolve()}/.headwater/log/segments/shop-seed/orders/")
    assert ended.stderr.endswith(
        ".seg: File too large\n  hint: raise the limit of a file's size (ulimit -f) and run again\n"
    )
    assert not list(shop.glob(".headwater/log/segments/**/*.seg"))


BROKEN = {
    "topologies/broken.yml": "topology: broken\nflows:\n  a:\n    from: oders\n    to: a_out\n",
    "topics/broken.yml": "topics:\n  returns:\n    partitions: many\n    value:\n      a: string\n",
    "topologies/unreadable.yml": "topology: [",
}


@pytest.fixture(params=BROKEN)
def broken(shop: Path, request: pytest.FixtureRequest) -> str:
    """A file of the shop in which there is one error, that has nothing to do with its topology."""
    (shop / request.param).write_text(BROKEN[request.param])
    return str(request.param)


def test_error_elsewhere_does_not_keep_from_reading_and_querying(headwater: Headwater, shop: Path, broken: str) -> None:
    (shop / broken).unlink()
    headwater("seed")
    (shop / broken).write_text(BROKEN[broken])

    read, queried = headwater("read", "orders", "--limit", "1", "--format", "json"), headwater("query", "sales_by_day")

    assert records(read)[0]["key"] == {"order_id": 1}
    assert (queried.exit_code, queried.stdout) == (0, "no rows\n"), queried.output
    for result in (read, queried):
        line = result.stderr.splitlines()[0]
        assert line.startswith("warning: the project has an error at ")
        assert broken in line


def test_name_that_may_be_in_a_broken_file_is_answered_with_the_errors(headwater: Headwater, broken: str) -> None:
    for result in (headwater("read", "a_out"), headwater("query", "a_store")):
        assert result.exit_code == 1
        assert f"{broken}:" in result.stderr


def test_store_of_a_topology_with_an_error_is_not_queried(headwater: Headwater, shop: Path) -> None:
    topology = shop / "topologies" / "sales.yml"
    sound = topology.read_text()
    topology.write_text(sound + "tables:\n  customers:\n    topic: customers\n")
    assert "HW301" in headwater("query", "sales_by_day").stderr

    topology.write_text(sound)
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("    partitions: 2", "    partitions: two", 1))
    assert "HW203" in headwater("query", "sales_by_day").stderr


def test_error_in_the_profile_keeps_from_reading(headwater: Headwater) -> None:
    result = headwater("read", "orders", "--target", "nope")

    assert result.exit_code == 1
    assert "--target: error HW009: There is no target 'nope'.\n  hint: Defined are: local.\n" in result.stderr


def test_file_without_append_is_wrong_use_and_seeds_nothing(headwater: Headwater, tmp_path: Path) -> None:
    day = tmp_path / "day.jsonl"
    day.write_text("{}\n")

    refused = headwater("seed", "orders", "--file", str(day))

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--file needs --append" in refused.stderr
    assert headwater("seed").stdout.splitlines()[1].split() == ["orders", "10", "seeded"]
