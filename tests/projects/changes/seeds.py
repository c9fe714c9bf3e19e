"""In place of the example's own seeds: the same tables, cut so small that a project is built in a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import feather

DATA = Path(__file__).parents[1] / "data"


def airlines() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "airlines.feather")


def airports() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "airports.feather")


def planes() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "planes.feather")


def weather() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "weather.feather")


def flights() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "flights.feather")


def departures() -> Iterator[pa.Table]:
    yield feather.read_table(DATA / "departures.feather")
