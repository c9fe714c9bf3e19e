from __future__ import annotations

from headwater.cli.progress import Progress
from headwater.runtime.driver.events import (
    ApplicationStarted,
    EpochCommitted,
    Waiting,
)


def epoch(records: int, lag: int, *, subtopology: str = "late", client: str = "0", dropped: int = 0) -> EpochCommitted:
    return EpochCommitted(
        "flights-delays", subtopology, client, 7, records, lag, 0.5, {"late:null_key": dropped} if dropped else {}
    )


def test_epochs_of_several_clients_are_added_up() -> None:
    progress = Progress()
    progress.on(ApplicationStarted("flights-delays", 3, 8, 0))
    progress.on(epoch(100, 900, client="0"))
    progress.on(epoch(50, 850, client="1", dropped=2))

    (line,) = progress.lines()

    assert (line.records, line.commits, line.dropped) == (150, 2, 2)


def test_lag_of_a_subtopology_is_that_of_its_newest_epoch() -> None:
    progress = Progress()
    progress.on(epoch(100, 900, client="0"))
    progress.on(epoch(50, 850, client="1"))
    progress.on(epoch(10, 40, subtopology="hourly"))

    assert progress.lines()[0].lag == 890


def test_application_that_waits_says_for_whom() -> None:
    progress = Progress()
    progress.on(Waiting("flights-delays", 5, ("flights-fleet",)))

    assert progress.lines()[0].note == "waits for flights-fleet"
