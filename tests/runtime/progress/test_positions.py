"""Positions that lie past the end of their topic: commits were removed, or one application's were put back alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from commits import Applications, part, segment, topic, topology

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.errors import ConsumedRecordsMissingError
from headwater.runtime.progress.positions import Gap, gaps
from headwater.runtime.task_id import global_task
from headwater.runtime.topology import GlobalTable, Store, Topology

RAW, NAMES = topic("raw"), topic("names")
CLEAN = topic("clean", writer="p-cleaning")
TABLE = GlobalTable("names", NAMES, Store("names", 2, "k string", "v bigint"))
CLEANING = topology("cleaning", part("clean", (RAW,), (CLEAN,), tables=(TABLE,)))
DAYS = topology("days", part("days", (CLEAN,)))


@pytest.fixture
def applications(tmp_path: Path) -> Applications:
    return Applications(EmbeddedLog(tmp_path))


def remove_last_commit(applications: Applications, application: str) -> None:
    paths = sorted((Path(applications.log.root) / "commits" / application).glob("*.json"))
    paths[-1].unlink()


def found(applications: Applications, declared: Topology) -> list[Gap]:
    return list(gaps(declared, Committed(applications.log, declared)))


def test_all_that_was_consumed_is_there(applications: Applications) -> None:
    applications.feed("raw", 3, 4)
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 0, {"raw": {0: 7}})
    assert found(applications, CLEANING) == []


def test_last_append_that_was_removed_is_missed(applications: Applications) -> None:
    applications.feed("raw", 3, 4)
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 0, {"raw": {0: 7}})
    remove_last_commit(applications, "p-seed")
    (gap,) = found(applications, CLEANING)
    assert gap == Gap("raw", 0, 7, 3)
    message = str(ConsumedRecordsMissingError("p-cleaning", [gap]))
    assert "raw[0]: consumed up to offset 7, and it ends at 3" in message


def test_writer_whose_commits_were_put_back_from_an_older_copy_is_missed(applications: Applications) -> None:
    applications.start(CLEANING)
    applications.commit("cleaning", "clean", 1, {}, segment("clean", 5, lane=1))
    applications.commit("cleaning", "clean", 1, {}, segment("clean", 5, lane=1))
    applications.start(DAYS)
    applications.commit("days", "days", 0, {"clean": {1: 10}})
    remove_last_commit(applications, "p-cleaning")
    (gap,) = found(applications, DAYS)
    assert gap == Gap("clean", 0, 10, 5, lane=1)
    assert str(gap) == "clean[0]: consumed up to position 10 of task 1 of its writer, and it ends at 5"


def test_records_of_a_global_table_that_are_gone_are_missed(applications: Applications) -> None:
    applications.feed("names", 1, 1, partition=1)
    applications.start(CLEANING)
    _, *task = global_task("p-cleaning")
    applications.commit("cleaning", *task, {}, globals_={"names": {1: 2}})
    remove_last_commit(applications, "p-seed")
    assert found(applications, CLEANING) == [Gap("names", 1, 2, 1)]
