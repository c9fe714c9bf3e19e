from __future__ import annotations

from headwater.cli.progress import Progress, sentence
from headwater.runtime.engine.events import (
    ApplicationStarted,
    ApplicationStopped,
    AssignmentFailed,
    EpochCommitted,
    RecordFailed,
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


def test_committed_epoch_is_told_with_rate_and_lag() -> None:
    assert sentence(epoch(1000, 20)) == "flights-delays/late: commit 7, 1,000 records (2,000/s), lag 20"


def test_failed_record_is_told_with_its_message() -> None:
    told = sentence(RecordFailed("flights-delays", "late", 2, "x.yml:3: cannot be processed"))

    assert told == "flights-delays/late: task 2 stopped: x.yml:3: cannot be processed"


def test_failed_assignor_is_told_with_what_it_said_wrong() -> None:
    told = sentence(AssignmentFailed("a-b", "mine", "an active task on two clients: 0_0", ("c1: 0_0", "c2: 0_0")))

    assert told == (
        "a-b: tasks stay where they were, as assignor mine failed: an active task on two clients: 0_0"
        "\n    c1: 0_0\n    c2: 0_0"
    )


def test_end_is_told_with_its_reason() -> None:
    assert sentence(ApplicationStopped("a-b", "caught_up", 12_000, 3)) == "a-b: caught up, 12,000 records in 3 commits"
