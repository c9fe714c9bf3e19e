"""Applications that are paused and resumed while they run, and before: real loop, log and stores, in this process."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import stopping as pausing
from headwater.runtime.driver.events import ApplicationPaused, ApplicationResumed, EpochCommitted
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.driver.status import RunStatus
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, WHOLE_SUMS, WORDS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story, whole
from headwater.tests.waiting import wait_until

APPLICATION = "test-app"

Start = Callable[..., Future[RunResults]]


pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture(autouse=True)
def asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is asked in each round of the loop."""
    monkeypatch.setattr(pausing, "EVERY_SECONDS", 0.0)


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def start(stop: threading.Event) -> Iterator[Start]:
    """Begins a run in another thread, which is told to stop at the end of the test."""
    with ThreadPoolExecutor(1) as pool:

        def started(app: LocalApplication, observer: Story, until_caught_up: bool) -> Future[RunResults]:
            settings = app.settings(max_records=3, clients=2)
            return pool.submit(
                run_topologies,
                [app.topology],
                settings,
                LocalCluster(),
                until_caught_up=until_caught_up,
                observer=observer,
                stop=stop,
            )

        try:
            yield started
        finally:
            stop.set()


def status(app: LocalApplication) -> RunStatus | None:
    text = app.log.read_status(APPLICATION)
    return None if text is None else RunStatus.from_text(APPLICATION, text)


def standing(app: LocalApplication, after: int = 0) -> RunStatus:
    """The status of a run that stands still, written later than `after`."""

    def found() -> RunStatus | None:
        now = status(app)
        return now if now is not None and now.paused and now.written_at > after else None

    return wait_until(found)


def test_paused_run_begins_nothing_until_it_is_resumed(application, start: Start) -> None:
    app = fed(application(summed()))
    story = Story(lambda commits: app.log.pause(APPLICATION) if commits == 3 else None)
    run = start(app, story, until_caught_up=True)
    first = standing(app)
    app.append(WORDS, [(("k0",), (7,), 100)])
    later = standing(app, first.written_at)
    assert later.commits == first.commits == len(story.of(EpochCommitted)) < PARTITIONS * 10
    assert (later.ended, len(story.of(ApplicationPaused))) == (None, 1)
    app.log.resume(APPLICATION)
    (result,) = run.result().applications
    assert (result.status, result.error, result.generation) == ("caught_up", None, later.generation)
    assert len(story.of(ApplicationResumed)) == 1
    assert last_sums(app)["k0"] == (31, WHOLE_SUMS["k0"][1] + 7)


def test_pause_outlasts_the_run_and_the_next_one_restores_nothing_until_resumed(
    application, start: Start, stop: threading.Event
) -> None:
    app = fed(application(summed()))
    app.run(clients=2)
    shutil.rmtree(Path(app.settings().state_dir))
    app.log.pause(APPLICATION)
    run = start(app, Story(), until_caught_up=False)
    tasks = [task for client in standing(app).clients for task in client.tasks]
    assert {(task.state, task.stores[0].position) for task in tasks} == {("created", 0)}
    app.log.resume(APPLICATION)
    wait_until(lambda: all(task.state == "running" for client in status(app).clients for task in client.tasks))
    stop.set()
    (result,) = run.result().applications
    assert (result.status, result.error) == ("interrupted", None)
    whole(app)


def test_paused_run_ends_when_it_is_told_to(application, start: Start, stop: threading.Event) -> None:
    app = fed(application(summed()))
    app.log.pause(APPLICATION)
    run = start(app, Story(), until_caught_up=False)
    standing(app)
    stop.set()
    (result,) = run.result().applications
    assert (result.status, result.error, result.commits) == ("interrupted", None, 0)


def test_run_until_caught_up_does_not_begin_while_paused_and_says_how_to_go_on(application) -> None:
    app = fed(application(summed()))
    app.log.pause(APPLICATION)
    result = app.attempt()
    assert result.status == "failed"
    assert result.error.startswith("test-app is paused since 2")
    assert "`headwater resume --select app` ends the pause" in result.error
    app.log.resume(APPLICATION)
    app.run()
    whole(app)
