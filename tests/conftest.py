"""What every test may use: one Spark session for the whole run; and how property tests take their examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples each time, so that a red run is about the change. `--hypothesis-profile random` looks for new ones.
# A busy machine may take as long as it likes for an example.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNHURRIED, derandomize=True)
settings.register_profile("random", UNHURRIED, derandomize=False)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    from headwater.runtime.engine.session import start_session

    session = start_session({"master": "local[2]"}, "headwater-tests")
    yield session
    session.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """With several processes (`-n 2`): tests of the Spark session stay in one, others by file, long ones begin."""
    if not config.getoption("numprocesses", 0) and not hasattr(config, "workerinput"):
        return
    for item in items:
        group = "spark session" if "spark_session" in item.fixturenames else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def _turn(item: pytest.Function) -> int:
    if "spark_session" in item.fixturenames:
        return 0
    return 1 if item.get_closest_marker("spark") or item.get_closest_marker("cluster") else 2


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))
