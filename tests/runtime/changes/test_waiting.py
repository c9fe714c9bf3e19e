"""What an application has not consumed yet, and about how long a run takes for it."""

from __future__ import annotations

from pathlib import Path

from headwater.runtime.changes.rebuild_groups import from_the_first, waiting
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.committed import Committed
from headwater.tests.runtime.driver.commits import Applications, part, segment, topic, topology

FED, OTHER, AGAIN = topic("fed"), topic("other", writer="p-o"), topic("again", writer="p-t")
READER = topology("t", part("reads", (FED, OTHER), (AGAIN,)), part("rekeyed", (AGAIN,)))


def test_unread_records_are_counted_with_the_time_of_the_slowest_task(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    applications = Applications(log)
    applications.feed("fed", 10)
    applications.feed("fed", 6, partition=1)
    committed = Committed(log, READER)
    found = waiting(READER, committed)
    assert (found.records, found.topics, found.seconds) == (16, {"fed": 16}, None)

    applications.start(READER)
    for at, records in ((0, 4), (1000, 4)):
        done = {"fed": {0: 4 + at // 250}}
        made = segment("again", 3, lane=0)
        applications.commit("t", "reads", 0, done, made, at=at, records=records)
        applications.commit("t", "reads", 1, {"fed": {0: 2 + at // 1000}}, at=at, records=1)

    found = waiting(READER, Committed(log, READER))
    # Partition 0 has 2 records left at 4 a second, partition 1 has 3 at 1 a second. Its own topic does not count.
    assert (found.records, found.topics, found.seconds) == (5, {"fed": 5}, 3.0)


def test_all_that_is_there_is_read_from_the_first_record_on(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    applications = Applications(log)
    applications.feed("fed", 10)

    fed, other = from_the_first(READER, Committed(log, READER))

    assert (fed.topic, fed.records, fed.start) == ("fed", 10, {0: 0, 1: 0})
    assert (other.topic, other.records) == ("other", 0)
