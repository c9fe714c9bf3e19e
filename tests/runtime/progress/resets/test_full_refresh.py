"""Starting applications again: what is forgotten, in which order, and who is asked to start with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.ir.topology import GlobalTable, Store
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitDamagedError
from headwater.runtime.progress.resets import readers, refresh_fully
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId
from headwater.tests.runtime.driver.commits import Applications, part, topic, topology

RAW = topic("raw")
CLEAN = topic("clean", writer="p-cleaning")
NAMES = GlobalTable("names", topic("raw_names"), Store("names", 2, "k string", "v bigint"))
CLEANING = topology("cleaning", part("clean", (RAW,), (CLEAN,), tables=(NAMES,)))
DAYS = topology("days", part("days", (CLEAN,)))


class Dying(EmbeddedLog):
    """A log whose process dies when the second application is forgotten."""

    def drop(self, application: str) -> None:
        if len(self.applications()) == 1:
            raise KeyboardInterrupt
        super().drop(application)


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = Dying(tmp_path / "log")
    for each in (CLEANING, DAYS):
        Applications(log).start(each)
    return log


def test_what_holds_a_topic_in_a_global_table_has_read_it(log: EmbeddedLog) -> None:
    assert readers(log, ["raw_names"]) == ["p-cleaning", "p-days"]
    assert readers(log, ["clean"]) == ["p-days"]


@pytest.mark.parametrize("order", [["p-cleaning", "p-days"], ["p-days", "p-cleaning"]])
def test_broken_off_it_leaves_no_reader_of_what_is_gone_and_no_store_of_lost_commits(
    log: EmbeddedLog, tmp_path: Path, order: list[str]
) -> None:
    directory = StateDirectory(tmp_path / "state", "client-1", "p-days")
    directory.store_path(StoreId("totals", 0)).mkdir(parents=True)
    ProcessFile.take(directory.path, Owner("boot", 1, 0.0))

    with pytest.raises(KeyboardInterrupt):
        refresh_fully(log, tmp_path / "state", order)

    assert log.applications() == ["p-cleaning"]
    assert directory.stores() == []


@pytest.mark.parametrize("damage", [b"", b'{"format":2}'])
def test_application_whose_commits_cannot_be_read_can_be_fully_refreshed(
    log: EmbeddedLog, tmp_path: Path, damage: bytes
) -> None:
    (log.root / "commits" / "p-days" / "000000000001.json").write_bytes(damage)
    refresh_fully(log, tmp_path / "state", ["p-days"])
    assert log.applications() == ["p-cleaning"]


def test_writer_of_an_application_whose_commits_cannot_be_read_stays(log: EmbeddedLog, tmp_path: Path) -> None:
    (log.root / "commits" / "p-days" / "000000000001.json").write_bytes(b"")
    with pytest.raises(CommitDamagedError):
        refresh_fully(log, tmp_path / "state", ["p-cleaning"])
    assert log.applications() == ["p-cleaning", "p-days"]


def test_stores_of_other_machines_are_not_looked_for_on_this_one(log: EmbeddedLog, tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state", "client-1", "p-days")
    directory.store_path(StoreId("totals", 0)).mkdir(parents=True)

    refresh_fully(log, None, ["p-days"])

    assert log.applications() == ["p-cleaning"]
    assert directory.stores() == [StoreId("totals", 0)]
