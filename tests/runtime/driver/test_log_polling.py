from __future__ import annotations

from headwater.runtime.driver.epoch_plans import LogPolling, MadeCommits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_log_that_costs_nothing_is_looked_at_in_each_round() -> None:
    polling = LogPolling(0, MadeCommits(), Clock())
    assert [polling.due() for _ in range(3)] == [True, True, True]


def test_log_that_wants_few_looks_is_left_alone_until_the_next_is_due() -> None:
    clock = Clock()
    polling = LogPolling(1.5, MadeCommits(), clock)
    assert [polling.due() for _ in range(3)] == [True, False, False]
    clock.now = 1.4
    assert not polling.due()
    clock.now = 1.5
    assert [polling.due() for _ in range(2)] == [True, False]
    polling.soon()
    assert [polling.due() for _ in range(2)] == [True, False]


def test_commit_of_another_driver_of_the_process_is_looked_for_at_once_and_an_own_one_is_not() -> None:
    made, clock = MadeCommits(), Clock()
    one, other = LogPolling(60, made, clock), LogPolling(60, made, clock)
    assert (one.due(), other.due()) == (True, True)
    one.committed()
    one.committed()
    assert (one.due(), other.due(), other.due()) == (False, True, False)
    other.committed()
    assert (one.due(), other.due()) == (True, False)
