"""Topology carrier_delays of project flights 1.0.

Hourly departure delays of each airline, by name, and the flights that were hours late.

Made by `headwater compile` from topologies/carrier_delays.yml: change that file, not this
one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Fork,
    KeyBy,
    Pipe,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Table,
    Topic,
    Topology,
    Window,
    parse_duration,
    subtopology,
)

FILE = "topologies/carrier_delays.yml"

AIRLINES_RAW = Topic("airlines_raw", partitions=4, key="carrier string", value="name string")
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
HOURLY_REPARTITION = Topic(
    "flights-carrier_delays-hourly-repartition",
    partitions=4,
    key="airline string",
    value="dep_delay double",
    writer="flights-carrier_delays",
)
LONG_DELAYS = Topic(
    "long_delays",
    partitions=4,
    key="carrier string",
    value="airline string, flight int, route string, hours_late double",
    writer="flights-carrier_delays",
)
HOURLY_DELAYS = Topic(
    "hourly_delays",
    partitions=4,
    key="airline string",
    value="flights bigint, total_delay double, mean_delay double, worst_delay double",
    windowed=True,
    writer="flights-carrier_delays",
)

AIRLINE_NAMES = Store("airline_names", partitions=4, key="carrier string", value="name string")
DELAY_TOTALS = Store(
    "delay_totals",
    partitions=4,
    key="airline string",
    value="flights bigint, total_delay double, mean_delay double, worst_delay double",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
    retention_ms=parse_duration("2d"),
    aggregates=(
        Agg("flights", "count"),
        Agg("total_delay", "sum", "dep_delay", of="double", type="double"),
        Agg("mean_delay", "avg", "dep_delay", of="double", type="double"),
        Agg("worst_delay", "max", "dep_delay", of="double", type="double"),
    ),
)


@subtopology(0, "late", file=FILE)
def late(rows: Pipe) -> Pipe:
    """4 tasks: airlines_raw, flights -> flights-carrier_delays-hourly-repartition, long_delays.

    Stores: airline_names.
    """
    rows = rows.process(
        Source(AIRLINES_RAW, "airlines", at=7),
        # late: Late flights with their airline's name.
        Source(FLIGHTS, "late", columns=("dep_delay", "flight", "origin", "dest"), at=23),
    )
    rows = rows.where("late", "dep_delay > 15", at=27)
    rows = rows.process(
        Table("airlines", AIRLINE_NAMES, at=7),
        StreamTableJoin(
            "late",
            "airlines",
            AIRLINE_NAMES,
            how="left",
            values={"airline": "name"},
            at=28,
        ),
        Fork("late", into=("hourly", "very_late"), at=23),
        # hourly: Keyed by the name instead of the code, so through a repartition topic.
        KeyBy("hourly", {"airline": "airline"}, at=38),
        Sink("hourly", HOURLY_REPARTITION, mode="repartition", at=43),
    )
    # very_late: One record for each flight that left five hours late or more.
    rows = rows.where("very_late", "dep_delay >= 300", at=56)
    rows = rows.select(
        "very_late",
        {"route string": "concat(origin, '-', dest)", "hours_late double": "dep_delay / 60"},
        keep=("airline", "flight"),
        at=57,
    )
    return rows.process(Sink("very_late", LONG_DELAYS, at=65))


@subtopology(1, "hourly", file=FILE)
def hourly(rows: Pipe) -> Pipe:
    """4 tasks: flights-carrier_delays-hourly-repartition -> hourly_delays.

    Stores: delay_totals.
    """
    return rows.process(
        # hourly: Keyed by the name instead of the code, so through a repartition topic.
        Source(HOURLY_REPARTITION, "hourly", at=43),
        Aggregate("hourly", DELAY_TOTALS, emit="per_epoch", at=43),
        Sink("hourly", HOURLY_DELAYS, mode="per_epoch", at=50),
    )


TOPOLOGY = Topology(
    project="flights",
    name="carrier_delays",
    version="1.0",
    content_hash="6639ab519cb22b3f15194ba1fd78b1679c1648962b047bea07b861c6387097ad",
    subtopologies=(late, hourly),
)
