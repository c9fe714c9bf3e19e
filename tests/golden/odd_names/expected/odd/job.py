"""Topology odd of project odd 2.

A text with "quotes", a \\ and '''three of them''',
on several lines.

Made by `headwater compile` from topologies/odd.yml: change that file, not this one.
Content: 23f269cd6056b259e191b03076fabe2961e38eaf5122eb345711200e6235a2f1
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Flow,
    Fork,
    Materialize,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Subtopology,
    Table,
    Topic,
    branch,
    process,
    select,
    where,
    with_columns,
)
from pyspark.sql import DataFrame

TOPOLOGY_TOPIC = Topic("topology", partitions=1, key="id string", value="text string")
O_TOPIC = Topic(
    "o",
    partitions=1,
    key="id string",
    value=(
        'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, amount decimal(12,2)'
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
SETTINGS_STORE = Store("settings", partitions=1, key="id string", value="text string")
O_STORE = Store(
    "o",
    partitions=1,
    key="id string",
    value="total decimal(22,2), mean decimal(38,18)",
    aggregates=(
        Agg("total", "sum", column="amount", of="decimal(12,2)", type="decimal(22,2)"),
        Agg("count(*)", "count"),
    ),
    backend="memory",
    changelog=False,
)


def filter_(tasks: DataFrame) -> DataFrame:
    """Subtopology 0, 1 task: topology, o -> texts, totals, large.

    Stores: settings, o.
    """
    rows = process(
        tasks,
        Source(TOPOLOGY_TOPIC, into=("settings",), at="topologies/odd.yml:7"),
        Source(O_TOPIC, into=("filter",), rank=1, at="topologies/odd.yml:18"),
        yields={
            "settings": Flow("id string", "text string"),
            "filter": Flow(
                "id string",
                (
                    'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
                    "amount decimal(12,2)"
                ),
            ),
        },
    )
    rows = where(rows, "`key.id` <> 'it''s \"quoted\"' and amount > 0", flow="filter", at="topologies/odd.yml:21")
    rows = with_columns(
        rows,
        {
            "label": (
                "case when amount > 1000000 then 'more than a million, which is a lot of anything, "
                "whatever is counted here' when amount > 1000 then \"it's more than a thousand\" else concat('only ', "
                "cast(amount as string)) end"
            ),
        },
        keep=("key.id", "id", 'say "what"', "nested", "amount"),
        flow="filter",
        at="topologies/odd.yml:24",
    )
    rows = process(
        rows,
        Table("settings", SETTINGS_STORE, at="topologies/odd.yml:7"),
        StreamTableJoin(
            "filter",
            table="settings",
            store=SETTINGS_STORE,
            how="left",
            values={"text": "text"},
            at="topologies/odd.yml:28",
        ),
        Fork("filter", into=("filter", "where", "l"), at="topologies/odd.yml:18"),
        Sink("filter", TEXTS, at="topologies/odd.yml:33"),
        Aggregate("where", O_STORE, name="o", at="topologies/odd.yml:38"),
        reads={
            "settings": Flow("id string", "text string"),
            "filter": Flow(
                "id string",
                (
                    'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
                    "amount decimal(12,2), label string"
                ),
            ),
        },
        yields={
            "l": Flow(
                "id string",
                (
                    'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
                    "amount decimal(12,2), label string, text string"
                ),
            ),
            "where": Flow("id string", "total decimal(22,2), `count(*)` bigint"),
        },
    )
    rows = select(rows, {"mean": "total / `count(*)`"}, keep=("id", "total"), flow="where", at="topologies/odd.yml:38")
    rows = branch(
        rows,
        (("tasks", "amount > 10"), ("rest", None)),
        into=("tasks",),
        flow="l",
        at="topologies/odd.yml:48",
    )
    return process(
        rows,
        Materialize("where", O_STORE, at="topologies/odd.yml:38"),
        Sink("where", TOTALS, mode="per_epoch", at="topologies/odd.yml:43"),
        Sink("tasks", LARGE, at="topologies/odd.yml:55"),
        reads={
            "where": Flow("id string", "total decimal(22,2), mean decimal(38,18)"),
            "tasks": Flow(
                "id string",
                (
                    'id string, `say "what"` string, nested array<struct<a:int,b:map<string,decimal(10,2)>>>, '
                    "amount decimal(12,2), label string, text string"
                ),
            ),
        },
    )


SUBTOPOLOGIES = (
    Subtopology(
        0,
        "filter",
        partitions=1,
        build=filter_,
        sources=(TOPOLOGY_TOPIC, O_TOPIC),
        sinks=(TEXTS, TOTALS, LARGE),
        stores=(SETTINGS_STORE, O_STORE),
    ),
)
