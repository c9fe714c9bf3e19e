"""The whole example project with its log on a server of S3, on executors, with kills: the results are pandas'."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from headwater import Project
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.tests.processes import command_lines
from headwater.tests.projects.expected import Flights
from headwater.tests.projects.flights_run import copy_of_flights
from headwater.tests.projects.test_flights import check
from headwater.tests.quick_jvm import quick_jvm
from headwater.tests.s3_server import S3Server
from headwater.tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.soak]

DAYS = 7
MASTER = "local-cluster[2,1,1024]"
COMMITS = 4
"""Of all applications together, from the start of a build to a kill."""


@pytest.fixture
def flights(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, with credentials from the environment, which executors have too."""
    for name, value in {**s3.environment, "FLIGHTS_DAYS": str(DAYS)}.items():
        monkeypatch.setenv(name, value)
    root = copy_of_flights(tmp_path / "flights", 1_500)
    profile = yaml.safe_load((root / "profiles.yml").read_text())
    local = profile["flights"]["targets"]["local"]
    local["log"] = {"type": "object_store", "uri": s3.uri("flights"), "endpoint": s3.endpoint}
    local["spark"] = {"master": MASTER, "executor.memory": "512m", "executor.extraJavaOptions": quick_jvm()}
    (root / "profiles.yml").write_text(yaml.safe_dump(profile))
    return root


class Build:
    """`headwater build` in a process group of its own."""

    def __init__(self, root: Path, log: ObjectStoreLog) -> None:
        self._log = log
        self._before = self._all()
        self._output = root / "output.txt"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headwater.cli.main", "build", "--project-dir", str(root)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for_commits(self, count: int) -> None:
        """Of applications that run: beyond their claims."""
        wait_until(lambda: self._all() >= self._before + count, self.runs, self._output.read_text)

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill_an_executor(self) -> None:
        """And let the build end, as it will: a run that is just beginning with the executor says so, and fails."""
        found = wait_until(lambda: executors(self._process.pid), self.runs, self._output.read_text)
        os.kill(found[0], signal.SIGKILL)

    def kill_all(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait()

    @property
    def output(self) -> str:
        return self._output.read_text()

    def _all(self) -> int:
        names = [name for name in self._log.applications() if not name.endswith("-seed")]
        return sum(self._log.commits(name).latest() for name in names)


def executors(driver: int) -> list[int]:
    """The pids of the executors' JVMs."""
    return [process.pid for process, words in command_lines(psutil.Process(driver)) if "--executor-id" in words]


def test_flights_with_their_log_on_s3_give_the_same_results_whatever_is_killed(flights: Path, s3: S3Server) -> None:
    log = ObjectStoreLog(s3.uri("flights"), **s3.options)
    for kill in (Build.kill_an_executor, Build.kill_all, Build.kill_an_executor):
        build = Build(flights, log)
        build.wait_for_commits(COMMITS)
        kill(build)
        build.wait()
    build = Build(flights, log)
    assert build.wait() == 0, build.output
    with Project.load(flights) as project:
        check(project, Flights(days=DAYS))
