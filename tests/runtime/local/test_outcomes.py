"""An epoch answers for each of its tasks: one in trouble begins again, and what the others have done is committed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.driver.client_events import ClientJoined, ClientLost
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.driver.events import EpochCommitted, TaskBeginsAgain
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.commit.records import CommitRecord, EpochRecord
from headwater.runtime.placing.place import Client
from headwater.runtime.state.lmdb.environment import Environment
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.tasks.measured import TaskOutcome
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story


class Noting(LocalJob):
    """The real job; what each epoch was planned as, and what it has come to, is noted."""

    def __init__(self, part: Subtopology, client: Client, noted: list[tuple[EpochPlan, Sequence[TaskOutcome]]]) -> None:
        super().__init__(part, client, {})
        self._noted = noted

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        outcomes = super().run(plan)
        self._noted.append((plan, outcomes))
        return outcomes


class NotingCluster(LocalCluster):
    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[EpochPlan, Sequence[TaskOutcome]]] = []

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return Noting(part, client, self.noted)

    @property
    def troubled(self) -> list[tuple[int, dict[int, str]]]:
        """The epochs with tasks in trouble: how many tasks had a commit, and what kind of trouble the others had."""
        found = []
        for _, outcomes in self.noted:
            kinds = {each.partition: each.trouble.kind for each in outcomes if each.trouble is not None}
            if kinds:
                found.append((sum(each.commit is not None for each in outcomes), kinds))
        return found


def commits(app: LocalApplication) -> list[CommitRecord]:
    found = app.log.commits("test-app")
    return [decode_commit(found.read(number)) for number in range(1, found.latest() + 1)]


def partitions_by_epoch(app: LocalApplication) -> dict[int, set[int]]:
    """Epoch -> the partitions that its commit has."""
    return {
        record.epoch: {task.partition for task in record.tasks}
        for record in commits(app)
        if isinstance(record, EpochRecord)
    }


def whole(app: LocalApplication) -> None:
    """Nothing was lost and nothing done twice."""
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


def client_of(app: LocalApplication) -> Path:
    return app.path / "state/client-1/test-app"


def flip_position(app: LocalApplication) -> None:
    """In partition 2: where the store stands is not what was written, in pages of now and of before."""
    with open(client_of(app) / "totals/2/data.mdb", "r+b") as file:  # written in place, as it is mapped
        content, at = file.read(), 0
        while (at := content.find(b"position", at) + 1) > 0:
            file.seek(at + 10)
            file.write(bytes([content[at + 10] ^ 0x20]))


def remove_store(app: LocalApplication) -> None:
    shutil.rmtree(client_of(app) / "totals/2")


def advance_store(app: LocalApplication) -> None:
    store = LmdbStore(client_of(app) / "totals/2")
    store.apply([([b"never committed"], [b"v"])], store.position, store.position + 1000)


@pytest.mark.parametrize(
    ("happens", "kind"), [(flip_position, "corrupted"), (remove_store, "corrupted"), (advance_store, "migrated")]
)
def test_task_whose_store_is_damaged_begins_again_and_the_others_of_its_epoch_are_committed(
    application, happens: Callable[[LocalApplication], None], kind: str
) -> None:
    app = fed(application(summed()))
    cluster = NotingCluster()
    story = Story(lambda commits: happens(app) if commits == 4 else None)

    result = app.attempt(app.settings(max_records=3), cluster, story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert cluster.troubled == [(PARTITIONS - 1, {2: kind})]
    (plan,) = [plan for plan, outcomes in cluster.noted if any(each.trouble for each in outcomes)]
    assert partitions_by_epoch(app)[plan.epoch] == {0, 1, 3}
    (told,) = story.of(TaskBeginsAgain)
    assert (told.subtopology, told.partition, told.client) == ("sums", 2, "client-1")
    whole(app)


def test_error_that_lmdb_raises_in_the_middle_of_a_tasks_work_is_that_tasks_alone(application, monkeypatch) -> None:
    app = fed(application(summed()))
    cluster = NotingCluster()
    raising: list[str] = []
    value_of = Environment.values

    def values(self, keys, stored):
        if raising and str(self.directory).endswith("totals/1"):
            raise lmdb.CursorFullError(raising.pop())
        return value_of(self, keys, stored)

    monkeypatch.setattr(Environment, "values", values)
    story = Story(lambda commits: raising.append("mdb_cursor_get: internal error") if commits == 4 else None)

    result = app.attempt(app.settings(max_records=3), cluster, story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert [kinds for _, kinds in cluster.troubled] == [{1: "corrupted"}]
    whole(app)


def test_epoch_of_an_old_assignment_does_nothing_and_is_planned_again(application) -> None:
    app = fed(application(summed()))

    class Late(NotingCluster):
        """Its fourth epoch begins when the client has worked for a newer assignment already."""

        def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
            job = super().job(part, client, application)
            run = job.run

            def late(plan: EpochPlan) -> tuple[TaskOutcome, ...]:
                if len(self.noted) != 3:
                    return run(plan)
                found = ProcessFile.read(client_of(app))
                assert found is not None
                replace(found, assignment=plan.assignment + 1).write(client_of(app))
                outcomes = run(plan)
                found.write(client_of(app))
                return outcomes

            job.run = late  # type: ignore[method-assign]
            return job

    cluster = Late()
    result = app.attempt(app.settings(max_records=3), cluster)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert cluster.troubled == [(0, dict.fromkeys(range(PARTITIONS), "old_assignment"))]
    plan, outcomes = cluster.noted[3]
    assert plan.epoch not in partitions_by_epoch(app)
    assert {(each.trouble.expected, each.trouble.found) for each in outcomes if each.trouble} == {
        (plan.assignment, plan.assignment + 1)
    }
    assert not list((app.path / "log").rglob(f"*-{plan.epoch}-*")), "it has written nothing"
    whole(app)


def taken_by_another(app: LocalApplication) -> None:
    """By a process that has ended since."""
    client = client_of(app)
    shutil.rmtree(client)
    ProcessFile.take(client, Owner("an earlier boot", 1, 0.0))


def removed(app: LocalApplication) -> None:
    shutil.rmtree(client_of(app))


@pytest.mark.parametrize("happens", [taken_by_another, removed])
def test_client_whose_directory_is_anothers_is_lost_with_all_its_tasks_and_joins_again(
    application, happens: Callable[[LocalApplication], None]
) -> None:
    app = fed(application(summed()))
    cluster = NotingCluster()
    story = Story(lambda commits: happens(app) if commits == 4 else None)

    result = app.attempt(app.settings(max_records=3), cluster, story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert cluster.troubled == [(0, dict.fromkeys(range(PARTITIONS), "wrong_client"))]
    assert (len(story.of(ClientLost)), len(story.of(ClientJoined))) == (1, 1)
    assert len({plan.process_id for plan, _ in cluster.noted}) == 2
    whole(app)


def test_client_that_was_lost_and_comes_back_has_another_process_id(application) -> None:
    app = fed(application(summed()))
    cluster = NotingCluster()

    def lost_and_found(commits: int) -> None:
        {4: cluster.lose, 8: cluster.find}.get(commits, str)("client-2")

    story = Story(lost_and_found)
    result = app.attempt(app.settings(max_records=2, clients=2), cluster, story)

    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert (len(story.of(ClientLost)), len(story.of(ClientJoined))) == (1, 1)
    ids = {(plan.client, plan.process_id) for plan, _ in cluster.noted}
    assert sorted(client for client, _ in ids) == ["client-1", "client-2", "client-2"]
    whole(app)


def test_plans_carry_the_number_of_the_commit_that_notes_their_assignment(application) -> None:
    app = fed(application(summed()))
    cluster = NotingCluster()
    cluster.lose("client-2")
    story = Story(lambda commits: cluster.find("client-2") if commits == 2 else None)

    app.attempt(app.settings(max_records=3, clients=2), cluster, story)

    numbers = [number for number, each in enumerate(commits(app), 1) if not isinstance(each, EpochRecord)]
    assert sorted({plan.assignment for plan, _ in cluster.noted}) == numbers
    assert len(numbers) == 2
    assert len(story.of(EpochCommitted)) > 0
    found = ProcessFile.read(client_of(app))
    assert found is not None
    assert found.assignment == numbers[-1]
