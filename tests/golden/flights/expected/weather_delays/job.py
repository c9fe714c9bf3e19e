"""Topology weather_delays of project flights 1.0.

What rain and wind do to departures, with the weather as it was in the flight's own hour.

Made by `headwater compile` from topologies/weather_delays.yml: change that file, not this
one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    KeyBy,
    Materialize,
    Merge,
    Pipe,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Table,
    Topic,
    Topology,
    subtopology,
)

FILE = "topologies/weather_delays.yml"

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
OBSERVED_REPARTITION = Topic(
    "flights-weather_delays-observed-repartition",
    partitions=2,
    key="origin string",
    value="tailnum string, dep_delay double, time_hour timestamp",
    writer="flights-weather_delays",
)
WEATHER = Topic(
    "weather",
    partitions=2,
    key="origin string",
    value=(
        "year int, month int, day int, hour int, temp double, dewp double, humid double, "
        "wind_dir double, wind_speed double, wind_gust double, precip double, pressure double, "
        "visib double, time_hour timestamp"
    ),
    timestamp="time_hour",
)
IMPACT_REPARTITION = Topic(
    "flights-weather_delays-impact-repartition",
    partitions=2,
    key="origin string, weather string",
    value="tailnum string, dep_delay double, temp double",
    writer="flights-weather_delays",
)
WEATHER_IMPACT = Topic(
    "weather_impact",
    partitions=2,
    key="origin string, weather string",
    value=(
        "flights bigint, cancelled bigint, mean_delay double, shortest_delay double, "
        "worst_delay double, mean_temp double, planes bigint"
    ),
    writer="flights-weather_delays",
)

LATEST_WEATHER = Store(
    "latest_weather",
    partitions=2,
    key="origin string",
    value=(
        "year int, month int, day int, hour int, temp double, dewp double, humid double, "
        "wind_dir double, wind_speed double, wind_gust double, precip double, pressure double, "
        "visib double, time_hour timestamp"
    ),
)
WEATHER_TOTALS = Store(
    "weather_totals",
    partitions=2,
    key="origin string, weather string",
    value=(
        "flights bigint, cancelled bigint, mean_delay double, shortest_delay double, "
        "worst_delay double, mean_temp double, planes bigint"
    ),
    aggregates=(
        Agg("flights", "count"),
        Agg("count(dep_delay)", "count", "dep_delay", of="double"),
        Agg("mean_delay", "avg", "dep_delay", of="double", type="double"),
        Agg("shortest_delay", "min", "dep_delay", of="double", type="double"),
        Agg("worst_delay", "max", "dep_delay", of="double", type="double"),
        Agg("mean_temp", "avg", "temp", of="double", type="double"),
        Agg("planes", "approx_count_distinct", "tailnum", of="string"),
    ),
)


@subtopology(0, "observed", file=FILE)
def observed(rows: Pipe) -> Pipe:
    """4 tasks: flights -> flights-weather_delays-observed-repartition."""
    return rows.process(
        # observed: Flights by airport, on as many partitions as the weather, with the weather of
        # their hour.
        Source(FLIGHTS, "observed", columns=("dep_delay", "tailnum", "origin", "time_hour"), at=22),
        KeyBy("observed", {"origin": "origin"}, at=31),
        Sink("observed", OBSERVED_REPARTITION, mode="repartition", at=33),
    )


@subtopology(1, "observed_rekeyed", file=FILE)
def observed_rekeyed(rows: Pipe) -> Pipe:
    """2 tasks: weather, flights-weather_delays-observed-repartition ->
    flights-weather_delays-impact-repartition.

    Stores: latest_weather.
    """
    rows = rows.process(
        # conditions: The last observation of each airport. Tasks take records by time, so a flight
        # meets the observation of its hour, whatever the order in which the two topics were filled.
        Source(WEATHER, "conditions", at=8),
        Table("conditions", LATEST_WEATHER, at=8),
        # observed: Flights by airport, on as many partitions as the weather, with the weather of
        # their hour.
        Source(OBSERVED_REPARTITION, "observed", at=33),
        StreamTableJoin(
            "observed",
            "conditions",
            LATEST_WEATHER,
            how="inner",
            values={
                "observed_at": "time_hour",
                "temp": "temp",
                "precip": "precip",
                "wind_speed": "wind_speed",
            },
            at=35,
        ),
    )
    rows = rows.where("observed", "observed_at = time_hour", at=43)
    rows = rows.select(
        "observed",
        keep=("tailnum", "dep_delay", "temp", "precip", "wind_speed"),
        at=44,
    )
    rows = rows.branch(
        "observed",
        {"wet": "precip > 0", "windy": "wind_speed >= 20 and wind_speed < 200", "calm": None},
        keep=("tailnum", "dep_delay", "temp"),
        at=50,
    )
    rows = rows.with_columns("wet", {"weather string": "'rain'"}, at=60)
    rows = rows.with_columns("windy", {"weather string": "'wind'"}, at=66)
    rows = rows.with_columns("calm", {"weather string": "'calm'"}, at=72)
    return rows.process(
        Merge(("wet", "windy", "calm"), into="impact", at=75),
        KeyBy("impact", {"origin": "origin", "weather": "weather"}, at=81),
        Sink("impact", IMPACT_REPARTITION, mode="repartition", at=84),
    )


@subtopology(2, "impact", file=FILE)
def impact(rows: Pipe) -> Pipe:
    """2 tasks: flights-weather_delays-impact-repartition -> weather_impact.

    Stores: weather_totals.
    """
    rows = rows.process(
        Source(IMPACT_REPARTITION, "impact", at=84),
        Aggregate("impact", WEATHER_TOTALS, at=84),
    )
    rows = rows.select(
        "impact",
        {"cancelled bigint": "flights - `count(dep_delay)`"},
        keep=("flights", "mean_delay", "shortest_delay", "worst_delay", "mean_temp", "planes"),
        at=84,
    )
    return rows.process(
        Materialize("impact", WEATHER_TOTALS, at=84),
        Sink("impact", WEATHER_IMPACT, mode="per_epoch", at=94),
    )


TOPOLOGY = Topology(
    project="flights",
    name="weather_delays",
    version="1.0",
    content_hash="265944fb40f090b13c623dca1990243bcabd66e5dc00a6533656efc230e203bc",
    subtopologies=(observed, observed_rekeyed, impact),
)
