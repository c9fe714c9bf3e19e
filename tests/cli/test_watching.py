"""How runs are watched by programs."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Headwater = Callable[..., Result]


@pytest.mark.parametrize("command", ["run", "build"])
def test_port_of_another_program_ends_the_command_before_it_does_anything(
    headwater: Headwater, shop: Path, command: str
) -> None:
    before = sorted(shop.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = headwater(command, "--full-refresh", "--metrics-port", str(port))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"error: metrics cannot be served on port {port} of 127.0.0.1: another program uses it",
        "  hint: choose another port; with --metrics-port 0 the system chooses a free one",
    ]
    assert sorted(shop.rglob("*")) == before


@pytest.mark.parametrize("command", ["run", "build"])
@pytest.mark.parametrize(
    ("path", "cause", "hint"),
    [
        ("nowhere/run.json", "No such file or directory", "name another file, in a folder that exists"),
        ("headwater.yml", "the file exists and is no trace; it is not overwritten", "name another file"),
    ],
)
def test_trace_that_cannot_be_written_ends_the_command_before_it_does_anything(
    headwater: Headwater, shop: Path, command: str, path: str, cause: str, hint: str
) -> None:
    before = {each: each.read_bytes() for each in shop.rglob("*") if each.is_file()}
    result = headwater(command, "--full-refresh", "--trace", str(shop / path))

    assert (result.exit_code, result.stdout) == (1, "")
    error, told = result.stderr.splitlines()
    assert error == f"error: the trace cannot be written to {shop / path}: {cause}"
    assert told.startswith(f"  hint: {hint}")
    assert {each: each.read_bytes() for each in shop.rglob("*") if each.is_file()} == before


@pytest.mark.spark
@pytest.mark.usefixtures("spark_session")
def test_trace_of_a_build_has_its_epochs_and_the_table_their_parts(
    headwater: Headwater, shop: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    result = headwater("build", "--trace", str(path), "--engine", "spark")

    assert result.exit_code == 0, result.output
    traced = [each["name"] for each in json.loads(path.read_text())["traceEvents"] if each["ph"] == "X"]
    epochs = [name for name in traced if name.startswith("epoch ")]
    assert f"the trace is in {path}, {len(epochs)} epoch" in result.stderr
    assert {"planning", "start", "read", "decode", "sql", "state", "commit", "fsync"} <= set(traced)
    table = result.stdout.partition("shop-sales: where the time of its epochs went\n")[2].splitlines()
    parts = [line.split()[0] for line in table if line and line[0] != " "]
    assert parts == ["part", "planning", "read", "sql", "operators", "state", "write", "scheduling", "commit", "all"]


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_errors_are_events_too_and_nothing_else_is_on_the_stream(headwater: Headwater) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = headwater("run", "--log-format", "json", "--metrics-port", port)

    (error,) = events(result)
    assert (result.exit_code, error["event"], error["level"]) == (1, "error", "error")
    assert error["fields"]["type"] == "PortTakenError"
    assert error["message"] in result.stderr


@pytest.mark.usefixtures("break_it")
def test_findings_of_the_compiler_are_events_with_their_places(headwater: Headwater) -> None:
    result = headwater("build", "--log-format", "json")

    assert result.exit_code == 1
    found = events(result)
    assert {each["event"] for each in found} == {"compile_started", "finding"}
    (first, *_) = [each for each in found if each["level"] == "error"]
    assert first["fields"]["file"] == "topologies/sales.yml"
    assert first["fields"]["code"].startswith("HW")
    assert first["fields"]["line"] > 0


def test_what_the_project_prints_is_no_event(headwater: Headwater, shop: Path) -> None:
    (shop / "functions").mkdir()
    (shop / "functions" / "__init__.py").touch()
    (shop / "functions" / "loud.py").write_text("def rows():\n    print('hello')\n    raise ValueError('no rows')\n")
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("path: seeds/orders.csv", "function: functions.loud:rows"))
    (shop / "seeds" / "orders.csv").unlink()  # nothing reads it any more
    result = headwater("build", "--log-format", "json")

    assert result.exit_code == 1
    assert [each["event"] for each in events(result)] == ["compile_started", "error"]
    assert "no rows" in events(result)[1]["message"]
    assert "hello\n" in result.stderr
