"""What every test may use: a Spark session for each process of the run; and how property tests take their examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = (
    "runtime/driver/test_kills.py",
    "projects/test_flights.py",
    "cluster/test_executors.py",
    "conformance/test_cases.py",
)
"""Files of a minute or more. Begun last, one of them would run while the other processes have nothing left to do."""

# The same examples each time, so that a red run is about the change. `--hypothesis-profile random` looks for new ones.
# A busy machine may take as long as it likes for an example.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNHURRIED, derandomize=True)
settings.register_profile("random", UNHURRIED, derandomize=False)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    from headwater.runtime.spark.session.session import start_session

    session = start_session({"master": "local[2]"}, "headwater-tests")
    yield session
    session.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """With several processes (`-n 2`), which take a file after the other: those that take longest begin."""
    if config.getoption("numprocesses", 0) or hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Function) -> int:
    file = item.path.relative_to(Path(__file__).parent).as_posix()
    if file in LONGEST:
        return LONGEST.index(file)
    on_spark = item.get_closest_marker("spark") or item.get_closest_marker("cluster")
    return len(LONGEST) + (0 if on_spark else 1)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))
