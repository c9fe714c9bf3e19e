"""Spark's JVM is killed while it starts, and between two topologies: one sentence, and the next run goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from headwater import Project
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.processes import called, has_ended
from headwater.tests.runtime.driver.strikes import FOLDER, Strike, stands_still
from headwater.tests.runtime.local.arrow_sql import ArrowCluster
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.spark

FILES = {
    "headwater.yml": 'name: words\nversion: "1.0"\nprofile: words\n',
    "profiles.yml": """
words:
  target: local
  targets:
    local:
      spark:
        master: local[1]
        spark.driver.memory: 512m
        spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
      log:
        type: embedded
        path: log
      state_dir: state
""",
    "topics/words.yml": (
        "topics:\n  words:\n    partitions: 1\n    key:\n      id: int\n    value:\n      text: string\n"
    ),
    "topologies/first.yml": (
        "topology: first\nflows:\n  f:\n    from: words\n    steps:\n      - filter: id > 0\n    to: some\n"
    ),
    "topologies/second.yml": (
        "topology: second\nflows:\n  g:\n    from: some\n    steps:\n      - filter: id > 1\n    to: fewer\n"
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    append(tmp_path, 1, 2, 3)
    return tmp_path


def append(root: Path, *ids: int) -> None:
    Project(root).append("words", pa.table({"id": pa.array(ids, pa.int32()), "text": ["a"] * len(ids)}))


def ids(root: Path, topic: str) -> list[int]:
    found: list[int] = Project(root).read(topic).to_arrow()["id"].to_pylist()
    return found


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    output: str


def headwater(root: Path, *arguments: str, jvm_killed_before: str | None = None) -> Ended:
    """Run a command of the project. `jvm_killed_before`: the point at which its JVM, and nothing else, is killed."""
    marker = root / "struck"
    marker.unlink(missing_ok=True)
    environment = dict(os.environ)
    if jvm_killed_before is not None:
        path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment |= {"PYTHONPATH": path, "HEADWATER_STRIKE": Strike(jvm_killed_before).told(marker)}
    with subprocess.Popen(
        [sys.executable, "-m", "headwater.cli.main", *arguments, "--project-dir", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        if jvm_killed_before is not None:
            wait_until(
                lambda: stands_still(marker),
                lambda: process.poll() is None,
                lambda: f"not struck: {process.communicate()[0]}",
            )
            (jvm,) = called("java", psutil.Process(process.pid))
            jvm.kill()
            wait_until(lambda: has_ended(jvm))
            os.kill(process.pid, signal.SIGCONT)
        output, _ = process.communicate()
        return Ended(process.returncode, output)


@pytest.mark.parametrize(
    "point", ["Spark can take sums of workers", pytest.param("Spark has its settings", marks=pytest.mark.soak)]
)
def test_jvm_killed_while_spark_starts_is_told(root: Path, point: str) -> None:
    ended = headwater(root, "run", "--until-caught-up", jvm_killed_before=point)

    assert ended.code == 1
    assert "error: Spark has not started: its JVM has ended without a message; was it killed" in ended.output
    assert "Traceback" not in ended.output


def test_jvm_killed_between_topologies_is_told_and_the_next_run_goes_on(root: Path) -> None:
    ended = headwater(
        root, "run", "--until-caught-up", jvm_killed_before="the second topology's state directory is locked"
    )

    assert ended.code == 1
    assert "words-first: caught up, 3 records in 1 commit" in ended.output
    assert "error: words-second: Spark's JVM has ended; was it killed" in ended.output
    assert "Traceback" not in ended.output

    append(root, 4)
    project = Project(root)
    again = run_topologies(project._code.topologies(), project.settings(), ArrowCluster(), until_caught_up=True)

    assert [(each.status, each.error) for each in again.applications] == [("caught_up", None)] * 2
    assert ids(root, "some") == [1, 2, 3, 4]
    assert ids(root, "fewer") == [2, 3, 4]


@pytest.mark.parametrize("setting", ["spark.driver.port", pytest.param("spark.ui.port", marks=pytest.mark.soak)])
def test_port_in_use_is_told_with_its_setting(root: Path, setting: str) -> None:
    profiles = root / "profiles.yml"
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        settings = {setting: port, "spark.port.maxRetries": 0, "spark.ui.enabled": setting == "spark.ui.port"}
        lines = "".join(f"        {name}: {str(value).lower()}\n" for name, value in settings.items())
        profiles.write_text(FILES["profiles.yml"].replace("      spark:\n", f"      spark:\n{lines}"))

        ended = headwater(root, "run", "--until-caught-up")

    assert ended.code == 1
    assert f"port {port} is in use by other programs, and {setting} is to be one of them" in ended.output
    assert f"give {setting} another port in the `spark:` section" in ended.output
    assert "Traceback" not in ended.output
