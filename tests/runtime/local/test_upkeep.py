"""What a run does beside its epochs: it folds old commits and removes superfluous files, and goes on if that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.driver import removal
from headwater.runtime.driver.client_events import UpkeepFailed
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded as folding
from headwater.runtime.placing.place import Client
from headwater.runtime.tasks.measured import TaskOutcome, Trouble
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication
from headwater.tests.runtime.local.summing import WHOLE_SUMS, fed, last_sums, summed, summed_by_text
from headwater.tests.runtime.local.test_rebalance import Story

Make = Callable[..., LocalApplication]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots every few commits, and searches for files in each round of the loop."""
    monkeypatch.setattr(folding, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(folding, "AT_MOST", 4)
    monkeypatch.setattr(removal, "SEARCH_SECONDS", 0.0)


def state(app: LocalApplication) -> LogState:
    return LogState.load(app.log.commits(APPLICATION))


def run_until_folded(app: LocalApplication) -> int:
    """Run over the same records again until old commits are folded. Returns how often.

    What comes due while a snapshot is being written is left to the next one, so nobody knows how many commits it takes.
    """
    times = 0
    while app.log.commits(APPLICATION).first() == 1:
        fed(app).run(max_records=1)
        times += 1
    return times


def sums_of(times: int) -> dict[str, tuple[int, int]]:
    """The sums of all records, as often as they were fed."""
    return {key: (times * count, times * total) for key, (count, total) in WHOLE_SUMS.items()}


@pytest.mark.parametrize("log", ["embedded", "sparse"])
def test_run_folds_its_commits_and_the_next_ones_go_on_from_there(application: Make, log: str) -> None:
    app = fed(application(*summed_by_text(), log=log))
    app.run(max_records=3)
    times = 1 + run_until_folded(app)
    commits = app.log.commits(APPLICATION)
    assert 1 < commits.first() <= commits.latest()
    assert last_sums(app) == sums_of(times)
    fed(app).run(max_records=7, clients=2)
    assert last_sums(app) == sums_of(times + 1)


@pytest.mark.parametrize("seed", range(3))
def test_runs_that_are_cut_off_anywhere_lose_nothing_to_it_and_leave_no_file(application: Make, seed: int) -> None:
    app = fed(application(*summed_by_text()))
    app.run_randomly(seed, moving=True)
    assert last_sums(app) == WHOLE_SUMS
    times = 1 + run_until_folded(app)
    assert last_sums(app) == sums_of(times)
    app.run()
    assert {file.path for file in app.log.files(APPLICATION)} == state(app).paths()


class Troubled(LocalJob):
    """The real job; of its second epoch everything was written, and nothing is to be committed."""

    wrote: ClassVar[set[str]] = set()

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        outcomes = super().run(plan)
        if plan.epoch != 2:
            return outcomes
        self.wrote.update(listed.path for each in outcomes if each.commit for listed in each.commit.segments)
        return tuple(replace(each, commit=None, trouble=Trouble("old_assignment", "so it is")) for each in outcomes)


class TroubledCluster(LocalCluster):
    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return Troubled(part, client, self._expressions)


def test_files_of_an_epoch_that_came_to_nothing_go_while_the_run_lasts(application: Make) -> None:
    app = fed(application(summed()))
    result = app.attempt(app.settings(max_records=1), TroubledCluster())
    assert (result.status, result.error) == ("caught_up", None)
    assert len(Troubled.wrote) > 0
    assert {file.path for file in app.log.files(APPLICATION)} == state(app).paths()
    assert last_sums(app) == WHOLE_SUMS


def test_snapshot_that_cannot_be_written_is_told_once_and_the_run_goes_on(application: Make) -> None:
    app = fed(application(summed()))
    in_the_way = [app.path / "log/commits" / APPLICATION / f"{number:012d}.snapshot" for number in range(1, 100)]

    def put_in_the_way(commits: int) -> None:
        for path in in_the_way if commits == 1 else ():
            path.mkdir()

    story = Story(put_in_the_way)
    result = app.attempt(app.settings(max_records=1), observer=story)
    assert (result.status, result.error) == ("caught_up", None)
    assert app.log.commits(APPLICATION).first() == 1
    told = {event.text for event in story.of(UpkeepFailed)}
    assert len(told) == len(story.of(UpkeepFailed)) > 0
    assert all("test-app: old commits stay in the log for now" in each and "Is a directory" in each for each in told)

    for path in in_the_way:
        path.rmdir()
    times = 1 + run_until_folded(app)
    assert last_sums(app) == sums_of(times)
