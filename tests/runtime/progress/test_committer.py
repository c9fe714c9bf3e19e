"""Who may claim an application, who may commit, and who learns that another driver has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.records import EpochRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committer import Committer, FencedError
from headwater.runtime.task_id import TaskKey

FIRST = TopologyDescription("t", incarnation="first")
TASKS = (TaskCommit("part", 0, {}, 0, records=1),)


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path)


def committer(log: EmbeddedLog) -> Committer:
    return Committer(LogState.load(log.commits("p-t")))


def test_later_claim_fences_the_earlier_driver(log: EmbeddedLog) -> None:
    earlier = committer(log)
    earlier.claim(FIRST)
    earlier.commit(1, TASKS)
    later = committer(log)
    assert later.claim(TopologyDescription("t", incarnation="second")) == 2
    with pytest.raises(FencedError) as caught:
        earlier.check()
    assert (caught.value.mine, caught.value.generation) == (1, 2)
    with pytest.raises(FencedError):
        earlier.commit(2, TASKS)
    assert LogState.load(log.commits("p-t")).incarnation == "first"


def test_driver_that_began_before_another_claimed_does_not_claim(log: EmbeddedLog) -> None:
    began_first, began_second = committer(log), committer(log)
    began_second.claim(FIRST)
    with pytest.raises(FencedError) as caught:
        began_first.claim(FIRST)
    assert (caught.value.mine, caught.value.generation) == (None, 1)
    began_second.commit(1, TASKS)


def test_driver_of_an_application_that_was_fully_refreshed_is_fenced(log: EmbeddedLog) -> None:
    old, idle, late = committer(log), None, None
    old.claim(FIRST)
    idle, late = committer(log), committer(log)
    log.drop("p-t")
    committer(log).claim(TopologyDescription("t", incarnation="second"))
    for act in (old.check, lambda: old.commit(1, TASKS), lambda: idle.claim(FIRST), lambda: late.claim(FIRST)):
        with pytest.raises(FencedError) as caught:
            act()
        assert caught.value.generation is None
        assert "p-t was fully refreshed by another run" in caught.value.message
    assert LogState.load(log.commits("p-t")).number == 1


def test_void_commit_of_an_earlier_incarnation_does_not_stop_the_driver(log: EmbeddedLog) -> None:
    driver = committer(log)
    driver.claim(FIRST)
    log.commits("p-t").create(2, encode_commit(EpochRecord(1, 1, 0, TASKS, "of a driver that was left over")))
    assert driver.commit(1, TASKS) == 3
    assert LogState.load(log.commits("p-t")).tasks.last_commit(TaskKey("p-t", "part", 0)).records == 1
