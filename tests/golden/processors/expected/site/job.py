"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Flow,
    Pipe,
    Process,
    PythonCode,
    PythonFunction,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    parse_duration,
    subtopology,
)

FILE = "topologies/site.yml"
FUNCTIONS = PythonCode.beside(__file__)

CLICKS = Topic("clicks", partitions=2, key="user string", value="event_id string, page string")
UNIQUE_CLICKS = Topic(
    "unique_clicks",
    partitions=2,
    key="event_id string",
    value="n int",
    writer="site-site",
)
STEPS_TAKEN = Topic("steps_taken", partitions=2, key="user string", value="step string")
MATCHES = Topic(
    "matches",
    partitions=2,
    key="user string",
    value="a_ms bigint, b_ms bigint, c_ms bigint",
    writer="site-site",
)
TIMEOUTS = Topic(
    "timeouts",
    partitions=2,
    key="user string",
    value="a_ms bigint, b_ms bigint",
    writer="site-site",
)

SEEN = Store(
    "seen",
    partitions=2,
    key="event_id string",
    value="expiry bigint",
    retention_ms=parse_duration("1d"),
)
PROGRESS = Store("progress", partitions=2, key="user string", value="a_ms bigint, b_ms bigint")
VISITS = Store(
    "visits",
    partitions=2,
    key="user string",
    value="pages bigint",
    type="session",
    retention_ms=parse_duration("2h"),
)


@subtopology(0, "unique", file=FILE)
def unique(rows: Pipe) -> Pipe:
    """2 tasks: clicks -> unique_clicks.

    Stores: seen.
    """
    rows = rows.process(Source(CLICKS, "unique", at=18))
    rows = rows.where("unique", "page <> 'bot'", at=21)
    return rows.process(
        Process(
            "unique",
            PythonFunction("functions.dedupe:Dedupe", FUNCTIONS),
            "unique",
            into={"unique": Flow("event_id string", "n int")},
            stores=(SEEN,),
            options={"minutes": 2},
            at=22,
        ),
        Sink("unique", UNIQUE_CLICKS, at=28),
    )


@subtopology(1, "patterns", file=FILE)
def patterns(rows: Pipe) -> Pipe:
    """2 tasks: steps_taken -> matches, timeouts.

    Stores: progress, visits.
    """
    return rows.process(
        Source(STEPS_TAKEN, "patterns", at=29),
        Process(
            "patterns",
            PythonFunction("functions.pattern:Pattern", FUNCTIONS),
            "patterns",
            into={
                "matched": Flow("user string", "a_ms bigint, b_ms bigint, c_ms bigint"),
                "timed_out": Flow("user string", "a_ms bigint, b_ms bigint"),
            },
            named=True,
            stores=(PROGRESS, VISITS),
            at=32,
        ),
        Sink("matched", MATCHES, at=40),
        Sink("timed_out", TIMEOUTS, at=43),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="7797b9bfd8ae8c4803a8f34bc30d07cf54ee7eb610d988730a01b24beef0a9cb",
    subtopologies=(unique, patterns),
)
