"""What a profile may and may not set of Spark."""

from __future__ import annotations

import pytest

from headwater.runtime.cluster.spark.session import LogLevelError, SettingError, begin_start, settings_of, start_cause


def test_executor_that_is_slow_is_given_up_no_sooner_than_spark_does_or_the_profile_says() -> None:
    limits = ("spark.network.timeout", "spark.executor.heartbeatInterval", "spark.network.timeoutInterval")
    assert not settings_of({"master": "local-cluster[2,1,1024]"}).keys() & set(limits)
    assert settings_of({"network.timeout": "300s"})["spark.network.timeout"] == "300s"


def test_setting_that_results_rest_on_cannot_be_changed() -> None:
    with pytest.raises(SettingError, match=r"sets spark\.speculation to 'true', but Headwater needs 'false'"):
        settings_of({"speculation": True})


def test_executors_are_added_by_dynamic_allocation_and_not_removed_when_they_are_idle() -> None:
    settings = settings_of({"master": "yarn", "dynamicAllocation.enabled": True, "dynamicAllocation.maxExecutors": 8})
    found = {name.removeprefix("spark.dynamicAllocation."): settings[name] for name in settings if "dynamicA" in name}
    assert found == {
        "enabled": "true",
        "minExecutors": "1",
        "maxExecutors": "8",
        "executorIdleTimeout": "2147483647s",
        "cachedExecutorIdleTimeout": "2147483647s",
        "shuffleTracking.timeout": "2147483647s",
    }


@pytest.mark.parametrize(
    ("setting", "value", "needed"),
    [
        ("executorIdleTimeout", "60s", "'2147483647s'"),
        ("cachedExecutorIdleTimeout", "60s", "'2147483647s'"),
        ("shuffleTracking.timeout", "60s", "'2147483647s'"),
        ("minExecutors", 0, "1 or more"),
    ],
)
def test_dynamic_allocation_that_would_remove_executors_with_stores_is_refused(
    setting: str, value: object, needed: str
) -> None:
    name = f"spark.dynamicAllocation.{setting}"
    with pytest.raises(SettingError, match=f"sets {name} to '{value}', but Headwater needs {needed}"):
        settings_of({"master": "yarn", "dynamicAllocation.enabled": True, name: value})


@pytest.mark.parametrize(
    ("error", "said", "cause"),
    [
        (
            RuntimeError("An error occurred while calling None.a.B.\n: a.SparkException: No such master\n\tat x"),
            "",
            "No such master",
        ),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
            "Picked up JAVA_TOOL_OPTIONS: -X\nInvalid maximum heap size: -Xmxbanana\nError: no JVM.\n",
            "Invalid maximum heap size: -Xmxbanana",
        ),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
            'Exception in thread "main" java.lang.IllegalArgumentException: bad size\n\tat x\n',
            "bad size",
        ),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] exited"),
            "",
            "its JVM has ended without a message; was it killed, for lack of memory?",
        ),
        (FileNotFoundError(2, "No such file or directory", "/no/bin/spark-submit"), "",
         "/no/bin/spark-submit: No such file or directory"),
    ],
)  # fmt: skip
def test_start_that_fails_is_told_in_a_line(error: Exception, said: str, cause: str) -> None:
    assert start_cause(error, said) == cause


def test_level_that_the_log_of_spark_does_not_have_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_SPARK_LOG", "wran")

    with pytest.raises(LogLevelError) as caught:
        begin_start({})

    assert (
        str(caught.value) == "HEADWATER_SPARK_LOG is 'WRAN', and Spark's log has no such level (did you mean 'WARN'?)"
    )
