"""Lasting runs that compute a result again: what fails in it, or what it waits for, leaves the rest alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from headwater.cli.printing.results import show_run
from headwater.runtime.cluster.local import Batches, LocalCluster
from headwater.runtime.driver.application import ApplicationRun
from headwater.runtime.driver.events import (
    ApplicationStarted,
    ApplicationStopped,
    EpochCommitted,
    Event,
    RecomputationUnfinished,
    ResultSwitched,
)
from headwater.runtime.driver.loop import RunContext
from headwater.runtime.driver.rebuild import Passes, Rebuild
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.ir.topology import Settings, Topology
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject, begun_project
from headwater.tests.runtime.local.test_rebalance import Story
from headwater.tests.waiting import wait_until

CHANGED = replace(Definition(), aggregates=(*Definition().aggregates, MAX))


def failing(rows: Batches) -> Batches:
    """A step of the new code that one record breaks."""
    for batch in rows:
        if pc.any(pc.equal(batch["x"], 33)).as_py():
            raise ValueError("33 is too much")
        yield batch


FAILING = replace(CHANGED, keep=failing)


@pytest.fixture
def project(tmp_path: Path) -> RecomputedProject:
    return begun_project(tmp_path / "project")


def fresh(project: RecomputedProject, end: int) -> object:
    other = RecomputedProject(project.path.parent / "fresh", defined=project.defined)
    for numbers in (range(40), range(40, end)):
        other.append(numbers)
    other.went_well()
    return other.result()


class GoesOn:
    """An observer that appends records once the new result has failed, and stops the run when they are taken."""

    def __init__(self, project: RecomputedProject) -> None:
        self._project = project
        self._lock = threading.Lock()
        self.unfinished: list[RecomputationUnfinished] = []
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, RecomputationUnfinished):
                self.unfinished.append(event)
                if len(self.unfinished) == 2:
                    self._project.append(range(40, 50))
            if isinstance(event, EpochCommitted) and event.application == "test-first" and event.records:
                state = self._project.state("test-first")
                copied = sum(state.end("copied", partition) for partition in range(4))
                if copied == 4 * 50:
                    self.stop.set()


def test_record_that_fails_in_the_new_result_leaves_the_old_one_and_all_that_does_not_read_it(project, capsys):
    old = project.rows()
    project.defined = FAILING
    observer = GoesOn(project)
    results = project.run(until_caught_up=False, stop=observer.stop, observer=observer)
    first, sums, late = results.applications
    assert (first.status, first.error, first.recomputation) == ("interrupted", None, None)
    assert (sums.status, sums.recomputation, late.recomputation) == ("failed", "unfinished", "unfinished")
    assert "33 is too much" in str(sums.error)
    assert results.failed
    assert [each.cause for each in observer.unfinished] == [
        "test-sums failed; once that is fixed, the next run resumes it"
    ] * 2
    show_run(results)
    said = "its rebuild is not complete, and the old result stays; the next run resumes it"
    assert capsys.readouterr().out.count(said) == 2
    project.defined = Definition()
    assert project.rows() == old
    project.defined = CHANGED
    results = project.went_well()
    assert [each.recomputation for each in results.applications] == [None, "switched", "switched"]
    assert project.result() == fresh(project, 50)


def test_lasting_run_of_nothing_else_ends_when_a_record_fails_in_the_new_result(project):
    project.went_well(select=slice(1))
    project.defined = FAILING
    results = project.run(select=slice(1, 3), until_caught_up=False)
    assert [each.status for each in results.applications] == ["failed", "caught_up"]
    assert results.failed


def test_lasting_run_waits_for_what_the_new_result_reads_and_switches_then(project):
    project.defined = CHANGED
    expected = fresh(project, 40)
    stop, released = threading.Event(), threading.Event()

    class Releasing:
        """Lets the writer go on once the new results are caught up with what it has written so far."""

        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStopped) and event.application == "test-late":
                released.set()
            if isinstance(event, ResultSwitched) and event.application == "test-late":
                switched.append(event)
            if isinstance(event, ApplicationStarted) and switched and event.application == "test-late":
                stop.set()

    switched: list[Event] = []
    results = project.run(
        until_caught_up=False,
        stop=stop,
        observer=Releasing(),
        held=lambda task: task.application == "test-first" and task.partition == 1 and not released.is_set(),
    )
    assert [each.error for each in results.applications] == [None] * 3
    assert switched
    project.went_well()
    assert project.result() == expected


class Waits(threading.Event):
    """What would stop a run, and is asked only while it waits for other topologies: these get so many goes then."""

    def __init__(self, *goes: Callable[[], object]) -> None:
        super().__init__()
        self.left = list(goes)

    def wait(self, timeout: float | None = None) -> bool:
        if not self.left:
            self.set()
            return True
        self.left.pop(0)()
        return False


def passes_of(
    project: RecomputedProject, turn: Callable[[ApplicationRun, threading.Event], ApplicationResult]
) -> Passes:
    """Those of a lasting run of all but the first topology."""
    topologies, settings, cluster = (
        [each for each, _ in project.defined.topologies()[1:]],
        project.app.settings(),
        LocalCluster(),
    )
    judged, observer = changes_at_start(topologies, settings), Story()
    rebuild = Rebuild(topologies, settings, cluster.state_dir(settings), judged, observer)

    def made(topology: Topology, settings: Settings) -> ApplicationRun:
        return ApplicationRun(context, topology, settings, judged.decided(topology.application))

    context = RunContext(cluster, topologies, lasting=True, observer=observer)
    return Passes(rebuild, rebuild.begin(), made, turn, context)


def test_driver_of_the_old_result_goes_on_while_the_new_one_waits_for_another_topology(project):
    """That may take hours, and somebody has to go on with the result."""
    old, project.defined = project.defined, CHANGED
    told, stop = Story(), threading.Event()

    def first() -> None:
        project.went_well(select=slice(1), state="first")

    def old_takes(records: int) -> None:
        def taken() -> int:
            return sum(each.records for each in told.of(EpochCommitted) if each.application == "test-sums")

        wait_until(lambda: taken() == records, possible=lambda: not running.done(), why="the old driver has ended")

    def turn(run: ApplicationRun, _: threading.Event) -> ApplicationResult:
        """A pass. During the second one the old driver takes more than it does, and then more comes, which the first
        topology has still to take.
        """
        result = run.run(threading.Event(), True)
        turns.append(result.application)
        if turns.count("test-late") == 2 and result.application == "test-late":
            project.append(range(40, 60))
            first()
            old_takes(4 * 40)
            project.append(range(60, 70))
        return result

    turns: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        project.defined = old
        running = pool.submit(
            project.run, select=slice(1, 3), state="old", stop=stop, until_caught_up=False, observer=told
        )
        try:
            wait_until(
                lambda: len(told.of(ApplicationStarted)) == 2, possible=lambda: not running.done(), why="it ended"
            )
            project.defined = CHANGED
            waits = Waits(lambda: (first(), old_takes(4 * 20)), lambda: (first(), old_takes(4 * 50)))
            assert passes_of(project, turn).until_switched(waits)
            assert "fenced" in {each.status for each in running.result().applications}
        finally:
            stop.set()
    assert turns == ["test-sums", "test-late"] * 3
    project.went_well()
    assert project.result() == fresh(project, 70)
