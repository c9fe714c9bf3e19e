"""What a profile may and may not set of Spark."""

from __future__ import annotations

import pytest

from headwater.runtime.engine.session import SettingError, settings_of


def test_executor_that_is_slow_is_given_up_no_sooner_than_spark_does_or_the_profile_says() -> None:
    limits = ("spark.network.timeout", "spark.executor.heartbeatInterval", "spark.network.timeoutInterval")
    assert not settings_of({"master": "local-cluster[2,1,1024]"}).keys() & set(limits)
    assert settings_of({"network.timeout": "300s"})["spark.network.timeout"] == "300s"


def test_setting_that_results_rest_on_cannot_be_changed() -> None:
    with pytest.raises(SettingError, match=r"sets spark\.speculation to 'true', but Headwater needs 'false'"):
        settings_of({"speculation": True})
