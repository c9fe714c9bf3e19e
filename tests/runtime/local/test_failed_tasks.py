"""Tasks whose stores cannot be restored: they end with one sentence, and what others have done is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.driver.events import EpochCommitted, TaskFailed
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.placing.place import Client
from headwater.runtime.restore.links import LocalLink, StateLink
from headwater.runtime.restore.requests import StateRequest, StateResponse, StoreResponse
from headwater.runtime.tasks.measured import TaskOutcome, Trouble
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.runtime.local.summing import RECORDS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story, whole


class DamagingJob(LocalJob):
    """The real job, after which the store of task 2 is found damaged each time."""

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        damaged = Trouble("corrupted", "the disk has changed a byte")
        outcomes = super().run(plan)
        return tuple(replace(each, commit=None, trouble=damaged) if each.partition == 2 else each for each in outcomes)


class Damaging(LocalCluster):
    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return DamagingJob(part, client, self._expressions)


class StallingLink(LocalLink):
    """The real link, but stores are said to stay where they are."""

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        if not any(request.what == "restore" for request in requests):
            return super().send(requests)
        return [
            StateResponse(stores=tuple(StoreResponse(each.store, each.input.applied) for each in request.stores))
            for request in requests
        ]


class DamagedLink(LocalLink):
    """The real link; the store of task 2 is found damaged, and wiped, whenever it is restored."""

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        return [self._damaged(*each) for each in zip(requests, super().send(requests), strict=True)]

    def _damaged(self, request: StateRequest, answer: StateResponse) -> StateResponse:
        if request.what != "restore":
            return answer
        wiped = tuple(each for each in request.stores if each.partition == 2)
        super().send([replace(request, what="wipe", stores=wiped)])
        stores = (
            replace(each, position=0, damage="the disk has changed a byte") if each.store.partition == 2 else each
            for each in answer.stores
        )
        return replace(answer, stores=tuple(stores))


class DamagedWhileRestored(LocalCluster):
    def link(self, client: Client, application: str) -> StateLink:
        return DamagedLink()


class Stalling(LocalCluster):
    def link(self, client: Client, application: str) -> StateLink:
        return StallingLink()


def test_task_whose_store_is_damaged_three_times_in_a_row_ends_and_the_others_have_committed(application) -> None:
    app = fed(application(summed()))
    story = Story()
    result = app.attempt(app.settings(max_records=7), Damaging(), story)
    assert result.status == "failed"
    assert result.error == (
        "the stores of task sums_2 of test-app were damaged 3 times in a row on client-1, though they were restored "
        "each time: the disk has changed a byte (check the disk and the memory of client-1, then run again: no commit "
        "is lost)"
    )
    status = RunStatus.from_text("test-app", app.log.read_status("test-app"))
    assert (status.failed_tasks, f"{status.error} ({status.hint})") == (("0_2",), result.error)
    (failed,) = story.of(TaskFailed)
    assert failed.text.startswith("test-app/sums: task 2 stopped: the stores of task sums_2")
    assert set(last_sums(app)) == {"k0", "k1", "k3"}
    assert sum(event.records for event in story.of(EpochCommitted)) == len(last_sums(app)) * last_sums(app)["k0"][0]
    app.run()
    whole(app)


def test_tasks_that_a_strategy_brings_no_further_end_with_one_sentence(application) -> None:
    app = fed(application(summed()))
    app.run(max_records=7)
    rmtree(Path(app.settings().state_dir))
    story = Story()
    result = app.attempt(app.settings(), Stalling(), story)
    assert result.status == "failed"
    assert result.error.startswith(
        "restoring on client-1 makes no progress: the restore strategy's steps leave totals/0"
    )
    assert {failed.partition for failed in story.of(TaskFailed)} == set(range(4))
    app.run()
    whole(app)
    assert last_sums(app)["k1"][0] == RECORDS


def test_task_whose_store_is_damaged_in_each_restore_ends_and_the_strategy_is_not_blamed(application) -> None:
    app = fed(application(summed()))
    app.run(max_records=7)
    rmtree(Path(app.settings().state_dir))
    story = Story()
    result = app.attempt(app.settings(), DamagedWhileRestored(), story)
    assert result.error.startswith("the stores of task sums_2 of test-app were damaged 3 times in a row on client-1")
    assert [failed.partition for failed in story.of(TaskFailed)] == [2]
    app.run()
    whole(app)
