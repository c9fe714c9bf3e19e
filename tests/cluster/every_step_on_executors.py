"""Runs the project of `tests/runtime/local/every_step_project` on executors, which are killed, and changes its code.

`python every_step_on_executors.py FOLDER some|all`. First as it is, with its folders of code away; then with changed
code, while an executor is killed; then, of all, while another one is killed whose tasks have copies; then with
functions that raise, of some with one, and at last with ones that do not. Prints what came of each run as a line of
JSON, and its results beside those of the same runs in this process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater import Project
from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.cluster.spark.engine import executors
from headwater.runtime.driver.client_events import ClientLost
from headwater.runtime.driver.events import EpochCommitted, Event, Observer
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.tests.cluster.faults import process_of, start
from headwater.tests.runtime.local import every_step
from headwater.tests.waiting import wait_until

MOMENTS = 16
"""Of each part of the input."""

EPOCH = 8
"""Records of a task in an epoch."""

RAISES_IN_EXPRESSION = ("views.py", "    return None if page", '    if page == "boom":\n        raise ValueError(n)\n')
RAISES_IN_PROCESSOR = (
    "watching.py",
    "        row = self.seen.get(key)\n        self.seen.put(key, {",
    '        if record.value and record.value.page == "boom":\n            raise KeyError(time)\n',
)
"""A file of functions, the lines in front of which more lines come, and those."""


class Kills:
    """Kills the executor that commits first."""

    def __init__(self) -> None:
        self.killed, self.gone = list[str](), list[str]()

    def on(self, event: Event) -> None:
        if isinstance(event, ClientLost):
            self.gone.append(event.client)
        if isinstance(event, EpochCommitted) and not self.killed:
            self.killed.append(event.client)
            os.kill(process_of(event.client.removeprefix("executor-")), signal.SIGKILL)


class Side:
    """The project in a folder, and what is done to it on either side."""

    def __init__(self, path: Path) -> None:
        self.path = every_step.copied(path)
        self._fed = 0

    def feed(self) -> None:
        every_step.feed(self.path, MOMENTS, self._fed)
        self._fed += MOMENTS

    def feed_what_raises(self) -> None:
        """A view that meets a click, so that all functions are called for it at once."""
        project, time = Project(self.path), 700 * self._fed
        project.append("clicks", [{"key": {"visitor": "ann"}, "value": {"ad": "boom"}, "timestamp": time - 1}])
        project.append("views", [{"key": {"visitor": "ann"}, "value": {"page": "boom", "n": 1}, "timestamp": time}])

    def change(self, file: str, old: str, new: str) -> None:
        """Text of a module of functions, for the runs from now on."""
        module = self.path / "functions" / file
        text = module.read_text()
        assert text.count(old) == 1
        module.write_text(text.replace(old, new))
        Project(self.path).compile()

    def run(self) -> None:
        every_step.application(self.path).run()


@contextmanager
def away(path: Path) -> Iterator[None]:
    """Without the folders of code, which only the driver has."""
    folders = [path / "functions", path / "target", path / "topologies"]
    for each in folders:
        each.rename(each.with_name(f"{each.name}-away"))
    yield
    for each in folders:
        each.with_name(f"{each.name}-away").rename(each)


def run(session: Any, path: Path, standbys: int = 0, observer: Observer | None = None) -> dict[str, Any]:
    """On executors, which cannot read the project's folders."""
    app = every_step.application(path)
    assignment = Assignment(PluginRef("sticky"), standby_replicas=standbys, probing_rebalance_interval_ms=60_000)
    topology = replace(app.topology, assignment=assignment)
    with away(path):
        (result,) = run_topologies(
            [topology], app.settings(EPOCH), SparkCluster(session), until_caught_up=True, observer=observer
        ).applications
    return {"status": result.status, "error": result.error, "clients": sorted(result.assignment)}


def main(root: Path, whole: bool) -> None:
    session = start("local-cluster[2,1,1024]")
    there, here = Side(root / "executors"), Side(root / "process")

    def told(name: str, outcome: dict[str, Any], compared: bool = True) -> None:
        differing = []
        if compared:
            here.run()
            found, expected = every_step.results(there.path), every_step.results(here.path)
            differing = [what for what in expected if found[what] != expected[what]]
        print(json.dumps({"run": name, "differing": differing, **outcome}), flush=True)

    def all_executors() -> None:
        wait_until(lambda: len(executors(session)) == 2)

    def both(what: str, *arguments: str) -> None:
        for side in (there, here):
            getattr(side, what)(*arguments)

    all_executors()
    both("feed")
    told("first", run(session, there.path))

    both("change", "words.py", '"seen"', '"looked at"')
    both("feed")
    kills = Kills()
    told("killed", {**run(session, there.path, 0, kills), "killed": kills.killed, "gone": kills.gone})

    if whole:
        all_executors()
        run(session, there.path, 1)  # which makes copies
        both("feed")
        kills = Kills()
        told("killed_with_copies", {**run(session, there.path, 1, kills), "killed": kills.killed, "gone": kills.gone})

    all_executors()
    both("feed")
    both("feed_what_raises")
    raising = {"expression": RAISES_IN_EXPRESSION, "processor": RAISES_IN_PROCESSOR}
    for name, (file, old, more) in list(raising.items())[: None if whole else 1]:
        there.change(file, old, more + old)
        told(name, run(session, there.path), compared=False)
        there.change(file, more, "")
    told("last", run(session, there.path))
    said = [each for each in every_step.results(there.path)["outcomes"] if "'said': 'boom" in each]
    print(json.dumps({"run": "said", "said": said}), flush=True)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "all")
