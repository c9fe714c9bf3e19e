"""The example project with less than two hundred flights in its seeds, and some more that are appended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from headwater.runtime.driver.cluster import Cluster
from headwater.tests.projects.changes.deployed import Deployed
from headwater.tests.projects.flights_run import EVERYTHING, FLIGHTS, copy_of_flights
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

EVERY, APPENDED = 5, 40
"""One of so many flights of the first day is in the seed; so many of the second day's are appended at a time."""


def files_of_flights(root: Path) -> Path:
    """The project's own files, but for the seeds."""
    copy_of_flights(root, EVERYTHING)
    shutil.copy(Path(__file__).with_name("seeds.py"), root / "functions" / "seeds.py")
    return root


def deployed_flights(root: Path, cluster: Callable[[], Cluster] = ArrowCluster) -> Deployed:
    """Built, appended to, and run again."""
    files_of_flights(root)
    tables = _tables()
    (root / "data").mkdir()
    fed: dict[str, dict[str, Sequence[Mapping[str, Any]]]] = {"before": {}, "after": {}}
    night = pa.scalar(datetime.fromisoformat("2013-01-02T05:00:00Z"))
    # As tasks take them, in whatever parts they come, and whichever airports share a partition.
    tables["flights"] = tables["flights"].sort_by("scheduled")
    tables["weather"] = tables["weather"].sort_by("time_hour")
    for name, key in (("flights", "carrier"), ("departures", "origin")):
        first = pc.less(tables[name]["scheduled"], night)
        second = _some(tables[name].filter(pc.invert(first)))
        tables[name] = _some(tables[name].filter(first))
        fed["before"][name] = _records(second[:APPENDED], key, "scheduled")
        fed["after"][name] = _records(second[APPENDED : 2 * APPENDED], key, "scheduled")
    # A flight meets the weather that was there when it came: so that comes in parts, too.
    weather, hours = tables["weather"], tables["weather"]["time_hour"]
    noon = pa.scalar(fed["after"]["flights"][0]["timestamp"] * 1000).cast(hours.type)
    tables["weather"] = weather.filter(pc.less(hours, night))
    between = pc.and_(pc.greater_equal(hours, night), pc.less(hours, noon))
    fed["before"]["weather"] = _records(weather.filter(between), "origin", "time_hour")
    fed["after"]["weather"] = _records(weather.filter(pc.greater_equal(hours, noon)), "origin", "time_hour")
    for name, table in tables.items():
        feather.write_feather(table, root / "data" / f"{name}.feather")
    return Deployed.made(root, fed, cluster)


def _tables() -> dict[str, pa.Table]:
    """What the example's own seeds give of two days."""
    spec = spec_from_file_location("seeds_of_flights", FLIGHTS / "functions" / "seeds.py")
    assert spec is not None
    assert spec.loader is not None
    seeds = module_from_spec(spec)
    spec.loader.exec_module(seeds)
    with patch.dict(os.environ, FLIGHTS_DAYS="2"):
        names = ("airlines", "airports", "planes", "weather", "flights", "departures")
        return {name: next(getattr(seeds, name)()) for name in names}


def _some(table: pa.Table) -> pa.Table:
    return table.take(list(range(0, len(table), EVERY)))


def _records(table: pa.Table, key: str, time: str) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": int(row[time].timestamp() * 1000),
            "key": {key: row[key]},
            "value": {
                name: each.isoformat() if isinstance(each, datetime) else each
                for name, each in row.items()
                if name != key
            },
        }
        for row in table.to_pylist()
    ]
