"""What every test may use: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    from headwater.runtime.engine.session import start_session

    session = start_session({"master": "local[2]"}, "headwater-tests")
    yield session
    session.stop()
