"""What a worker says of an error, as the driver takes it from Spark's text."""

from __future__ import annotations

from headwater.runtime.spark.worker_errors import Facts, StageFailedError, facts_of


def test_last_error_of_a_chain_has_the_facts() -> None:
    record = StageFailedError(Facts("outside", "text that a record holds, to mislead"))
    own = Facts("step", "this is no number", "topologies/t.yml:7")
    text = (
        f"Traceback:\nValueError: StageFailedError: {record}\n\nThe above exception was the direct cause ...\n"
        f"headwater.runtime.spark.worker_errors.StageFailedError: {StageFailedError(own)}\n\tat org.apache.spark"
    )
    assert facts_of(RuntimeError(text)) == own


def test_error_without_facts_has_none() -> None:
    assert facts_of(RuntimeError("StageFailedError: {cut off")) is None
