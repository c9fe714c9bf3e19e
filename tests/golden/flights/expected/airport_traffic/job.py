"""Topology airport_traffic of project flights 1.0.

Take-offs and landings of every airport over the last day, and flights by the time zone they
go to.

Made by `headwater compile` from topologies/airport_traffic.yml: change that file, not this
one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    GlobalJoin,
    GlobalTable,
    KeyBy,
    Pipe,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Window,
    subtopology,
)

FILE = "topologies/airport_traffic.yml"

FLIGHTS = Topic(
    "flights",
    partitions=4,
    key="carrier string",
    value=(
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, "
        "arr_time int, sched_arr_time int, arr_delay double, flight int, tailnum string, "
        "origin string, dest string, air_time double, distance double, hour int, minute int, "
        "time_hour timestamp, scheduled timestamp"
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
    window=Window.hopping("1d", advance="6h", grace="30m"),
    aggregates=(
        Agg("movements", "count"),
        Agg("miles", "sum", "distance", of="double", type="double"),
        Agg("airport_name", "first", "airport_name", of="string", type="string"),
    ),
)
ZONE_TOTALS = Store(
    "zone_totals",
    partitions=4,
    key="zone string",
    value="flights bigint, mean_miles double, mean_hours double",
    aggregates=(
        Agg("flights", "count"),
        Agg("mean_miles", "avg", "distance", of="double", type="double"),
        Agg("mean_hours", "avg", "air_time / 60", of="double", type="double"),
    ),
)

AIRPORTS_TABLE = GlobalTable("airports", topic=AIRPORTS_RAW, store=AIRPORTS)


@subtopology(1, "movements", file=FILE)
def movements(rows: Pipe) -> Pipe:
    """4 tasks: flights -> flights-airport_traffic-zones-repartition,
    flights-airport_traffic-movements-repartition.
    """
    rows = rows.process(
        # movements: A flight is a movement at two airports.
        Source(
            FLIGHTS,
            ("movements", "zones"),
            columns=("dep_time", "origin", "dest", "air_time", "distance"),
            at=17,
        ),
        # zones: Flights to airports that are not in the table drop out of an inner join.
        GlobalJoin(
            "zones",
            table=AIRPORTS_TABLE,
            how="inner",
            by={"faa": "dest"},
            values={"zone": "tzone"},
            at=58,
        ),
        KeyBy("zones", {"zone": "zone"}, at=65),
        Sink("zones", ZONES_REPARTITION, mode="repartition", at=67),
        keep={"movements": ("dep_time", "origin", "dest", "distance")},
    )
    rows = rows.where("movements", "dep_time is not null", at=21)
    rows = rows.explode(
        "movements",
        {"airport string": "array(origin, dest)"},
        keep=("distance",),
        at=22,
    )
    return rows.process(
        KeyBy("movements", {"airport": "airport"}, at=27),
        Sink("movements", MOVEMENTS_REPARTITION, mode="repartition", keep_null_keys=True, at=29),
    )


@subtopology(2, "movements_rekeyed", file=FILE)
def movements_rekeyed(rows: Pipe) -> Pipe:
    """2 tasks: flights-airport_traffic-movements-repartition -> airport_movements.

    Stores: rolling.
    """
    return rows.process(
        # movements: A flight is a movement at two airports.
        Source(MOVEMENTS_REPARTITION, "movements", at=29),
        GlobalJoin(
            "movements",
            table=AIRPORTS_TABLE,
            how="left",
            by={"faa": "airport"},
            values={"airport_name": "name"},
            at=31,
        ),
        # rolling: One day, four times a day.
        Aggregate("movements", ROLLING, emit="per_epoch", at=47),
        Sink("movements", AIRPORT_MOVEMENTS, mode="per_epoch", at=52),
    )


@subtopology(3, "zones", file=FILE)
def zones(rows: Pipe) -> Pipe:
    """4 tasks: flights-airport_traffic-zones-repartition -> flights_by_zone.

    Stores: zone_totals.
    """
    rows = rows.process(
        # zones: Flights to airports that are not in the table drop out of an inner join.
        Source(ZONES_REPARTITION, "zones", at=67),
    )
    rows = rows.select(
        "zones",
        {"`air_time / 60` double": "air_time / 60"},
        keep=("distance",),
        at=67,
    )
    return rows.process(
        Aggregate("zones", ZONE_TOTALS, emit="per_epoch", at=67),
        Sink("zones", FLIGHTS_BY_ZONE, mode="per_epoch", at=73),
    )


TOPOLOGY = Topology(
    project="flights",
    name="airport_traffic",
    version="1.0",
    content_hash="efafd52066e0da4790b4b2686d2461bc73d1ba71ac9a0283b5fca757a92a6141",
    subtopologies=(movements, movements_rekeyed, zones),
)
