"""Runs that end by one record, or by the machine, on real Spark: what is said, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.driver.events import Event, NothingToRead
from headwater.tests.processes import called, has_ended
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.spark

PROFILE = """
words:
  target: local
  targets:
    local:
      log:
        type: embedded
        path: disk/log
      state_dir: state
"""
TOPIC = """
topics:
  words:
    partitions: 1
    key:
      id: int
    value:
      text: string
"""
TOPOLOGY = """
topology: {topology}
flows:
  {flow}:
    from: words
    steps:
      - {step}
    to: out
"""


class Words:
    """A project with one topic and one step, and runs of it."""

    def __init__(self, root: Path, session: SparkSession, step: str, topology: str = "t", flow: str = "f") -> None:
        self.root = root
        for path, text in {
            "headwater.yml": 'name: words\nversion: "1.0"\nprofile: words\n',
            "profiles.yml": PROFILE,
            "topics/words.yml": TOPIC,
            "topologies/t.yml": TOPOLOGY.format(step=step, topology=topology, flow=flow),
        }.items():
            file = root / path
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text(text)
        self.project = Project(root, session=session)

    def error(self, *texts: str) -> str:
        """What ends a run that finds these records."""
        self.project.append("words", pa.table({"id": pa.array(range(len(texts)), pa.int32()), "text": texts}))
        (result,) = self.project.run(until_caught_up=True, check=False).applications
        assert (result.status, result.commits) == ("failed", 0)
        return result.error or ""


def test_value_on_which_the_stack_of_the_jvm_runs_out_is_named_and_shortened(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    words = Words(tmp_path, spark_session, "filter: text rlike '(a|b)*c'")

    error = words.error(*["abc"] * 20, "ab" * 40_000, "abc")

    assert error.startswith("topologies/t.yml:7: record words[0]@20 cannot be processed: ")
    assert "java.lang.StackOverflowError" in error
    assert "(80,000 characters)" in error
    assert len(error) < 2_000
    assert spark_session.range(3).count() == 3


@pytest.mark.parametrize(
    ("step", "fine", "text", "cause"),
    [
        ("select: {n: 'length(repeat(text, 900000000))'}", "", "long", "integer overflow"),
        (
            'select: {n: \'from_xml(text, "a int", map("mode", "FAILFAST"))\'}',
            "<r><a>1</a></r>",
            "<r><a>x</r>",
            "[MALFORMED_RECORD_IN_PARSING",
        ),
    ],
    ids=["repeat", "from_xml"],
)
def test_function_that_fails_on_a_value_is_told_with_its_cause(
    tmp_path: Path, spark_session: SparkSession, step: str, fine: str, text: str, cause: str
) -> None:
    words = Words(tmp_path, spark_session, step)

    error = words.error(fine, text)

    assert error.startswith(f"topologies/t.yml:7: record words[0]@1 cannot be processed: {cause}")


def test_record_that_fails_in_a_later_step_is_found(tmp_path: Path, spark_session: SparkSession) -> None:
    words = Words(tmp_path, spark_session, "select: {n: cast(text as int)}")

    error = words.error(*["7"] * 700, "y" * 200_000, *["7"] * 300)

    assert error.startswith("topologies/t.yml:7: record words[0]@700 cannot be processed: [CAST_INVALID_INPUT] ")
    assert "(200,000 characters)" in error
    assert len(error) < 3_000


def test_path_that_the_file_system_refuses_is_told_and_no_record(tmp_path: Path, spark_session: SparkSession) -> None:
    step = "key_by: {text: text}\n      - aggregate: {values: {count: count(*)}}"
    words = Words(tmp_path, spark_session, step, topology="t" * 40, flow="f" * 150)
    deep = os.pathconf(tmp_path, "PC_PATH_MAX") - len(os.fsencode(tmp_path)) - 200
    log = "/".join(["d" * 99] * (deep // 100))
    (tmp_path / "profiles.yml").write_text(PROFILE.replace("disk/log", log))

    error = words.error("a")

    assert f"{'f' * 150}-repartition: File name too long" in error
    assert "a shorter name" in error
    assert "record" not in error


def test_full_disk_is_told_with_its_path_and_no_record(tmp_path: Path, spark_session: SparkSession) -> None:
    words = Words(tmp_path, spark_session, "filter: id >= 0")
    segments = tmp_path / "disk/log/segments/words-t"
    with refusing(segments) as reason:
        error = words.error("a")

    assert str(segments) in error
    assert reason in error
    assert "record" not in error


def test_run_before_seed_says_which_topic_has_no_records(tmp_path: Path, spark_session: SparkSession) -> None:
    words = Words(tmp_path, spark_session, "filter: id >= 0")
    told: list[Event] = []

    class Told:
        def on(self, event: Event) -> None:
            told.append(event)

    (result,) = words.project.run(until_caught_up=True, observer=Told()).applications

    assert (result.status, result.empty) == ("caught_up", ("words",))
    assert NothingToRead("words-t", ("words",)) in told


START = """
from headwater.cli.main import main
main(["run", "--project-dir", {root!r}])
"""


def test_ctrl_c_while_spark_starts_ends_with_130_and_leaves_no_jvm(tmp_path: Path, spark_session: SparkSession) -> None:
    words = Words(tmp_path, spark_session, "filter: id >= 0")
    words.project.compile()
    run = subprocess.Popen(
        [sys.executable, "-c", START.format(root=str(tmp_path))],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process = psutil.Process(run.pid)
    jvms = wait_until(
        lambda: called("java", process),
        lambda: run.poll() is None,
    )

    os.killpg(run.pid, signal.SIGINT)

    _, stderr = run.communicate()
    assert run.returncode == 130, stderr
    assert stderr.endswith("interrupted\n")
    assert "Traceback" not in stderr
    wait_until(lambda: all(map(has_ended, jvms)))


@contextmanager
def refusing(folder: Path) -> Iterator[str]:
    """A disk that is full below `folder`, and what is said of it; where none may be mounted, a file in its place."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        folder.write_text("")
        yield "Not a directory"
        return
    try:
        with pytest.raises(OSError, match="No space left"):
            (folder / "full").write_bytes(bytes(1 << 20))
        yield "No space left on device"
    finally:
        subprocess.run(["umount", str(folder)], check=True)
