import pytest

from headwater.runtime.engine.events import (
    ApplicationStopped,
    AssignmentFailed,
    EpochCommitted,
    RecordFailed,
)
from headwater.runtime.engine.sentences import counted, sentence, waiting


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")])
def test_only_one_thing_is_singular(number: int, text: str) -> None:
    assert counted(number, "record") == text


def test_waiting_agrees_with_the_number() -> None:
    assert waiting(1, ("p-a",)) == "1 record waits for p-a"
    assert waiting(2, ("p-a", "p-b")) == "2 records wait for p-a, p-b"


def test_committed_epoch_is_told_with_rate_and_lag() -> None:
    assert (
        sentence(EpochCommitted("flights-delays", "late", "0", 7, 1000, 20, 0.5))
        == "flights-delays/late: commit 7, 1,000 records (2,000/s), lag 20"
    )


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
