"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    AggregateSessions,
    Materialize,
    Pipe,
    SessionWindow,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    parse_duration,
    subtopology,
)

FILE = "topologies/site.yml"

CLICKS = Topic("clicks", partitions=4, key="user string", value="page string, seconds bigint")
VISITS = Topic(
    "visits",
    partitions=4,
    key="user string",
    value="clicks bigint, first_page string, seconds_a_click double",
    windowed=True,
    writer="site-site",
)

USER_VISITS = Store(
    "user_visits",
    partitions=4,
    key="user string",
    value="clicks bigint, first_page string, seconds_a_click double",
    type="session",
    window=SessionWindow.of("30m", grace="5m"),
    retention_ms=parse_duration("2h"),
    aggregates=(
        Agg("clicks", "count"),
        Agg("first_page", "first", "page", of="string", type="string"),
        Agg("sum(seconds)", "sum", "seconds", of="bigint"),
    ),
)


@subtopology(0, "sessions", file=FILE)
def sessions(rows: Pipe) -> Pipe:
    """4 tasks: clicks -> visits.

    Stores: user_visits.
    """
    rows = rows.process(
        Source(CLICKS, "sessions", at=7),
        AggregateSessions("sessions", USER_VISITS, at=13),
    )
    rows = rows.select(
        "sessions",
        {"seconds_a_click double": "`sum(seconds)` / clicks"},
        keep=("clicks", "first_page"),
        at=13,
    )
    return rows.process(
        Materialize("sessions", USER_VISITS, at=13),
        Sink("sessions", VISITS, mode="each_update", at=20),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="1b12f04c6080485cd1f467c0c93b77ea0e1393a799956eb6df05a5b4f1f1636d",
    subtopologies=(sessions,),
)
