"""Topology fleet of project flights 1.0.

Where each plane is, what it did in a day, and which airports hold how many seats.

Made by `headwater compile` from topologies/fleet.yml: change that file, not this one.
Content: 02b558469878d0d409f38cbb8ca877e2d78586a0d09e9ae7974536d2c3c6ea3d
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Flow,
    Fork,
    Project,
    Settle,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Subtopology,
    Table,
    Topic,
    ToStream,
    Window,
    process,
    select,
    where,
)
from pyspark.sql import DataFrame

PLANES_RAW = Topic(
    "planes_raw",
    partitions=4,
    key="tailnum string",
    value="year int, type string, manufacturer string, model string, engines int, seats int, speed int, engine string",
)
FLOWN_REPARTITION = Topic(
    "flights-fleet-flown-repartition",
    partitions=4,
    key="tailnum string",
    value="tailnum string, origin string, dest string, distance double, scheduled timestamp",
    writer="flights-fleet",
)
PLANE_DAYS = Topic(
    "plane_days",
    partitions=4,
    key="tailnum string",
    value="legs bigint, start string, finish string, route array<string>, miles double",
    windowed=True,
    writer="flights-fleet",
)
PARKED_REPARTITION = Topic(
    "flights-fleet-parked-repartition",
    partitions=4,
    key="airport string",
    value="seats int",
    writer="flights-fleet",
)
PLANE_MOVES = Topic(
    "plane_moves",
    partitions=4,
    key="tailnum string",
    value="at string, since timestamp",
    writer="flights-fleet",
)
OLD_PLANES = Topic(
    "old_planes",
    partitions=4,
    key="tailnum string",
    value="built int, model string",
    writer="flights-fleet",
)
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
PARKED_BY_AIRPORT = Topic(
    "parked_by_airport",
    partitions=4,
    key="airport string",
    value="planes bigint, seats bigint, mean_seats double",
    writer="flights-fleet",
)
PLANES = Store(
    "planes",
    partitions=4,
    key="tailnum string",
    value="year int, type string, manufacturer string, model string, engines int, seats int, speed int, engine string",
)
ITINERARIES = Store(
    "itineraries",
    partitions=4,
    key="tailnum string",
    value="legs bigint, start string, finish string, route array<string>, miles double",
    type="window",
    window=Window(size_ms=86_400_000, advance_ms=86_400_000, grace_ms=0),
    retention_ms=259_200_000,
    aggregates=(
        Agg("legs", "count"),
        Agg("start", "first", column="origin", of="string", type="string"),
        Agg("finish", "last", column="dest", of="string", type="string"),
        Agg("route", "collect_list", column="dest", of="string", type="array<string>"),
        Agg("miles", "sum", column="distance", of="double", type="double"),
    ),
)
LATEST_POSITIONS = Store(
    "latest_positions",
    partitions=4,
    key="tailnum string",
    value="tailnum string, origin string, dest string, distance double, scheduled timestamp, seats int",
)
PARKED_PLANES = Store(
    "parked_planes",
    partitions=4,
    key="airport string",
    value="planes bigint, seats bigint, mean_seats double",
    aggregates=(
        Agg("planes", "count"),
        Agg("seats", "sum", column="seats", of="int"),
        Agg("mean_seats", "avg", column="seats", of="int", type="double"),
    ),
)


def flown_rekeyed(tasks: DataFrame) -> DataFrame:
    """Subtopology 0, 4 tasks: planes_raw, flights-fleet-flown-repartition -> plane_days,
    flights-fleet-parked-repartition, plane_moves, old_planes.

    Stores: planes, itineraries, latest_positions.
    """
    rows = process(
        tasks,
        Source(PLANES_RAW, into=("planes",), at="topologies/fleet.yml:7"),
        Table("planes", PLANES, old=True, at="topologies/fleet.yml:7"),
        Fork("planes", into=("planes", "veterans"), at="topologies/fleet.yml:7"),
        Source(FLOWN_REPARTITION, into=("flown",), rank=1, at="topologies/fleet.yml:33"),
        StreamTableJoin(
            "flown",
            table="planes",
            store=PLANES,
            how="inner",
            values={"seats": "seats"},
            at="topologies/fleet.yml:33",
        ),
        Fork("flown", into=("days", "positions"), at="topologies/fleet.yml:20"),
        Aggregate("days", ITINERARIES, emit="collapsed", name="itineraries", at="topologies/fleet.yml:46"),
        Sink("days", PLANE_DAYS, mode="per_epoch", at="topologies/fleet.yml:54"),
        Table("positions", LATEST_POSITIONS, old=True, at="topologies/fleet.yml:60"),
        Fork("positions", into=("parked", "moves"), at="topologies/fleet.yml:56"),
        Project("parked", key={"airport": "dest"}, at="topologies/fleet.yml:67"),
        Sink("parked", PARKED_REPARTITION, mode="repartition", of="table", at="topologies/fleet.yml:69"),
        ToStream("moves", at="topologies/fleet.yml:81"),
        Project("moves", value={"at": "dest", "since": "scheduled"}, at="topologies/fleet.yml:82"),
        Sink("moves", PLANE_MOVES, at="topologies/fleet.yml:85"),
        yields={"veterans": Flow("tailnum string", "year int, manufacturer string, model string")},
    )
    rows = where(rows, "year < 1985", table=True, at="topologies/fleet.yml:91")
    rows = select(
        rows,
        {"built": "year", "model": "concat(manufacturer, ' ', model)"},
        keep=("tailnum",),
        at="topologies/fleet.yml:92",
    )
    return process(
        rows,
        Settle("veterans", at="topologies/fleet.yml:87"),
        Sink("veterans", OLD_PLANES, mode="per_epoch", at="topologies/fleet.yml:95"),
        reads={"veterans": Flow("tailnum string", "built int, model string")},
    )


def flown(tasks: DataFrame) -> DataFrame:
    """Subtopology 1, 4 tasks: flights -> flights-fleet-flown-repartition."""
    rows = process(
        tasks,
        Source(
            FLIGHTS,
            into=("flown",),
            columns=Flow(
                "carrier string",
                "dep_delay double, tailnum string, origin string, dest string, distance double, scheduled timestamp",
            ),
            rank=1,
            at="topologies/fleet.yml:20",
        ),
        yields={
            "flown": Flow(
                "carrier string",
                "dep_delay double, tailnum string, origin string, dest string, distance double, scheduled timestamp",
            ),
        },
    )
    rows = where(rows, "dep_delay is not null", at="topologies/fleet.yml:24")
    return process(
        rows,
        Project(
            "flown",
            value={
                "tailnum": "tailnum",
                "origin": "origin",
                "dest": "dest",
                "distance": "distance",
                "scheduled": "scheduled",
            },
            at="topologies/fleet.yml:25",
        ),
        Project("flown", key={"tailnum": "tailnum"}, at="topologies/fleet.yml:31"),
        Sink("flown", FLOWN_REPARTITION, mode="repartition", at="topologies/fleet.yml:33"),
        reads={
            "flown": Flow(
                "carrier string",
                "dep_delay double, tailnum string, origin string, dest string, distance double, scheduled timestamp",
            ),
        },
    )


def parked(tasks: DataFrame) -> DataFrame:
    """Subtopology 2, 4 tasks: flights-fleet-parked-repartition -> parked_by_airport.

    Stores: parked_planes.
    """
    return process(
        tasks,
        Source(PARKED_REPARTITION, into=("parked",), at="topologies/fleet.yml:69"),
        Aggregate(
            "parked",
            PARKED_PLANES,
            emit="collapsed",
            of="table",
            name="parked_planes",
            at="topologies/fleet.yml:69",
        ),
        Sink("parked", PARKED_BY_AIRPORT, mode="per_epoch", at="topologies/fleet.yml:75"),
    )


SUBTOPOLOGIES = (
    Subtopology(
        0,
        "flown_rekeyed",
        partitions=4,
        build=flown_rekeyed,
        sources=(PLANES_RAW, FLOWN_REPARTITION),
        sinks=(PLANE_DAYS, PARKED_REPARTITION, PLANE_MOVES, OLD_PLANES),
        stores=(PLANES, ITINERARIES, LATEST_POSITIONS),
    ),
    Subtopology(1, "flown", partitions=4, build=flown, sources=(FLIGHTS,), sinks=(FLOWN_REPARTITION,)),
    Subtopology(
        2,
        "parked",
        partitions=4,
        build=parked,
        sources=(PARKED_REPARTITION,),
        sinks=(PARKED_BY_AIRPORT,),
        stores=(PARKED_PLANES,),
    ),
)
