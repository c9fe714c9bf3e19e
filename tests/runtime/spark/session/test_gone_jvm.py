"""What is said of the end of Spark's JVM."""

from __future__ import annotations

import signal

import pytest

from headwater.runtime.cluster.spark.jvm import SparkEndedError


@pytest.mark.parametrize("by", [None, signal.SIGKILL])
def test_jvm_that_the_kernel_may_have_killed_is_told_with_its_memory(by: signal.Signals | None) -> None:
    error = SparkEndedError(by)

    assert "for lack of memory?" in error.message
    assert "raise `driver.memory`" in (error.hint or "")


def test_jvm_that_a_signal_has_ended_is_told_with_the_signal_and_how_to_end_a_run() -> None:
    error = SparkEndedError(signal.SIGTERM)

    assert error.message == "Spark's JVM was ended by SIGTERM"
    assert "send the signal to headwater's own process" in (error.hint or "")
    assert "memory" not in str(error)
