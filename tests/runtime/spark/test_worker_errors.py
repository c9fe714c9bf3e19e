"""What a worker says of an error, as the driver takes it from Spark's text."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from headwater.runtime.cluster.spark.worker_errors import facts_of, worker_facts
from headwater.runtime.engine.failed_stage import Facts, StageFailedError


def test_last_error_of_a_chain_has_the_facts() -> None:
    record = StageFailedError(Facts("outside", "text that a record holds, to mislead"))
    own = Facts("step", "this is no number", "topologies/t.yml:7", too_large=True, records=7)
    text = (
        f"Traceback:\nValueError: StageFailedError: {record}\n\nThe above exception was the direct cause ...\n"
        f"headwater.runtime.engine.failed_stage.StageFailedError: {StageFailedError(own)}\n\tat org.apache.spark"
    )
    assert facts_of(RuntimeError(text)) == own


def test_error_without_facts_has_none() -> None:
    assert worker_facts(RuntimeError("StageFailedError: {cut off")) is None
    assert facts_of(RuntimeError("StageFailedError: {cut off")).kind == "unknown"


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("empty")])
def test_jvm_that_is_gone_is_told(error: Exception) -> None:
    facts = facts_of(error)
    assert facts.kind == "ended"
    assert "JVM has ended" in facts.cause


def test_causes_are_told_in_words() -> None:
    calling = "An error occurred while calling o1.collectToPython.\n"
    java = calling + ": org.apache.spark.SparkException: Job aborted: {}\n\tat x"
    assert "write [ab]* for (a|b)*" in facts_of(RuntimeError(java.format("java.lang.StackOverflowError"))).cause
    text = java.format("java.lang.OutOfMemoryError: Java heap space")
    assert facts_of(RuntimeError(text)).cause.endswith("(java.lang.OutOfMemoryError: Java heap space)")
    assert facts_of(RuntimeError(text)).too_large
    assert facts_of(RuntimeError(java.format("org.apache.arrow.vector.util.OversizedAllocationException: x"))).too_large
    assert not facts_of(RuntimeError(java.format("java.lang.StackOverflowError"))).too_large
    nested = (
        calling + ": a.b.AnException: outer\n\tat x\nCaused by: a.b.CException: [MALFORMED] bad\nCaused by: d.EError"
    )
    assert facts_of(RuntimeError(nested)).cause == "[MALFORMED] bad"
    bare = calling + ": a.b.AnException: outer\n\tat x\nCaused by: d.EError"
    assert facts_of(RuntimeError(bare)).cause == "d.EError"


def test_advice_to_change_settings_that_are_fixed_is_left_out() -> None:
    division = (
        "An error occurred while calling o1.collectToPython.\n"
        ": org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate "
        'divisor being 0 and return NULL instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this '
        "error. SQLSTATE: 22012\n\tat x"
    )
    assert facts_of(RuntimeError(division)).cause == (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. "
        "SQLSTATE: 22012"
    )


CRASHED = "An error occurred while calling o1.\n: org.apache.spark.SparkException: Python worker exited unexpectedly "
FAULT = """(crashed): Fatal Python error: Segmentation fault

Current thread 0x00007f2d (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "functions/pictures.py", line 12 in decoded
  File "functions/labels.py", line 4 in label
  File "/usr/lib/headwater/runtime/python_functions/calling.py", line 148 in _raised
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (
            FAULT,
            "Python worker exited unexpectedly (crashed): Segmentation fault in functions/pictures.py:12, in decoded",
        ),
        (
            "(crashed): Fatal Python error: Bus error\n\nCurrent thread 0x1 (most recent call first):\n",
            "Python worker exited unexpectedly (crashed): Bus error",
        ),
        (
            "(crashed): \n\tat org.apache",
            "Python worker exited unexpectedly and said nothing: its code has called `os._exit`, or it was killed, as "
            "for want of memory",
        ),
        (
            "(crashed). Consider setting 'spark.sql.execution.pyspark.udf.faulthandler.enabled'\n\tat org.apache",
            "Python worker exited unexpectedly and said nothing: its code has called `os._exit`, or it was killed, as "
            "for want of memory, or it has crashed",
        ),
    ],
)
def test_worker_that_died_is_told_with_what_has_ended_it_and_how_it_goes_on(told: str, cause: str) -> None:
    facts = facts_of(RuntimeError(CRASHED + told))
    assert (facts.kind, facts.cause) == ("crashed", cause)
    assert facts.hint.startswith("nothing of this epoch is committed; run again: it resumes from the last commit")
