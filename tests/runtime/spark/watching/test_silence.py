"""How long an executor counts as silent."""

from __future__ import annotations

from headwater.runtime.cluster.spark.watching import DeadlineError, Silence


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def listened(looks: list[tuple[float, dict[str, int]]]) -> dict[str, float]:
    """What is known after looks at these times."""
    clock = Clock()
    silence = Silence(clock)
    found: dict[str, float] = {}
    for clock.now, last in looks:
        found = dict(silence.listen(last))
    return found


def test_executor_is_silent_since_its_last_heartbeat_was_noticed() -> None:
    heard = [(0.0, {"1": 70, "2": 70}), (0.5, {"1": 72, "2": 70}), (1.0, {"1": 72, "2": 70})]
    assert listened(heard) == {"1": 0.5, "2": 1.0}


def test_executor_that_is_heard_again_is_not_silent() -> None:
    assert listened([(0.1 * look, {"1": 70}) for look in range(100)] + [(10.0, {"1": 71})]) == {"1": 0.0}


def test_time_in_which_this_process_was_suspended_counts_as_silence_of_nobody() -> None:
    assert listened([(0.0, {"1": 70}), (0.5, {"1": 70}), (600.0, {"1": 70}), (600.5, {"1": 70})]) == {"1": 1.0}


def test_executor_that_comes_back_after_it_was_away_begins_anew() -> None:
    assert listened([(0.0, {"1": 70}), (0.5, {}), (1.0, {"1": 70})]) == {"1": 0.0}


def test_deadline_that_heartbeats_are_too_rare_for_is_refused_with_what_would_do() -> None:
    error = DeadlineError(5.0, 10.0)

    assert "a deadline of 5 s, but executors send a heartbeat every 10 s only" in error.message
    assert error.hint == "give it 30s or more, or set `executor.heartbeatInterval: 1250ms` in the `spark:` section"
