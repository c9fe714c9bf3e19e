"""A signal while Spark starts, whose JVM is a script here that never answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.tests.waiting import wait_until

START = "from headwater.runtime.cluster.spark.session import start_session; start_session({})"


@pytest.mark.usefixtures("heard_hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_while_spark_starts_is_told_and_leaves_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    for name, text in {
        "bin/java": "echo 'openjdk version \"17.0.1\"' >&2",
        "bin/spark-submit": f"echo $$ > {tmp_path}/started.new; mv {tmp_path}/started.new {tmp_path}/started; cat",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    own = {"TMPDIR": str(tmp_path / "tmp"), "SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    start = subprocess.Popen([sys.executable, "-c", START], env={**os.environ, **own}, stderr=subprocess.PIPE)
    try:
        wait_until((tmp_path / "started").exists, lambda: start.poll() is None)
        wait_until(lambda: _handles(start.pid, number), lambda: start.poll() is None)
        start.send_signal(number)
        said = start.communicate()[1].decode()
    finally:
        start.kill()

    assert said == f"ended by {number.name} while Spark starts\n"
    assert start.returncode == -number
    assert list((tmp_path / "tmp").iterdir()) == []


def _handles(pid: int, number: int) -> bool:
    (caught,) = (
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")
    )
    return bool(int(caught, 16) >> (number - 1) & 1)
