"""The session of a project, where Spark is not as it should be."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from headwater.errors import HeadwaterError
from headwater.runtime.cluster.spark.on_demand import SparkOnDemand


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("empty"), EOFError()])
def test_session_whose_jvm_was_killed_can_be_closed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Killed:
        def stop(self) -> None:
            raise error

    monkeypatch.setattr("headwater.runtime.cluster.spark.session.start_session", lambda _, begun: Killed())
    spark = SparkOnDemand(dict)
    spark.session()
    spark.close()


def test_session_that_starts_for_an_expression_says_so_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_settings: object, begun: object) -> None:
        raise HeadwaterError("no Java")

    monkeypatch.setattr("headwater.runtime.cluster.spark.session.start_session", fails)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)  # of a test before, in this process
    told: list[str] = []
    spark = SparkOnDemand(dict, starting=told.append)
    for reason in ("", "a.yml:1:2: soundex(t): only Spark knows it"):
        spark.because(reason)
        with pytest.raises(HeadwaterError, match="no Java"):
            spark.session()
    assert told == ["Spark starts for a.yml:1:2: soundex(t): only Spark knows it"]
