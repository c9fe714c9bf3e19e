"""Flows, tables, stores and steps that get other names go on where they were."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import EpochCommitted
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.commit.records import GenerationRecord
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committer import Committer
from headwater.runtime.state.directory import StateDirectory
from headwater.tests.runtime.local.renamed_project import Names, RenamedProject, begun, undisturbed_results
from headwater.tests.runtime.local.summing import PARTITIONS
from headwater.tests.runtime.local.test_rebalance import Story


@pytest.fixture
def project(tmp_path) -> RenamedProject:
    return begun(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed_results(tmp_path_factory.mktemp("undisturbed"))


WAS = {"sorted": ("rekey",), "amounts": ("sums",), "balances": ("totals",)}
PARTS = Names(rekey="sorted", part="amounts", store="balances", was=WAS)


def test_renamed_parts_go_on_and_nothing_is_read_or_restored_again(project, undisturbed):
    project.names = PARTS
    story = Story()
    project.went_well(observer=story)
    assert project.results() == undisturbed
    assert sum(event.records for event in story.of(EpochCommitted)) == 20 * 3 * PARTITIONS
    assert story.of(StoreRestored) == []
    state = LogState.load(project.app.log.commits("test-app"))
    assert state.written() == {"sums", "test-app-balances-changelog", "test-app-sorted-repartition"}
    assert {(task.subtopology, *sorted(task.positions)) for task in state.tasks.all()} == {
        ("sorted", "words"),
        ("amounts", "test-app-sorted-repartition"),
    }
    stores = {each.store for path in project.path.glob("state/*") for each in stores_of(project, path.name)}
    assert stores == {"balances"}
    assert [each.damages for each in Verification(project.app.log).run()] == [()] * 3


def stores_of(project: RenamedProject, client: str) -> list[Any]:
    return StateDirectory(project.path / "state", client, "test-app").stores()


def test_second_start_renames_nothing(project, undisturbed):
    project.names = PARTS
    project.went_well()
    project.went_well()
    assert project.results() == undisturbed
    state = LogState.load(project.app.log.commits("test-app"))
    assert (state.generation, bool(state.renaming)) == (3, False)
    claims = [decode_commit(state.commits.read(number) or b"") for number in range(1, state.number + 1)]
    renamed = [each.renamed is not None for each in claims if isinstance(each, GenerationRecord)]
    assert renamed == [False, True, False]


def test_topology_and_its_parts_renamed_at_once_go_on(project, undisturbed):
    project.names = Names(writer="renamed", rekey="sorted", part="amounts", store="balances", was=WAS)
    project.former = {"renamed": ("app",)}
    project.went_well()
    assert project.results() == undisturbed
    state = LogState.load(PlacedLog(project.app.log).commits("test-renamed"))
    assert state.written() == {"sums", "test-renamed-balances-changelog", "test-renamed-sorted-repartition"}


class _Ended(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("kind", [StateDirectory, Committer])
@pytest.mark.parametrize("when", ["before", "after"])
def test_renaming_that_ends_anywhere_is_finished_by_the_next_run(project, undisturbed, monkeypatch, kind, when):
    project.names = PARTS
    method = "rename" if kind is StateDirectory else "claim"
    done = getattr(kind, method)

    def ended(self: Any, *arguments: Any) -> Any:
        if when == "after":
            done(self, *arguments)
        raise _Ended

    with monkeypatch.context() as patched:
        patched.setattr(kind, method, ended)
        with pytest.raises(_Ended):
            project.run()
    project.went_well()
    assert project.results() == undisturbed


def test_parts_renamed_without_a_word_are_computed_again(project, undisturbed):
    project.names = Names(rekey="sorted", part="amounts", store="balances")
    results = project.run()
    assert [each.error for each in results.applications] == [None] * 2
    assert project.results() == undisturbed
    assert PlacedLog(project.app.log).place_of("test-app") == "test-app~2"
