"""Topology odd of project odd 2.

A text with "quotes", a \\ and '''three of them''',
on several lines.

Made by `headwater compile` from topologies/odd.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Assignment,
    Fork,
    Materialize,
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

FILE = "topologies/odd.yml"

TOPOLOGY_TOPIC = Topic("topology", partitions=1, key="id string", value="text string")
O_TOPIC = Topic(
    "o",
    partitions=1,
    key="id string",
    value=(
        'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
        "amount decimal(12,2)"
    ),
)
TEXTS = Topic(
    "texts",
    partitions=1,
    key="id string",
    value=(
        'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
        "amount decimal(12,2), label string, text string"
    ),
    writer="odd-odd",
)
TOTALS = Topic(
    "totals",
    partitions=1,
    key="id string",
    value="total decimal(22,2), mean decimal(38,18)",
    writer="odd-odd",
)
LARGE = Topic(
    "large",
    partitions=1,
    key="id string",
    value=(
        'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
        "amount decimal(12,2), label string, text string"
    ),
    writer="odd-odd",
)

SETTINGS = Store("settings", partitions=1, key="id string", value="text string")
O_STORE = Store(
    "o",
    partitions=1,
    key="id string",
    value="total decimal(22,2), mean decimal(38,18)",
    aggregates=(
        Agg("total", "sum", "amount", of="decimal(12,2)", type="decimal(22,2)"),
        Agg("count(*)", "count"),
    ),
    backend="memory",
    changelog=False,
)


@subtopology(0, "filter", file=FILE)
def filter_(rows: Pipe) -> Pipe:
    """1 task: topology, o -> texts, totals, large.

    Stores: settings, o.
    """
    rows = rows.process(
        Source(TOPOLOGY_TOPIC, "settings", at=7),
        Source(O_TOPIC, "filter", at=18),
    )
    # Spark SQL: a quote in a text is only known to Spark SQL
    rows = rows.where("filter", "`key.id` <> 'it''s \"quoted\"' and amount > 0", at=21)
    rows = rows.with_columns(
        "filter",
        {
            "label string": (
                "case when amount > 1000000 then 'more than a million, which is a lot of anything, "
                "whatever is counted here' when amount > 1000 then \"it's more than a thousand\" "
                "else concat('only ', cast(amount as string)) end"
            ),
        },
        at=24,
    )
    rows = rows.process(
        Table("settings", SETTINGS, at=7),
        StreamTableJoin("filter", "settings", SETTINGS, how="left", values={"text": "text"}, at=28),
        Fork("filter", into=("filter", "where", "l"), at=18),
        Sink("filter", TEXTS, at=33),
        Aggregate("where", O_STORE, at=38),
    )
    # Spark SQL: `/` of decimal(22,2), decimal(20,0) is only proven in Spark SQL
    rows = rows.select(
        "where",
        {"mean decimal(38,18)": "total / `count(*)`"},
        keep=("total",),
        at=38,
    )
    rows = rows.branch("l", {"tasks": "amount > 10", "rest": None}, at=48)
    return rows.process(
        Materialize("where", O_STORE, at=38),
        Sink("where", TOTALS, mode="per_epoch", at=43),
        Sink("tasks", LARGE, at=55),
    )


TOPOLOGY = Topology(
    project="odd",
    name="odd",
    version="2",
    content_hash="1431bcaf187367318f7b67966350cb042dcbfe9091ad307a4c4eb4b8e9d0951e",
    subtopologies=(filter_,),
    assignment=Assignment(
        standby_replicas=1,
        max_warmup_replicas=3,
        rack_aware_strategy="balance_subtopology",
        rack_aware_tags=("zone",),
        rack_aware_traffic_cost=10,
        rack_aware_non_overlap_cost=1,
    ),
)
