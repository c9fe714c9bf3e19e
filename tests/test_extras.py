"""An environment without the extras: only what needs one cannot be done, and says what to install."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from headwater.cli.main import main

WAY_OUT = "pip install 'headwater[racks]'"
RACKS = "\nassignment:\n  {assignor}rack_aware:\n    strategy: min_traffic\n"


def task(number: int, rack: str) -> dict[str, object]:
    return {
        "id": f"0_{number}",
        "stateful": False,
        "partitions": [{"topic": "t", "partition": number, "racks": [rack]}],
    }


CASE = {
    "configs": {"rack_aware_assignment_strategy": "min_traffic"},
    "clients": [{"process_id": name, "threads": 1, "rack": name} for name in "ab"],
    "tasks": [task(0, "b"), task(1, "a")],
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    CliRunner().invoke(main, ["init", "shop", "--project-dir", str(project)])
    return project


def place_by_racks(shop: Path, assignor: str = "") -> None:
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text() + RACKS.format(assignor=assignor))


WITHOUT_EXTRAS = """
import json, os, sys
sys.modules.update(dict.fromkeys(["confluent_kafka", "obstore", "openlineage", "ortools", "rocksdict"]))
from click.testing import CliRunner
from headwater.cli.main import main

for line in sys.stdin:
    arguments, given = json.loads(line)
    if not os.fork():
        done = CliRunner().invoke(main, arguments, input=given)
        print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
        os._exit(0)
    os.wait()
"""
"""A process that cannot import what is installed with the extras. It does each command in a process of its own."""

Without = Callable[..., Any]


@pytest.fixture(scope="module")
def without_extras() -> Iterator[Without]:
    """A function that does a command without the extras, and gives its exit code and what it prints."""
    program = [sys.executable, "-c", WITHOUT_EXTRAS]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def done(*arguments: str, stdin: str = "") -> Any:
            print(json.dumps([arguments, stdin]), file=asked, flush=True)
            code, stdout, stderr = json.loads(answers.readline())
            return SimpleNamespace(returncode=code, stdout=stdout, stderr=stderr)

        yield done


def test_project_without_racks_is_compiled_and_simulated(shop: Path, without_extras: Without) -> None:
    done = without_extras("simulate", "--project-dir", str(shop), "--events", "kill c2; add 1", "--racks", "a,b")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sales: 4 tasks, assignor high_availability,")


def test_strategy_that_needs_the_solver_is_an_error_with_its_place(shop: Path, without_extras: Without) -> None:
    place_by_racks(shop)

    done = without_extras("compile", "--project-dir", str(shop))

    assert done.returncode == 1
    line = (shop / "topologies" / "sales.yml").read_text().splitlines().index("    strategy: min_traffic") + 1
    assert f"topologies/sales.yml:{line}:15: error HW610: " in done.stderr
    assert WAY_OUT in done.stderr
    assert "HW610" not in CliRunner().invoke(main, ["compile", "--project-dir", str(shop)]).stderr


def test_store_in_rocksdb_is_an_error_with_its_place_and_what_to_install(shop: Path, without_extras: Without) -> None:
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text().replace("    type: window\n", "    type: window\n    backend: rocksdb\n"))

    done = without_extras("compile", "--project-dir", str(shop))

    line = path.read_text().splitlines().index("    backend: rocksdb") + 1
    assert f"topologies/sales.yml:{line}:14: error HW610: " in done.stderr
    assert "pip install 'headwater[rocksdb]'" in done.stderr
    assert "HW610" not in CliRunner().invoke(main, ["compile", "--project-dir", str(shop)]).stderr


def test_log_in_an_object_store_is_an_error_with_its_place_and_what_to_install(
    shop: Path, without_extras: Without
) -> None:
    path = shop / "profiles.yml"
    written = "type: object_store\n        uri: s3://bucket/shop\n"
    path.write_text(re.sub(r"type: embedded\n +path: .*\n", written, path.read_text()))

    done = without_extras("parse", "--project-dir", str(shop))
    compiled = without_extras("compile", "--project-dir", str(shop))

    assert (done.returncode, compiled.stderr.count("HW610")) == (1, 1)
    line = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if "type: object_store" in text)
    assert f"profiles.yml:{line}:15: error HW610: The log 'object_store' needs the package obstore" in done.stderr
    assert "pip install 'headwater[object-store]'" in done.stderr
    assert "HW610" not in CliRunner().invoke(main, ["compile", "--project-dir", str(shop)]).stderr


def test_lineage_without_its_package_is_an_error_with_its_place_before_anything_is_seeded(
    shop: Path, without_extras: Without
) -> None:
    path = shop / "profiles.yml"
    path.write_text(re.sub(r"( +)log:\n", r"\1lineage: {file: events.jsonl}\n\1log:\n", path.read_text(), count=1))

    done = without_extras("parse", "--project-dir", str(shop))
    built = without_extras("build", "--project-dir", str(shop))

    line = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if "lineage:" in text)
    said = f"profiles.yml:{line}:7: error HW610: `lineage` needs the package openlineage-python"
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert "pip install 'headwater[lineage]'" in done.stderr
    assert (built.returncode, said in built.stderr, (shop / ".headwater").exists()) == (1, True, False)
    read = without_extras("log", "ls", "--project-dir", str(shop))
    assert (read.returncode, read.stdout) == (0, "nothing was committed to the log yet\n"), read.stderr
    assert "HW610" not in CliRunner().invoke(main, ["parse", "--project-dir", str(shop)]).stderr


def test_topic_in_kafka_is_an_error_with_the_place_of_the_clusters_and_what_to_install(
    shop: Path, without_extras: Without
) -> None:
    path = shop / "profiles.yml"
    clusters = r"\1kafka: {main: {bootstrap_servers: localhost:9092}}\n\1log:\n"
    path.write_text(re.sub(r"( +)log:\n", clusters, path.read_text(), count=1))
    no_topics = without_extras("parse", "--project-dir", str(shop))
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("    partitions: 2\n", "    partitions: 2\n    kafka: {}\n", 1))

    done = without_extras("parse", "--project-dir", str(shop))

    line = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if "kafka:" in text)
    assert f"profiles.yml:{line}:7: error HW610: `kafka` needs the package confluent-kafka" in done.stderr
    assert "pip install 'headwater[kafka]'" in done.stderr
    assert (no_topics.returncode, no_topics.stderr) == (0, "")


@pytest.mark.parametrize("assignor", ["balanced", "sticky"])
def test_assignor_that_solves_nothing_may_have_a_strategy(shop: Path, without_extras: Without, assignor: str) -> None:
    place_by_racks(shop, f"assignor: {assignor}\n  ")

    done = without_extras("simulate", "--project-dir", str(shop), "--racks", "a,b")

    assert done.returncode == 0, done.stderr


def test_case_that_needs_the_solver_is_answered_with_what_to_install(without_extras: Without) -> None:
    done = without_extras("assign", stdin=json.dumps(CASE))
    answer = json.loads(done.stdout)

    assert done.returncode == 0
    assert "needs OR-Tools" in answer["error"]
    assert WAY_OUT in answer["error"]
    assert json.loads(CliRunner().invoke(main, ["assign"], input=json.dumps(CASE)).stdout)["error"] is None


def test_run_that_is_to_tell_openlineage_says_what_to_install_before_spark_starts(
    shop: Path, without_extras: Without
) -> None:
    path = shop / "profiles.yml"
    path.write_text(path.read_text().replace("      log:\n", "      lineage: {file: lineage.jsonl}\n      log:\n"))

    done = without_extras("run", "--project-dir", str(shop), "--until-caught-up")

    assert done.returncode == 1
    assert "`lineage` needs the package openlineage-python" in done.stderr
    assert "pip install 'headwater[lineage]'" in done.stderr
    assert "starting Spark" not in done.stdout
