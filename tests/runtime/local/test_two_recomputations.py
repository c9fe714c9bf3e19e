"""Two runs that compute the same result again at the same time: one of them ends, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.driver.events import (
    ApplicationStopped,
    EpochCommitted,
    Event,
    RecomputationBegun,
    ResultSwitched,
)
from headwater.runtime.driver.results import RunResults
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.progress.resets import refresh_fully
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject, begun_project
from headwater.tests.waiting import wait_until

CHANGED = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
AGAIN = replace(Definition(), aggregates=(MAX,))


@pytest.fixture
def project(tmp_path: Path) -> RecomputedProject:
    return begun_project(tmp_path / "project", CHANGED)


class Held:
    """An observer whose run stands still at the so-many-th event of a kind, until it is let go on. `application`: of
    this one.
    """

    def __init__(self, kind: type[Event], number: int, application: str = "") -> None:
        self._kind = kind
        self._application = application
        self._left = number
        self._lock = threading.Lock()
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def on(self, event: Event) -> None:
        with self._lock:
            mine = self._application in ("", getattr(event, "application", ""))
            self._left -= mine and isinstance(event, self._kind)
            here = not self._left and not self.reached.is_set()
            if here:
                self.reached.set()
        if here:
            self.go_on.wait()


def overtaken(project: RecomputedProject, held: Held, other: Callable[[], object], **options: Any) -> RunResults:
    """What a run comes to that is held somewhere while something else is done."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(project.run, observer=held, **options)
        try:
            wait_until(held.reached.is_set, possible=lambda: not running.done(), why="the run has ended before")
            other()
        finally:
            held.go_on.set()
        return running.result()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The result of a project that had been so from the start."""
    other = RecomputedProject(tmp_path_factory.mktemp("fresh"), defined=CHANGED)
    other.append(range(40))
    other.went_well()
    return other.result()


HOLDS = [(RecomputationBegun, 1), *((EpochCommitted, number) for number in (1, 9, 14, 20, 26)), (ResultSwitched, 1)]


@pytest.mark.parametrize(("kind", "number"), HOLDS)
def test_run_that_another_one_overtakes_anywhere_gives_way_and_the_result_is_whole(project, fresh, kind, number):
    results = overtaken(project, Held(kind, number), lambda: project.went_well(state="elsewhere"))
    statuses = [each.status for each in results.applications]
    assert "fenced" in statuses or kind is ResultSwitched, results
    assert "failed" not in statuses, results
    assert project.result("elsewhere") == fresh
    project.went_well()
    assert project.result() == fresh
    assert [each.damages for each in Verification(project.placed).run()] == [()] * 5


def _finished(project: RecomputedProject) -> None:
    project.went_well(state="elsewhere")


def _changed(project: RecomputedProject) -> None:
    project.defined = AGAIN
    project.run(state="elsewhere", stop=_set())  # which gives up what the first run computes, and has claimed nothing


def _forgotten(project: RecomputedProject) -> None:
    refresh_fully(project.placed, project.path / "state", ["test-sums", "test-late"])


def _set() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


@pytest.mark.parametrize("meanwhile", [_finished, _changed, _forgotten])
def test_run_that_is_between_two_passes_claims_nothing_that_another_one_has_changed(project, meanwhile):
    """It waits for the first topology, which it does not run itself."""
    left: dict[str, int] = {}

    def other() -> None:
        project.went_well(select=slice(1), state="elsewhere")
        meanwhile(project)
        left.update({each: project.app.log.commits(each).latest() for each in project.app.log.applications()})

    held = Held(ApplicationStopped, 1, "test-late")
    results = overtaken(project, held, other, select=slice(1, 3), until_caught_up=False)
    assert {each.status for each in results.applications} == {"fenced"}
    assert {each: project.app.log.commits(each).latest() for each in project.app.log.applications()} == left


@pytest.mark.parametrize("number", [9, 14, 26])
def test_run_of_a_project_that_was_changed_again_drops_what_another_one_computes(project, number):
    def changed_again() -> None:
        project.defined = AGAIN
        project.went_well(state="elsewhere")
        project.went_well(state="elsewhere", delay_ms=0)  # which removes what was given up

    results = overtaken(project, Held(EpochCommitted, number), changed_again)
    assert results.failed
    expected = RecomputedProject(project.path.parent / "fresh", defined=AGAIN)
    expected.append(range(40))
    expected.went_well()
    assert project.result("elsewhere") == expected.result()
    project.went_well(delay_ms=0)
    assert project.result() == expected.result()
    assert [each.damages for each in Verification(project.placed).run()] == [()] * 5


def test_second_run_beside_the_same_stores_is_refused_and_the_first_goes_on(project, fresh):
    refused: list[RunResults] = []
    results = overtaken(
        project, Held(EpochCommitted, 3, "test-sums"), lambda: refused.append(project.run(select=slice(1, 3)))
    )
    assert [each.status for each in results.applications] == ["caught_up"] * 3
    assert "is in use by process" in str(refused[0].applications[0].error)
    assert project.result() == fresh
