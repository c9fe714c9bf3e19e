"""Copies of stores that tasks have left behind are removed while the application runs."""

from __future__ import annotations

from dataclasses import replace

from headwater.runtime.driver.client_events import CopiesRemoved
from headwater.runtime.driver.events import Event
from headwater.tests.runtime.local.summing import PARTITIONS, WHOLE_SUMS, WORDS, fed, last_sums, summed


class Seen:
    """An observer that keeps what was removed."""

    def __init__(self) -> None:
        self.removed: list[CopiesRemoved] = []

    def on(self, event: Event) -> None:
        if isinstance(event, CopiesRemoved):
            self.removed.append(event)


def test_copies_that_tasks_have_left_behind_are_removed_and_told(application):
    app = fed(application(summed()))
    app.run(clients=1)
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (0,), 100)], partition)
    seen = Seen()
    result = app.attempt(replace(app.settings(clients=2), state_cleanup_delay_ms=0), observer=seen)
    assert (result.status, result.error) == ("caught_up", None)
    stay, moved = ({task.partition("_")[2] for task in result.assignment[f"client-{number}"]} for number in (1, 2))
    assert moved
    here = {path.name for path in (app.path / "state/client-1/test-app/totals").iterdir() if path.name.isdecimal()}
    assert here == stay
    assert {name for each in seen.removed for name in each.stores} == {f"totals/{partition}" for partition in moved}
    assert "of which it has no task: totals/" in seen.removed[0].text
    assert last_sums(app) == {key: (n + 1, total) for key, (n, total) in WHOLE_SUMS.items()}


def test_copies_are_kept_as_long_as_the_delay_says(application):
    app = fed(application(summed()))
    app.run(clients=1)
    seen = Seen()
    app.append(WORDS, [(("k0",), (0,), 100)], 0)
    result = app.attempt(app.settings(clients=2), observer=seen)
    assert result.assignment["client-2"]
    assert seen.removed == []
    assert len(list((app.path / "state/client-1/test-app/totals").glob("[0-9]"))) == PARTITIONS
