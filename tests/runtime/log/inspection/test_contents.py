"""What is said of a log's content, also while it grows."""

from __future__ import annotations

from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.log.inspection.contents import ApplicationContents, contents
from headwater.runtime.log.log import Log
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WORDS, fed, summed


class Listing:
    """An observer that lists what is in the log after each epoch."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.found: list[tuple[ApplicationContents, ...]] = []

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self.found.append(contents(self._log))


def test_running_application_is_listed_after_each_commit_with_all_that_it_has_written(tmp_path):
    app = fed(LocalApplication(tmp_path, [summed()]))
    listing = Listing(app.log)

    result = app.attempt(app.settings(max_records=10), observer=listing)

    assert result.error is None
    counts = [
        [(each.application, topic.topic, topic.records) for each in found for topic in each.topics]
        for found in listing.found
    ]
    changelog = "test-app-totals-changelog"
    assert counts[-1] == [
        ("test-app", SUMS.name, PARTITIONS * RECORDS),
        ("test-app", changelog, 12),  # one for each key in each of three epochs
        ("test-seed", WORDS.name, PARTITIONS * RECORDS),
    ]
    written = [found[1][2] for found in counts]
    assert written == sorted(set(written))
    own, seeds = listing.found[-1]
    assert (own.generation, seeds.generation) == (1, 0)
    assert own.commits == 1 + len(listing.found)
    assert own.committed_at is not None
    assert own.files == len(list(app.log.files("test-app")))
    sums = own.topics[0]
    assert [(part.start, part.end, part.records) for part in sums.partitions] == [(0, RECORDS, RECORDS)] * PARTITIONS
    assert (sums.oldest, sums.newest) == (0, RECORDS - 1)


def test_partition_without_records_is_listed_as_empty(tmp_path):
    app = LocalApplication(tmp_path, [summed()])
    app.append(WORDS, [(("a",), (1,), 5)], partition=2)
    app.run()

    own, _ = contents(app.log)

    (sums,) = (topic for topic in own.topics if topic.topic == SUMS.name)
    found = [(part.partition, part.records, part.oldest) for part in sums.partitions]
    assert [(number, 0, None) for number in range(1, PARTITIONS)] == found[1:]
    assert found[0] == (0, 1, 5)  # where the key belongs
