"""A log that has lost the newest commit of an application: its stores are ahead of what is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headwater.runtime.driver.client_events import ForeignStoresWiped
from headwater.runtime.driver.events import Event
from headwater.runtime.ir.topology import Settings
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication
from headwater.tests.runtime.local.summing import (
    PARTITIONS,
    RECORDS,
    SUM_OF_ONE,
    SUMS,
    WHOLE_SUMS,
    WORDS,
    fed,
    last_sums,
    summed,
)

Make = Callable[..., LocalApplication]


@dataclass
class Seen:
    events: list[Event] = field(default_factory=list)

    def on(self, event: Event) -> None:
        self.events.append(event)

    @property
    def wiped(self) -> list[set[str]]:
        return [set(each.stores) for each in self.events if isinstance(each, ForeignStoresWiped)]


def went_well(app: LocalApplication, settings: Settings) -> Seen:
    seen = Seen()
    result = app.attempt(settings, observer=seen)
    assert (result.status, result.error) == ("caught_up", None), result.error
    return seen


def lose_newest(app: LocalApplication) -> None:
    """Remove the newest commit with records of the application, and any behind it."""
    commits = sorted((app.path / "log" / "commits" / APPLICATION).glob("*.json"))
    while commits:
        last = commits.pop()
        text = last.read_text()
        last.unlink()
        if '"type": "epoch"' in text or '"type":"epoch"' in text:
            return
    raise AssertionError("there is no epoch")


@pytest.mark.parametrize("backend", ["lmdb", "rocksdb"])
def test_stores_of_a_lost_commit_are_wiped_and_its_records_are_counted_once(application: Make, backend: str) -> None:
    app = fed(application(summed(backend=backend)))
    went_well(app, app.settings(max_records=12))
    lose_newest(app)
    # What takes the place of the lost epoch are other records.
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (1000,), 99)], partition)
    seen = went_well(app, app.settings(max_records=12))
    assert seen.wiped == [{f"totals/{partition}" for partition in range(PARTITIONS)}]
    assert set(last_sums(app).values()) == {(RECORDS + 1, SUM_OF_ONE[1] + 1000)}
    assert len(app.read(SUMS)) == (RECORDS + 1) * PARTITIONS


def test_stores_of_a_lost_commit_are_wiped_also_when_the_log_has_as_many_commits_again(application: Make) -> None:
    app = fed(application(summed()))
    went_well(app, app.settings(max_records=12))
    lose_newest(app)
    for number in range(2):
        for partition in range(PARTITIONS):
            app.append(WORDS, [((f"k{partition}",), (1000,), 99 + number)], partition)
        assert went_well(app, app.settings(max_records=12, state="elsewhere")).wiped == []
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (5,), 200)], partition)
    # These stores are behind the log by now, but have changes that it does not have.
    assert went_well(app, app.settings()).wiped == [{f"totals/{partition}" for partition in range(PARTITIONS)}]
    assert set(last_sums(app).values()) == {(RECORDS + 3, SUM_OF_ONE[1] + 2005)}


def test_stores_ahead_of_the_log_are_wiped_also_if_nothing_says_of_which_commits_they_are(application: Make) -> None:
    app = fed(application(summed()))
    went_well(app, app.settings(max_records=12))
    for _ in range(2):
        lose_newest(app)
    for note in (app.path / "state").rglob(".*.commit"):
        note.unlink()
    went_well(app, app.settings(max_records=5))
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS
