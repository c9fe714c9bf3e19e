"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    AggregateSessions,
    Fork,
    KeyBy,
    Pipe,
    SessionWindow,
    Sink,
    Source,
    Store,
    Suppress,
    Table,
    Topic,
    Topology,
    Window,
    parse_duration,
    subtopology,
)

FILE = "topologies/site.yml"

CLICKS = Topic("clicks", partitions=4, key="user string", value="page string, seconds bigint")
HOURS = Topic(
    "hours",
    partitions=4,
    key="user string",
    value="clicks bigint",
    windowed=True,
    writer="site-site",
)
LAST_PAGES = Topic(
    "last_pages",
    partitions=4,
    key="user string",
    value="page string, seconds bigint",
    writer="site-site",
)
BY_PAGE_REPARTITION = Topic(
    "site-site-by_page-repartition",
    partitions=4,
    key="page string",
    value="",
    writer="site-site",
)
VISIT_LENGTHS = Topic(
    "visit_lengths",
    partitions=4,
    key="user string",
    value="clicks bigint, each double",
    windowed=True,
    writer="site-site",
)
USERS_ON_PAGES = Topic(
    "users_on_pages",
    partitions=4,
    key="page string",
    value="users bigint",
    writer="site-site",
)

LATEST = Store("latest", partitions=4, key="user string", value="page string, seconds bigint")
HOURLY = Store(
    "hourly",
    partitions=4,
    key="user string",
    value="clicks bigint",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
    aggregates=(Agg("clicks", "count"),),
)
HOURLY_SUPPRESS = Store(
    "hourly-suppress",
    partitions=4,
    key="user string, window_start timestamp, window_end timestamp",
    value="clicks bigint",
    type="window_changes",
)
VISITS = Store(
    "visits",
    partitions=4,
    key="user string",
    value="clicks bigint, seconds bigint",
    type="session",
    window=SessionWindow.of("30m", grace="5m"),
    aggregates=(Agg("clicks", "count"), Agg("seconds", "sum", "seconds", of="bigint")),
)
WAITING_PAGES = Store(
    "waiting_pages",
    partitions=4,
    key="user string",
    value="page string, seconds bigint",
    type="changes",
    backend="rocksdb",
)
VISITS_SUPPRESS = Store(
    "visits-suppress",
    partitions=4,
    key="user string, window_start timestamp, window_end timestamp",
    value="clicks bigint, each double",
    type="window_changes",
)
BY_PAGE = Store(
    "by_page",
    partitions=4,
    key="page string",
    value="users bigint",
    aggregates=(Agg("users", "count"),),
)


@subtopology(0, "hourly", file=FILE)
def hourly(rows: Pipe) -> Pipe:
    """4 tasks: clicks -> hours, last_pages, site-site-by_page-repartition, visit_lengths.

    Stores: latest, hourly, hourly-suppress, visits, waiting_pages, visits-suppress.
    """
    rows = rows.process(
        Source(CLICKS, ("latest", "hourly", "visits"), at=6),
        Table("latest", LATEST, old=True, at=6),
        Aggregate("hourly", HOURLY, at=15),
        Suppress("hourly", HOURLY_SUPPRESS, wait_ms=parse_duration("10m"), at=18),
        Sink("hourly", HOURS, at=20),
        AggregateSessions("visits", VISITS, at=27),
        Suppress(
            "latest",
            WAITING_PAGES,
            wait_ms=parse_duration("5m"),
            max_records=10_000,
            old=True,
            at=41,
        ),
        Fork("latest", into=("calm_pages", "by_page"), at=38),
        Sink("calm_pages", LAST_PAGES, mode="each_update", at=48),
        KeyBy("by_page", {"page": "page"}, at=52),
        Sink("by_page", BY_PAGE_REPARTITION, mode="repartition", of="table", at=54),
    )
    rows = rows.select("visits", {"each double": "seconds / clicks"}, keep=("clicks",), at=31)
    return rows.process(
        Suppress(
            "visits",
            VISITS_SUPPRESS,
            wait_ms=parse_duration("35m"),
            max_records=100_000,
            when_full="fail",
            at=34,
        ),
        Sink("visits", VISIT_LENGTHS, at=37),
    )


@subtopology(1, "by_page", file=FILE)
def by_page(rows: Pipe) -> Pipe:
    """4 tasks: site-site-by_page-repartition -> users_on_pages.

    Stores: by_page.
    """
    return rows.process(
        Source(BY_PAGE_REPARTITION, "by_page", at=54),
        Aggregate("by_page", BY_PAGE, emit="per_epoch", of="table", at=54),
        Sink("by_page", USERS_ON_PAGES, mode="per_epoch", at=57),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="5a5f0df0778caab66f3f6e3fd2094ba93d6b358dbdb63dc195cad2c0e212bdf1",
    subtopologies=(hourly, by_page),
)
