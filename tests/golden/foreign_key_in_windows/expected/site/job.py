"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Answer,
    ForeignKeyJoin,
    Forget,
    Fork,
    Materialize,
    Pipe,
    Select,
    Settle,
    Sink,
    Source,
    Store,
    Subscribe,
    Table,
    Topic,
    Topology,
    Window,
    parse_duration,
    subtopology,
)

FILE = "topologies/site.yml"

AIRPORTS = Topic("airports", partitions=2, key="faa string", value="name string")
ARRIVALS_SUBSCRIPTION_REPARTITION = Topic(
    "site-site-arrivals-subscription-repartition",
    partitions=2,
    key="faa string",
    value=(
        "plane string, window_start timestamp, window_end timestamp, _hash binary, "
        "_subscribe boolean, _answer boolean"
    ),
    writer="site-site",
)
ARRIVALS_RESPONSE_REPARTITION = Topic(
    "site-site-arrivals-response-repartition",
    partitions=3,
    key="plane string",
    value="_hash binary, _found boolean, airport string",
    windowed=True,
    writer="site-site",
)
BUSY_SUBSCRIPTION_REPARTITION = Topic(
    "site-site-busy-subscription-repartition",
    partitions=2,
    key="faa string",
    value=(
        "plane string, window_start timestamp, window_end timestamp, _hash binary, "
        "_subscribe boolean, _answer boolean"
    ),
    writer="site-site",
)
BUSY_RESPONSE_REPARTITION = Topic(
    "site-site-busy-response-repartition",
    partitions=3,
    key="plane string",
    value="_hash binary, _found boolean, airport string",
    windowed=True,
    writer="site-site",
)
FLIGHTS = Topic("flights", partitions=3, key="plane string", value="dest string, delay bigint")
LAST_DESTINATIONS = Topic(
    "last_destinations",
    partitions=3,
    key="plane string",
    value="dest string, flights bigint, airport string",
    windowed=True,
    writer="site-site",
)

PLACES = Store("places", partitions=2, key="faa string", value="name string")
ARRIVALS_SUBSCRIPTIONS = Store(
    "arrivals-subscriptions",
    partitions=2,
    key="faa string, plane string, window_start timestamp, window_end timestamp",
    value="_hash binary",
)
BUSY_SUBSCRIPTIONS = Store(
    "busy-subscriptions",
    partitions=2,
    key="faa string, plane string, window_start timestamp, window_end timestamp",
    value="_hash binary",
)
LAST_HOURS = Store(
    "last_hours",
    partitions=3,
    key="plane string",
    value="dest string, flights bigint",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
    retention_ms=parse_duration("3h"),
    aggregates=(Agg("dest", "last", "dest", of="string", type="string"), Agg("flights", "count")),
)
ARRIVALS_EXPIRED = Store(
    "arrivals-expired",
    partitions=3,
    key="plane string, window_start timestamp, window_end timestamp",
    value="dest string, flights bigint",
)
ARRIVALS_JOINED = Store(
    "arrivals-joined",
    partitions=3,
    key="plane string, window_start timestamp, window_end timestamp",
    value="dest string, flights bigint, airport string",
)
BUSY_ROWS = Store(
    "busy-rows",
    partitions=3,
    key="plane string",
    value="dest string, flights bigint, `upper(dest)` string",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
    retention_ms=parse_duration("3h"),
)
BUSY_EXPIRED = Store(
    "busy-expired",
    partitions=3,
    key="plane string, window_start timestamp, window_end timestamp",
    value="dest string, flights bigint, `upper(dest)` string",
)
BUSY_JOINED = Store(
    "busy-joined",
    partitions=3,
    key="plane string, window_start timestamp, window_end timestamp",
    value="dest string, flights bigint, airport string",
)


@subtopology(0, "arrivals", file=FILE)
def arrivals(rows: Pipe) -> Pipe:
    """2 tasks: airports, site-site-arrivals-subscription-repartition,
    site-site-busy-subscription-repartition -> site-site-arrivals-response-repartition,
    site-site-busy-response-repartition.

    Stores: places, arrivals-subscriptions, busy-subscriptions.
    """
    return rows.process(
        Source(AIRPORTS, "places", at=3),
        Table("places", PLACES, at=3),
        Source(ARRIVALS_SUBSCRIPTION_REPARTITION, "arrivals.asked", at=24),
        Answer(
            "arrivals.asked",
            "places",
            ARRIVALS_SUBSCRIPTIONS,
            rows=PLACES,
            key=("plane", "window_start", "window_end"),
            values={"airport": "name"},
            at=24,
        ),
        Sink(
            "arrivals.asked",
            ARRIVALS_RESPONSE_REPARTITION,
            mode="repartition",
            of="table",
            at=24,
        ),
        Source(BUSY_SUBSCRIPTION_REPARTITION, "busy.asked", at=36),
        Answer(
            "busy.asked",
            "places",
            BUSY_SUBSCRIPTIONS,
            rows=PLACES,
            key=("plane", "window_start", "window_end"),
            values={"airport": "name"},
            at=36,
        ),
        Sink("busy.asked", BUSY_RESPONSE_REPARTITION, mode="repartition", of="table", at=36),
    )


@subtopology(1, "hours", file=FILE)
def hours(rows: Pipe) -> Pipe:
    """3 tasks: flights, site-site-arrivals-response-repartition,
    site-site-busy-response-repartition -> site-site-arrivals-subscription-repartition,
    last_destinations, site-site-busy-subscription-repartition.

    Stores: last_hours, arrivals-expired, arrivals-joined, busy-rows, busy-expired,
    busy-joined.
    """
    rows = rows.process(
        Source(FLIGHTS, "hours", columns=("dest",), at=10),
        Aggregate("hours", LAST_HOURS, old=True, at=16),
        Fork("hours", into=("arrivals", "busy"), at=10),
        Fork("arrivals", into=("arrivals.rows", "arrivals.asking"), at=24),
        Subscribe(
            "arrivals.asking",
            LAST_HOURS,
            how="left",
            key={"faa": "dest"},
            expired=ARRIVALS_EXPIRED,
            at=24,
        ),
        Sink(
            "arrivals.asking",
            ARRIVALS_SUBSCRIPTION_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            of="table",
            at=24,
        ),
        Source(ARRIVALS_RESPONSE_REPARTITION, "arrivals.answers", at=24),
        ForeignKeyJoin(
            "arrivals.answers",
            "arrivals.rows",
            LAST_HOURS,
            how="left",
            into="arrivals",
            asks_by={"faa": "dest"},
            expired=ARRIVALS_EXPIRED,
            ended="arrivals.last_answers",
            at=24,
        ),
        Table("arrivals", ARRIVALS_JOINED, emit="per_epoch", old=True, at=24),
        Forget("arrivals.last_answers", ARRIVALS_JOINED, at=24),
        Settle("arrivals", at=24),
        Sink("arrivals", LAST_DESTINATIONS, mode="per_epoch", at=31),
        Source(BUSY_RESPONSE_REPARTITION, "busy.answers", at=36),
    )
    rows = rows.where("busy", "flights > 1", table=True, at=35)
    rows = rows.process(Settle("busy", at=36))
    rows = rows.select(
        "busy",
        {"`upper(dest)` string": "upper(dest)"},
        keep=("dest", "flights"),
        at=36,
    )
    return rows.process(
        Materialize("busy", BUSY_ROWS, at=36),
        Fork("busy", into=("busy.rows", "busy.asking"), at=36),
        Subscribe(
            "busy.asking",
            BUSY_ROWS,
            how="inner",
            key={"faa": "upper(dest)"},
            expired=BUSY_EXPIRED,
            at=36,
        ),
        Sink(
            "busy.asking",
            BUSY_SUBSCRIPTION_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            of="table",
            at=36,
        ),
        ForeignKeyJoin(
            "busy.answers",
            "busy.rows",
            BUSY_ROWS,
            how="inner",
            into="busy",
            asks_by={"faa": "upper(dest)"},
            expired=BUSY_EXPIRED,
            ended="busy.last_answers",
            at=36,
        ),
        Select("busy", keep=("dest", "flights", "airport"), at=36),
        Table("busy", BUSY_JOINED, emit="per_epoch", at=36),
        Forget("busy.last_answers", BUSY_JOINED, at=36),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="6bee64e9a7b778ddeee8cb8cea8c7bd92f1776a6d7684e939b1458b61a3f5365",
    subtopologies=(arrivals, hours),
)
