"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    AggregateSessions,
    FinalResults,
    Materialize,
    Pipe,
    SessionWindow,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Window,
    subtopology,
)

FILE = "topologies/site.yml"

CLICKS = Topic("clicks", partitions=4, key="user string", value="page string, seconds bigint")
VISITS_ENDED = Topic(
    "visits_ended",
    partitions=4,
    key="user string",
    value="clicks bigint",
    windowed=True,
    writer="site-site",
)
BUSY_HOURS = Topic(
    "busy_hours",
    partitions=4,
    key="user string",
    value="clicks bigint, mean double",
    windowed=True,
    writer="site-site",
)

HOURLY = Store(
    "hourly",
    partitions=4,
    key="user string",
    value="clicks bigint, mean double",
    type="window",
    window=Window.tumbling("1h", grace="5m"),
    aggregates=(Agg("clicks", "count"), Agg("sum(seconds)", "sum", "seconds", of="bigint")),
)
VISITS = Store(
    "visits",
    partitions=4,
    key="user string",
    value="clicks bigint",
    type="session",
    window=SessionWindow.of("30m", grace="5m"),
    aggregates=(Agg("clicks", "count"),),
)


@subtopology(0, "hourly", file=FILE)
def hourly(rows: Pipe) -> Pipe:
    """4 tasks: clicks -> visits_ended, busy_hours.

    Stores: hourly, visits.
    """
    rows = rows.process(
        Source(CLICKS, ("hourly", "visits"), columns=("seconds",), at=3),
        Aggregate("hourly", HOURLY, at=9),
        AggregateSessions("visits", VISITS, headers=True, at=22),
        FinalResults("visits", VISITS, at=22),
        Sink("visits", VISITS_ENDED, at=26),
    )
    rows = rows.select("hourly", {"mean double": "`sum(seconds)` / clicks"}, keep=("clicks",), at=9)
    rows = rows.process(
        Materialize("hourly", HOURLY, at=9),
        FinalResults("hourly", HOURLY, at=9),
    )
    rows = rows.where("hourly", "clicks > 1", at=14)
    return rows.process(Sink("hourly", BUSY_HOURS, at=15))


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="79d567d6a1fcfc06dd452326e4deffc8eb7fab20df8f002acd3538c98e6f5577",
    subtopologies=(hourly,),
)
