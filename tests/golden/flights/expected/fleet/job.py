"""Topology fleet of project flights 1.0.

Where each plane is, what it did in a day, and which airports hold how many seats.

Made by `headwater compile` from topologies/fleet.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Fork,
    KeyBy,
    Pipe,
    Select,
    Settle,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Table,
    Topic,
    Topology,
    ToStream,
    Window,
    parse_duration,
    subtopology,
)

FILE = "topologies/fleet.yml"

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
FLOWN_REPARTITION = Topic(
    "flights-fleet-flown-repartition",
    partitions=4,
    key="tailnum string",
    value="tailnum string, origin string, dest string, distance double, scheduled timestamp",
    writer="flights-fleet",
)
PLANES_RAW = Topic(
    "planes_raw",
    partitions=4,
    key="tailnum string",
    value=(
        "year int, type string, manufacturer string, model string, engines int, seats int, "
        "speed int, engine string"
    ),
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
    value=(
        "year int, type string, manufacturer string, model string, engines int, seats int, "
        "speed int, engine string"
    ),
)
ITINERARIES = Store(
    "itineraries",
    partitions=4,
    key="tailnum string",
    value="legs bigint, start string, finish string, route array<string>, miles double",
    type="window",
    window=Window.tumbling("1d", grace="0s"),
    retention_ms=parse_duration("3d"),
    aggregates=(
        Agg("legs", "count"),
        Agg("start", "first", "origin", of="string", type="string"),
        Agg("finish", "last", "dest", of="string", type="string"),
        Agg("route", "collect_list", "dest", of="string", type="array<string>"),
        Agg("miles", "sum", "distance", of="double", type="double"),
    ),
)
LATEST_POSITIONS = Store(
    "latest_positions",
    partitions=4,
    key="tailnum string",
    value=(
        "tailnum string, origin string, dest string, distance double, scheduled timestamp, "
        "seats int"
    ),
)
PARKED_PLANES = Store(
    "parked_planes",
    partitions=4,
    key="airport string",
    value="planes bigint, seats bigint, mean_seats double",
    aggregates=(
        Agg("planes", "count"),
        Agg("seats", "sum", "seats", of="int"),
        Agg("mean_seats", "avg", "seats", of="int", type="double"),
    ),
)


@subtopology(0, "flown", file=FILE)
def flown(rows: Pipe) -> Pipe:
    """4 tasks: flights -> flights-fleet-flown-repartition."""
    rows = rows.process(
        # flown: Flights by plane; those without a tail number or of an unknown plane drop out.
        Source(
            FLIGHTS,
            "flown",
            columns=("dep_delay", "tailnum", "origin", "dest", "distance", "scheduled"),
            at=20,
        ),
    )
    rows = rows.where("flown", "dep_delay is not null", at=24)
    return rows.process(
        Select("flown", keep=("tailnum", "origin", "dest", "distance", "scheduled"), at=25),
        KeyBy("flown", {"tailnum": "tailnum"}, at=31),
        Sink("flown", FLOWN_REPARTITION, mode="repartition", at=33),
    )


@subtopology(1, "flown_rekeyed", file=FILE)
def flown_rekeyed(rows: Pipe) -> Pipe:
    """4 tasks: planes_raw, flights-fleet-flown-repartition -> plane_days,
    flights-fleet-parked-repartition, plane_moves, old_planes.

    Stores: planes, itineraries, latest_positions.
    """
    rows = rows.process(
        Source(PLANES_RAW, "planes", at=7),
        Table("planes", PLANES, old=True, at=7),
        Fork("planes", into=("planes", "veterans"), at=7),
        # flown: Flights by plane; those without a tail number or of an unknown plane drop out.
        Source(FLOWN_REPARTITION, "flown", at=33),
        StreamTableJoin("flown", "planes", PLANES, how="inner", values={"seats": "seats"}, at=33),
        Fork("flown", into=("days", "positions"), at=20),
        # days: A plane's day, from first take-off to last landing.
        Aggregate("days", ITINERARIES, emit="per_epoch", at=46),
        Sink("days", PLANE_DAYS, mode="per_epoch", at=54),
        # positions: The last flight of each plane, as a table.
        Table("positions", LATEST_POSITIONS, old=True, at=60),
        Fork("positions", into=("parked", "moves"), at=56),
        # parked: Planes and seats by the airport where they went last. A plane that moves is
        # subtracted and added.
        KeyBy("parked", {"airport": "dest"}, at=67),
        Sink("parked", PARKED_REPARTITION, mode="repartition", of="table", at=69),
        # moves: Each change of the table as a record.
        ToStream("moves", at=81),
        Select("moves", {"at": "dest", "since": "scheduled"}, at=82),
        Sink("moves", PLANE_MOVES, at=85),
        keep={"veterans": ("year", "manufacturer", "model")},
    )
    # veterans: A filter of a table is a table; a plane that stops matching would be deleted from
    # the topic.
    rows = rows.where("veterans", "year < 1985", table=True, at=91)
    rows = rows.select(
        "veterans",
        {"built int": "year", "model string": "concat(manufacturer, ' ', model)"},
        at=92,
    )
    return rows.process(
        Settle("veterans", at=87),
        Sink("veterans", OLD_PLANES, mode="per_epoch", at=95),
    )


@subtopology(2, "parked", file=FILE)
def parked(rows: Pipe) -> Pipe:
    """4 tasks: flights-fleet-parked-repartition -> parked_by_airport.

    Stores: parked_planes.
    """
    return rows.process(
        # parked: Planes and seats by the airport where they went last. A plane that moves is
        # subtracted and added.
        Source(PARKED_REPARTITION, "parked", at=69),
        Aggregate("parked", PARKED_PLANES, emit="per_epoch", of="table", at=69),
        Sink("parked", PARKED_BY_AIRPORT, mode="per_epoch", at=75),
    )


TOPOLOGY = Topology(
    project="flights",
    name="fleet",
    version="1.0",
    content_hash="96b15f9263b917912a4426d9bfe531dae019498743574bd71a5c635af74aad81",
    subtopologies=(flown, flown_rekeyed, parked),
)
