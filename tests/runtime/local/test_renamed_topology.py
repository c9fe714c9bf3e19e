"""A topology that gets another name goes on where it was, whatever ends in between."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import EpochCommitted
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.log import CommitStore
from headwater.runtime.log.placed_log import PLACES, PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded as folding
from headwater.tests.runtime.local.renamed_project import Names, RenamedProject, begun, undisturbed_results
from headwater.tests.runtime.local.summing import PARTITIONS
from headwater.tests.runtime.local.test_rebalance import Story

RENAMED = Names(writer="renamed")


@pytest.fixture(params=["embedded", "object_store"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> RenamedProject:
    uri = (tmp_path / "bucket").as_uri()
    log = PluginRef("object_store", {"uri": uri, "look_every": "1ms"}) if request.param != "embedded" else "embedded"
    return begun(tmp_path, log)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed_results(tmp_path_factory.mktemp("undisturbed"))


def rename(project: RenamedProject, writer: str = "renamed", *former: str) -> None:
    project.names, project.former = Names(writer=writer), {writer: former or ("app",)}


def state(project: RenamedProject, application: str) -> LogState:
    return LogState.load(PlacedLog(project.app.log).commits(application))


def test_renamed_topology_and_its_reader_go_on_and_nothing_is_read_or_restored_again(project, undisturbed):
    rename(project)
    story = Story()
    project.went_well(observer=story)
    assert project.results() == undisturbed
    assert sum(event.records for event in story.of(EpochCommitted)) == 20 * 3 * PARTITIONS
    assert story.of(StoreRestored) == []
    assert sorted(path.name for path in project.path.glob("state/*/*")) == sorted(["test-late", "test-renamed"] * 2)
    log = PlacedLog(project.app.log)
    assert log.applications() == ["test-late", "test-renamed", "test-seed"]
    renamed = state(project, "test-renamed")
    assert {segment.topic for segment in renamed.segments()} == {
        "sums",
        "test-renamed-totals-changelog",
        "test-renamed-rekey-repartition",
    }
    assert (renamed.generation, renamed.former) == (2, {"test-app"})
    assert [each.damages for each in Verification(log).run()] == [()] * 4


def test_second_start_renames_nothing_and_the_former_name_may_go(project, undisturbed):
    rename(project)
    project.went_well()
    project.went_well()
    project.former = {}
    project.went_well()
    assert project.results() == undisturbed
    assert project.app.log.commits(PLACES).latest() == 1
    assert state(project, "test-renamed").names == ("test-renamed",)


def test_topology_that_is_renamed_again_and_again_goes_on_even_if_it_did_not_run_in_between(project, undisturbed):
    rename(project, "second")
    project.went_well()
    rename(project, "fourth", "third", "second")  # third has never run
    project.went_well()
    rename(project, "app", "fourth")
    project.went_well()
    assert project.results() == undisturbed
    assert PlacedLog(project.app.log).places().names == {}
    assert sorted(path.name for path in project.path.glob("state/*/*")) == sorted(["test-app", "test-late"] * 2)


class _Ended(BaseException):
    """The process ends here."""


STEPS = [(what, when) for what in ("places", "directory", "claim") for when in ("before", "after")]


@pytest.mark.parametrize(("what", "when"), STEPS)
def test_renaming_that_ends_anywhere_is_finished_by_the_next_run(project, undisturbed, monkeypatch, what, when):
    rename(project)

    def ending(kind: type, method: str, step: str) -> None:
        done = getattr(kind, method)

        def ended(self: Any, *arguments: Any) -> Any:
            mine = what == (step or what_of(self))
            if mine and when == "before":
                raise _Ended
            found = done(self, *arguments)
            if mine:
                raise _Ended
            return found

        patched.setattr(kind, method, ended)

    def what_of(commits: CommitStore) -> str:
        return {PLACES: "places", "test-app": "claim"}.get(commits.application, "")

    with monkeypatch.context() as patched:
        ending(type(project.app.log.commits("x")), "create", "")
        ending(Path, "rename", "directory")
        with pytest.raises(_Ended):
            project.run()
    project.went_well()
    assert project.results() == undisturbed
    assert state(project, "test-renamed").names == ("test-renamed",)


def test_driver_that_still_runs_under_the_old_name_is_fenced(project, undisturbed):
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            committed: Future[None] = Future()
            story = Story(lambda commits: committed.set_result(None) if commits == 1 else None)
            old = pool.submit(project.run, select=slice(1), until_caught_up=False, stop=stop, observer=story)
            wait([old, committed], return_when=FIRST_COMPLETED)
            assert committed.done(), old.result()
            rename(project)
            project.went_well(state="elsewhere")
            (ended,) = old.result().applications
        finally:
            stop.set()
    assert ended.status == "fenced"
    assert project.results() == undisturbed


def test_pause_under_the_old_name_holds_under_the_new_one(project):
    project.app.log.pause("test-app")
    rename(project)
    results = project.run()
    assert "test-renamed is paused" in (results.applications[0].error or "")
    PlacedLog(project.app.log, was={"test-renamed": ["test-app"]}).resume("test-renamed")
    project.went_well()


def test_new_topology_of_the_old_name_begins_from_nothing(project, undisturbed):
    rename(project)
    project.went_well()
    again = RenamedProject(project.path, project.log, Names(reader="later", sums="others"))
    assert [each.error for each in again.run(select=slice(1)).applications] == [None]
    assert state(again, "test-app").place == "test-app~2"
    assert state(again, "test-app").end("others", 0) == 40
    project.went_well()
    assert project.results() == undisturbed


def test_reader_alone_is_refused_until_its_writer_was_renamed(project, undisturbed):
    rename(project)
    project.former = {}  # nobody says what the writer was
    refused = project.run(select=slice(1, 2)).applications
    assert "sums" in (refused[0].error or "")
    rename(project)
    project.went_well(select=slice(1))
    project.went_well(select=slice(1, 2))
    assert project.results() == undisturbed


def test_renamed_application_is_folded_and_read_again_from_its_snapshot(project, monkeypatch):
    monkeypatch.setattr(folding, "SNAPSHOT_EVERY", 10)
    rename(project)
    project.went_well(max_records=1)
    project.append(range(40, 60))
    while state(project, "test-renamed").commits.first() == 1:
        project.went_well(max_records=1)
        project.append(range(project.appended, project.appended + 5))
    found = state(project, "test-renamed")
    assert (found.names, found.commits.snapshots() != []) == (("test-renamed",), True)
    project.went_well()
    expected = RenamedProject(project.path / "fresh")
    expected.append(range(project.appended))
    expected.went_well()
    assert project.results() == expected.results()
    assert [each.damages for each in Verification(PlacedLog(project.app.log)).run()] == [()] * 4
