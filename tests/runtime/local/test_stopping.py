"""Runs that are told to stop, as by Ctrl-C: real loop, log and stores, in this process."""

from __future__ import annotations

import shutil
import threading

import pyarrow as pa
import pytest

from headwater.runtime.driver.client_events import StoreRestoring
from headwater.runtime.driver.events import ApplicationStopping, EpochCommitted, Event
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, fed, passed_through, summed
from headwater.tests.runtime.local.test_rebalance import Story, whole


class StopsWhileRestoring(Story):
    """Stops the run once a part of a store is restored."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()

    def on(self, event: Event) -> None:
        super().on(event)
        if isinstance(event, StoreRestoring) and event.position > 0:
            self.stop.set()


@pytest.mark.usefixtures("short_slices")
def test_run_that_is_stopped_while_it_restores_ends_and_the_next_one_goes_on_from_there(application) -> None:
    app: LocalApplication = fed(application(summed()))
    app.run(max_records=2)
    shutil.rmtree(app.settings().state_dir)
    stopped = StopsWhileRestoring()
    result = app.attempt(observer=stopped, stop=stopped.stop)
    assert (result.status, result.error) == ("interrupted", None)
    last = {event.partition: event.position for event in stopped.of(StoreRestoring)}
    story = Story()
    assert app.attempt(observer=story).status == "caught_up"
    first = {event.partition: event.position for event in reversed(story.of(StoreRestoring))}
    assert len(last) == PARTITIONS
    of_one = [
        event.bytes_left for event in [*stopped.of(StoreRestoring), *story.of(StoreRestoring)] if not event.partition
    ]
    assert of_one[0] > of_one[-1] == 0
    assert of_one == sorted(of_one, reverse=True)
    assert any(0 < position < RECORDS for position in last.values())
    assert all(first.get(partition, RECORDS) >= position for partition, position in last.items())
    whole(app)


class GoesOnOnceTold(Story):
    """Has an epoch end once the run says that it waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def on(self, event: Event) -> None:
        super().on(event)
        if isinstance(event, ApplicationStopping):
            self.told.set()


def test_run_that_is_stopped_while_a_function_takes_its_time_says_so_and_commits_it(application) -> None:
    story, stop = GoesOnOnceTold(), threading.Event()

    def takes_its_time(rows: pa.RecordBatch) -> pa.RecordBatch:
        stop.set()
        story.told.wait()
        return rows

    app: LocalApplication = fed(application(passed_through(takes_its_time)))
    assert app.attempt(observer=story, stop=stop).status == "interrupted"

    assert story.of(ApplicationStopping) == [ApplicationStopping("test-app", 1)]
    assert len(story.of(EpochCommitted)) == 1
