"""The session of a project, where Spark is not as it should be."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from headwater.runtime.spark.session.on_demand import SparkOnDemand


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("empty"), EOFError()])
def test_session_whose_jvm_was_killed_can_be_closed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Killed:
        def stop(self) -> None:
            raise error

    monkeypatch.setattr("headwater.runtime.spark.session.session.start_session", lambda _, begun: Killed())
    spark = SparkOnDemand(dict)
    spark.session()
    spark.close()
