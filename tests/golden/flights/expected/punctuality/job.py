"""Topology punctuality of project flights 1.0.

Departures counted in the hour they were due, from a feed in the order they really left: a
flight that left more
than the grace period after its hour comes too late to be counted.

Made by `headwater compile` from topologies/punctuality.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Pipe,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Window,
    parse_duration,
    subtopology,
)

FILE = "topologies/punctuality.yml"

DEPARTURES = Topic(
    "departures",
    partitions=1,
    key="origin string",
    value="carrier string, flight int, dest string, dep_delay double, scheduled timestamp",
    timestamp="scheduled",
)
DEPARTURES_BY_HOUR = Topic(
    "departures_by_hour",
    partitions=1,
    key="origin string",
    value="departures bigint, last_carrier string, first_flight int",
    windowed=True,
    writer="flights-punctuality",
)
RUSH_HOURS = Topic(
    "rush_hours",
    partitions=1,
    key="origin string",
    value="departures bigint, mean_delay double",
    windowed=True,
    writer="flights-punctuality",
)

HOURLY_DEPARTURES = Store(
    "hourly_departures",
    partitions=1,
    key="origin string",
    value="departures bigint, last_carrier string, first_flight int",
    type="window",
    window=Window.tumbling("1h", grace="15m"),
    retention_ms=parse_duration("12h"),
    aggregates=(
        Agg("departures", "count"),
        Agg("last_carrier", "last", "carrier", of="string", type="string"),
        Agg("first_flight", "first", "flight", of="int", type="int"),
    ),
)
RUSH = Store(
    "rush",
    partitions=1,
    key="origin string",
    value="departures bigint, mean_delay double",
    type="window",
    window=Window.hopping("3h", advance="1h", grace="30m"),
    aggregates=(
        Agg("departures", "count"),
        Agg("mean_delay", "avg", "dep_delay", of="double", type="double"),
    ),
)


@subtopology(0, "by_hour", file=FILE)
def by_hour(rows: Pipe) -> Pipe:
    """1 task: departures -> departures_by_hour, rush_hours.

    Stores: hourly_departures, rush.
    """
    return rows.process(
        # by_hour: Every update is written, as a dashboard would want it.
        Source(DEPARTURES, ("by_hour", "rush"), columns=("carrier", "flight", "dep_delay"), at=14),
        Aggregate("by_hour", HOURLY_DEPARTURES, at=21),
        Sink("by_hour", DEPARTURES_BY_HOUR, mode="each_update", at=28),
        # rush: Three hours, every hour; a late flight may be too late for one window and in time
        # for the next.
        Aggregate("rush", RUSH, emit="per_epoch", at=38),
        Sink("rush", RUSH_HOURS, mode="per_epoch", at=42),
    )


TOPOLOGY = Topology(
    project="flights",
    name="punctuality",
    version="1.0",
    content_hash="3a549a2bad36ab792ab8ac230b10748d6700867cd7634c86226f2d6c5081201a",
    subtopologies=(by_hour,),
)
