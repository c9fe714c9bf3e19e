"""Topology carrier_delays of project flights 1.0.

Hourly departure delays of each airline, by name, and the flights that were hours late.

Made by `headwater compile` from topologies/carrier_delays.yml: change that file, not this one.
Content: c8784df3cd7c2198e8d6199e6a84441ed55ca5637c47ef97aac6714f89baef2c
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Flow,
    Fork,
    Project,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Subtopology,
    Table,
    Topic,
    Window,
    process,
    select,
    where,
)
from pyspark.sql import DataFrame

AIRLINES_RAW = Topic("airlines_raw", partitions=4, key="carrier string", value="name string")
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
    window=Window(size_ms=3_600_000, advance_ms=3_600_000, grace_ms=600_000),
    retention_ms=172_800_000,
    aggregates=(
        Agg("flights", "count"),
        Agg("total_delay", "sum", column="dep_delay", of="double", type="double"),
        Agg("mean_delay", "avg", column="dep_delay", of="double", type="double"),
        Agg("worst_delay", "max", column="dep_delay", of="double", type="double"),
    ),
)


def late(tasks: DataFrame) -> DataFrame:
    """Subtopology 0, 4 tasks: airlines_raw, flights -> flights-carrier_delays-hourly-repartition, long_delays.

    Stores: airline_names.
    """
    rows = process(
        tasks,
        Source(AIRLINES_RAW, into=("airlines",), at="topologies/carrier_delays.yml:7"),
        Source(
            FLIGHTS,
            into=("late",),
            columns=Flow("carrier string", "dep_delay double, flight int, origin string, dest string"),
            rank=1,
            at="topologies/carrier_delays.yml:23",
        ),
        yields={
            "airlines": Flow("carrier string", "name string"),
            "late": Flow("carrier string", "dep_delay double, flight int, origin string, dest string"),
        },
    )
    rows = where(rows, "dep_delay > 15", flow="late", at="topologies/carrier_delays.yml:27")
    rows = process(
        rows,
        Table("airlines", AIRLINE_NAMES, at="topologies/carrier_delays.yml:7"),
        StreamTableJoin(
            "late",
            table="airlines",
            store=AIRLINE_NAMES,
            how="left",
            values={"airline": "name"},
            at="topologies/carrier_delays.yml:28",
        ),
        Fork("late", into=("hourly", "very_late"), at="topologies/carrier_delays.yml:23"),
        Project("hourly", key={"airline": "airline"}, at="topologies/carrier_delays.yml:38"),
        Sink("hourly", HOURLY_REPARTITION, mode="repartition", at="topologies/carrier_delays.yml:43"),
        reads={
            "airlines": Flow("carrier string", "name string"),
            "late": Flow("carrier string", "dep_delay double, flight int, origin string, dest string"),
        },
        yields={
            "very_late": Flow(
                "carrier string",
                "dep_delay double, flight int, origin string, dest string, airline string",
            ),
        },
    )
    rows = where(rows, "dep_delay >= 300", at="topologies/carrier_delays.yml:56")
    rows = select(
        rows,
        {"route": "concat(origin, '-', dest)", "hours_late": "dep_delay / 60"},
        keep=("carrier", "airline", "flight"),
        at="topologies/carrier_delays.yml:57",
    )
    return process(
        rows,
        Sink("very_late", LONG_DELAYS, at="topologies/carrier_delays.yml:65"),
        reads={"very_late": Flow("carrier string", "airline string, flight int, route string, hours_late double")},
    )


def hourly(tasks: DataFrame) -> DataFrame:
    """Subtopology 1, 4 tasks: flights-carrier_delays-hourly-repartition -> hourly_delays.

    Stores: delay_totals.
    """
    return process(
        tasks,
        Source(HOURLY_REPARTITION, into=("hourly",), rank=1, at="topologies/carrier_delays.yml:43"),
        Aggregate("hourly", DELAY_TOTALS, emit="collapsed", name="delay_totals", at="topologies/carrier_delays.yml:43"),
        Sink("hourly", HOURLY_DELAYS, mode="per_epoch", at="topologies/carrier_delays.yml:50"),
    )


SUBTOPOLOGIES = (
    Subtopology(
        0,
        "late",
        partitions=4,
        build=late,
        sources=(AIRLINES_RAW, FLIGHTS),
        sinks=(HOURLY_REPARTITION, LONG_DELAYS),
        stores=(AIRLINE_NAMES,),
    ),
    Subtopology(
        1,
        "hourly",
        partitions=4,
        build=hourly,
        sources=(HOURLY_REPARTITION,),
        sinks=(HOURLY_DELAYS,),
        stores=(DELAY_TOTALS,),
    ),
)
