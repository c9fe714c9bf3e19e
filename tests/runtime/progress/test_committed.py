"""What a driver knows of its own application and of those it reads from, directly or through others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.ir.topology import GlobalTable, Store
from headwater.runtime.log.commit.records import RewriteRecord
from headwater.runtime.log.embedded.commits import DirectoryCommitStore
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.task_id import TaskKey
from headwater.tests.runtime.driver.commits import Applications, part, segment, topic, topology

RAW = topic("raw")
CLEAN = topic("clean", writer="p-cleaning")
DAILY = topic("daily", writer="p-days")
CLEANING = topology("cleaning", part("clean", (RAW,), (CLEAN,)))
DAYS = topology("days", part("days", (CLEAN,), (DAILY,)))
REPORT = topology("report", part("report", (DAILY,)))


@pytest.fixture
def applications(tmp_path: Path) -> Applications:
    return Applications(EmbeddedLog(tmp_path))


def test_topics_from_outside_that_never_had_a_record_are_empty(applications: Applications) -> None:
    other = topic("other")
    table = GlobalTable("prices", topic("prices"), Store("prices", 2, "k string", "v bigint"))
    reads = topology("reads", part("reads", (RAW, other, CLEAN), tables=(table,)))
    assert Committed(applications.log, reads).empty() == ("other", "prices", "raw")

    applications.feed("raw", 3, partition=1)

    assert Committed(applications.log, reads).empty() == ("other", "prices")


def test_unread_is_what_is_committed_beyond_the_consumed_positions(applications: Applications) -> None:
    applications.feed("raw", 3, 4)
    applications.feed("raw", 2, partition=1)
    committed = applications.start(CLEANING)
    assert [committed.unread(TaskKey("p-cleaning", "clean", number)) for number in range(2)] == [7, 2]
    applications.commit("cleaning", "clean", 0, {"raw": {0: 5}})
    committed.own.refresh()
    assert committed.unread(TaskKey("p-cleaning", "clean", 0)) == 2


def test_reader_that_is_ahead_of_what_is_known_of_its_writer_has_nothing_unread(applications: Applications) -> None:
    applications.feed("raw", 2)
    committed = applications.start(CLEANING)
    applications.feed("raw", 3)
    applications.commit("cleaning", "clean", 0, {"raw": {0: 5}})
    committed.own.refresh()
    assert committed.unread(TaskKey("p-cleaning", "clean", 0)) == 0


def test_topic_whose_writer_never_started_has_nothing_unread(applications: Applications) -> None:
    committed = applications.start(DAYS)
    assert committed.unread(TaskKey("p-days", "days", 0)) == 0
    assert committed.network().writer("clean") is None


def test_refresh_takes_up_others_and_moves_the_version(applications: Applications) -> None:
    committed = applications.start(CLEANING)
    before = committed.version
    committed.refresh()
    assert committed.version == before
    applications.feed("raw", 3)
    committed.refresh()
    assert committed.version != before
    assert committed.of(RAW).end("raw", 0) == 3


def test_file_that_another_process_has_just_replaced_is_not_listed(applications: Applications) -> None:
    committed = applications.start(CLEANING)
    applications.feed("raw", 3)
    committed.refresh()
    (old,) = committed.of(RAW).segments()
    assert committed.lists(old.path)
    nothing_left = replace(old, path="", batches=(), span=3)
    LogState.load(applications.log.commits("p-seed")).commit(RewriteRecord(0, 0, (nothing_left,)))
    assert not committed.lists(old.path)


def test_own_state_is_never_refreshed_so_that_another_driver_is_noticed_at_the_next_commit(
    applications: Applications,
) -> None:
    committed = applications.start(CLEANING)
    applications.start(CLEANING)
    committed.refresh()
    assert committed.own.generation == 1


def test_writers_of_writers_become_known_once_their_readers_start(applications: Applications) -> None:
    committed = applications.start(REPORT)
    assert set(committed.states) == {"p-report", "p-seed", "p-days"}
    applications.start(DAYS)
    committed.refresh()
    assert set(committed.states) == {"p-report", "p-seed", "p-days", "p-cleaning"}
    applications.start(CLEANING)
    committed.refresh()
    assert committed.network().writer("clean") == ("p-cleaning", "clean")
    assert committed.network().writer("daily") == ("p-days", "days")


def test_writer_of_a_global_table_is_known(applications: Applications) -> None:
    table = GlobalTable("days", DAILY, Store("days", 2, "k string", "v bigint"))
    committed = applications.start(topology("t", part("reads", (RAW,), tables=(table,))))
    assert committed.of(DAILY).application == "p-days"


def test_applications_behind_are_the_others_with_unread_input(applications: Applications) -> None:
    for each in (CLEANING, DAYS):
        applications.start(each)
    committed = applications.start(REPORT)
    assert committed.behind() == ()
    applications.feed("raw", 3, partition=1)
    committed.refresh()
    assert committed.behind() == ("p-cleaning",)
    applications.commit("cleaning", "clean", 1, {"raw": {0: 3}}, segment("clean", 2, 0, 1))
    committed.refresh()
    assert committed.behind() == ("p-days",)
    applications.commit("days", "days", 0, {"clean": {1: 2}}, segment("daily", 1, 0, 0))
    committed.refresh()
    assert committed.behind() == ()
    assert committed.unread(TaskKey("p-report", "report", 0)) == 1


def test_idleness_goes_through_all_applications(applications: Applications) -> None:
    for each in (CLEANING, DAYS):
        applications.start(each)
    committed = applications.start(REPORT)
    tasks = [TaskKey("p-days", "days", number) for number in range(2)]

    def idle() -> list[bool]:
        found = committed.idle(tasks, committed.network())
        return [found[task] for task in tasks]

    assert idle() == [True, True]
    applications.feed("raw", 1)
    committed.refresh()
    assert idle() == [False, False]


class Busy(EmbeddedLog):
    """A log in which something happens each time somebody looks for commits of `application`."""

    application = ""
    meanwhile: Iterator[Callable[[], None]] = iter(())

    def commits(self, application: str) -> DirectoryCommitStore:
        return BusyCommits(self, super().commits(application))


class BusyCommits(DirectoryCommitStore):
    def __init__(self, log: Busy, commits: DirectoryCommitStore) -> None:
        super().__init__(commits.application, log.root / "commits" / commits.application)
        self._log = log

    def identity(self, number: int) -> str | None:
        if self.application == self._log.application:
            next(self._log.meanwhile, lambda: None)()
        return super().identity(number)


def test_states_are_of_one_moment_though_others_commit_while_they_are_read(tmp_path: Path) -> None:
    log, applications = Busy(tmp_path), Applications(EmbeddedLog(tmp_path))
    applications.start(CLEANING)
    applications.start(DAYS)
    committed = Committed(log, DAYS)

    def feed_and_clean() -> None:
        applications.feed("raw", 1)
        applications.feed("raw", 1, partition=1)
        applications.commit("cleaning", "clean", 0, {"raw": {0: 1}}, segment("clean", 1))

    log.application, log.meanwhile = "p-cleaning", iter([feed_and_clean])
    committed.refresh()

    assert committed.of(CLEAN).end("clean", 0) == 1
    tasks = [TaskKey("p-cleaning", "clean", number) for number in range(2)]
    assert committed.idle(tasks, committed.network()) == {tasks[0]: True, tasks[1]: False}
