"""Topology airport_traffic of project flights 1.0.

Take-offs and landings of every airport over the last day, and flights by the time zone they go to.

Made by `headwater compile` from topologies/airport_traffic.yml: change that file, not this one.
Content: 127e17ed9aae96a2c2b625eb196b813b5d4caaace9d2c7253106ba82013d53fe
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Flow,
    GlobalJoin,
    GlobalTable,
    Project,
    Sink,
    Source,
    Store,
    Subtopology,
    Topic,
    Window,
    explode,
    process,
    select,
    where,
)
from pyspark.sql import DataFrame

FLIGHTS = Topic(
    "flights",
    partitions=4,
    key="carrier string",
    value=(
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, arr_time int, "
        "sched_arr_time int, arr_delay double, flight int, tailnum string, origin string, dest string, "
        "air_time double, distance double, hour int, minute int, time_hour timestamp, scheduled timestamp"
    ),
    timestamp="scheduled",
)
ZONES_REPARTITION = Topic(
    "flights-airport_traffic-zones-repartition",
    partitions=4,
    key="zone string",
    value="air_time double, distance double",
    writer="flights-airport_traffic",
)
MOVEMENTS_REPARTITION = Topic(
    "flights-airport_traffic-movements-repartition",
    partitions=2,
    key="airport string",
    value="distance double",
    writer="flights-airport_traffic",
)
AIRPORT_MOVEMENTS = Topic(
    "airport_movements",
    partitions=2,
    key="airport string",
    value="movements bigint, miles double, airport_name string",
    windowed=True,
    writer="flights-airport_traffic",
)
FLIGHTS_BY_ZONE = Topic(
    "flights_by_zone",
    partitions=4,
    key="zone string",
    value="flights bigint, mean_miles double, mean_hours double",
    writer="flights-airport_traffic",
)
AIRPORTS_RAW = Topic(
    "airports_raw",
    partitions=2,
    key="faa string",
    value="name string, lat double, lon double, alt int, tz int, dst string, tzone string",
)
AIRPORTS = Store(
    "airports",
    partitions=2,
    key="faa string",
    value="name string, lat double, lon double, alt int, tz int, dst string, tzone string",
)
ROLLING = Store(
    "rolling",
    partitions=2,
    key="airport string",
    value="movements bigint, miles double, airport_name string",
    type="window",
    window=Window(size_ms=86_400_000, advance_ms=21_600_000, grace_ms=1_800_000),
    retention_ms=88_200_000,
    aggregates=(
        Agg("movements", "count"),
        Agg("miles", "sum", column="distance", of="double", type="double"),
        Agg("airport_name", "first", column="airport_name", of="string", type="string"),
    ),
)
ZONE_TOTALS = Store(
    "zone_totals",
    partitions=4,
    key="zone string",
    value="flights bigint, mean_miles double, mean_hours double",
    aggregates=(
        Agg("flights", "count"),
        Agg("mean_miles", "avg", column="distance", of="double", type="double"),
        Agg("mean_hours", "avg", column="air_time / 60", of="double", type="double"),
    ),
)
AIRPORTS_TABLE = GlobalTable("airports", topic=AIRPORTS_RAW, store=AIRPORTS)


def movements(tasks: DataFrame) -> DataFrame:
    """Subtopology 1, 4 tasks: flights -> flights-airport_traffic-zones-repartition,
    flights-airport_traffic-movements-repartition.
    """
    rows = process(
        tasks,
        Source(
            FLIGHTS,
            into=("movements", "zones"),
            columns=Flow(
                "carrier string",
                "dep_time int, origin string, dest string, air_time double, distance double",
            ),
            rank=1,
            at="topologies/airport_traffic.yml:17",
        ),
        GlobalJoin(
            "zones",
            table=AIRPORTS_TABLE,
            how="inner",
            by={"faa": "dest"},
            values={"zone": "tzone"},
            at="topologies/airport_traffic.yml:58",
        ),
        Project("zones", key={"zone": "zone"}, at="topologies/airport_traffic.yml:65"),
        Sink("zones", ZONES_REPARTITION, mode="repartition", at="topologies/airport_traffic.yml:67"),
        yields={"movements": Flow("carrier string", "dep_time int, origin string, dest string, distance double")},
    )
    rows = where(rows, "dep_time is not null", at="topologies/airport_traffic.yml:21")
    rows = explode(
        rows,
        {"airport": "array(origin, dest)"},
        keep=("carrier", "distance"),
        at="topologies/airport_traffic.yml:22",
    )
    return process(
        rows,
        Project(
            "movements",
            value={"airport": "airport", "distance": "distance"},
            at="topologies/airport_traffic.yml:24",
        ),
        Project("movements", key={"airport": "airport"}, at="topologies/airport_traffic.yml:27"),
        Sink(
            "movements",
            MOVEMENTS_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            at="topologies/airport_traffic.yml:29",
        ),
        reads={"movements": Flow("carrier string", "distance double, airport string")},
    )


def movements_rekeyed(tasks: DataFrame) -> DataFrame:
    """Subtopology 2, 2 tasks: flights-airport_traffic-movements-repartition -> airport_movements.

    Stores: rolling.
    """
    return process(
        tasks,
        Source(MOVEMENTS_REPARTITION, into=("movements",), rank=1, at="topologies/airport_traffic.yml:29"),
        GlobalJoin(
            "movements",
            table=AIRPORTS_TABLE,
            how="left",
            by={"faa": "airport"},
            values={"airport_name": "name"},
            at="topologies/airport_traffic.yml:31",
        ),
        Aggregate("movements", ROLLING, emit="collapsed", name="rolling", at="topologies/airport_traffic.yml:47"),
        Sink("movements", AIRPORT_MOVEMENTS, mode="per_epoch", at="topologies/airport_traffic.yml:52"),
    )


def zones(tasks: DataFrame) -> DataFrame:
    """Subtopology 3, 4 tasks: flights-airport_traffic-zones-repartition -> flights_by_zone.

    Stores: zone_totals.
    """
    rows = process(
        tasks,
        Source(ZONES_REPARTITION, into=("zones",), rank=1, at="topologies/airport_traffic.yml:67"),
        yields={"zones": Flow("zone string", "air_time double, distance double")},
    )
    rows = select(
        rows,
        {"air_time / 60": "air_time / 60"},
        keep=("zone", "distance"),
        at="topologies/airport_traffic.yml:67",
    )
    return process(
        rows,
        Aggregate("zones", ZONE_TOTALS, emit="collapsed", name="zone_totals", at="topologies/airport_traffic.yml:67"),
        Sink("zones", FLIGHTS_BY_ZONE, mode="per_epoch", at="topologies/airport_traffic.yml:73"),
        reads={"zones": Flow("zone string", "distance double, `air_time / 60` double")},
    )


SUBTOPOLOGIES = (
    Subtopology(
        1,
        "movements",
        partitions=4,
        build=movements,
        sources=(FLIGHTS,),
        sinks=(ZONES_REPARTITION, MOVEMENTS_REPARTITION),
        global_tables=(AIRPORTS_TABLE,),
    ),
    Subtopology(
        2,
        "movements_rekeyed",
        partitions=2,
        build=movements_rekeyed,
        sources=(MOVEMENTS_REPARTITION,),
        sinks=(AIRPORT_MOVEMENTS,),
        stores=(ROLLING,),
        global_tables=(AIRPORTS_TABLE,),
    ),
    Subtopology(
        3,
        "zones",
        partitions=4,
        build=zones,
        sources=(ZONES_REPARTITION,),
        sinks=(FLIGHTS_BY_ZONE,),
        stores=(ZONE_TOTALS,),
    ),
)
