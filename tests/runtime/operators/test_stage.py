"""The thinnest path: a source, a table, a join, an aggregate, a sink."""

from __future__ import annotations

from headwater.runtime.operators.aggregate import Aggregate
from headwater.runtime.operators.joins import StreamTableJoin
from headwater.runtime.operators.project import Project
from headwater.runtime.operators.sink import Sink
from headwater.runtime.operators.source import Source
from headwater.runtime.operators.table import Table
from headwater.runtime.topology import Agg, Store, Topic

AIRLINES = Topic("airlines", 1, "carrier string", "name string")
FLIGHTS = Topic("flights", 1, "carrier string", "delay double, distance bigint")
REKEYED = Topic("rekeyed", 2, "airline string", "delay double, distance bigint", writer="test-app")
OUT = Topic("out", 2, "airline string", "flights bigint, delay double, distance bigint", writer="test-app")
NAMES = Store("names", 1, "carrier string", "name string")
TOTALS = Store(
    "totals",
    2,
    "airline string",
    "flights bigint, delay double, distance bigint",
    aggregates=(
        Agg("flights", "count"),
        Agg("delay", "sum", "delay", "double", "double"),
        Agg("distance", "sum", "distance", "bigint", "bigint"),
    ),
)


def parts(part, emit="each"):
    return (
        part(
            "flights",
            1,
            (
                (
                    (
                        Source(AIRLINES, ("airlines",)),
                        Source(FLIGHTS, ("late",), rank=1),
                        Table("airlines", NAMES),
                        StreamTableJoin("late", "airlines", NAMES, "left", {"airline": "name"}),
                        Project("late", key={"airline": "airline"}),
                        Sink("late", REKEYED, "repartition"),
                    ),
                    {},
                    {},
                ),
            ),
            (NAMES,),
        ),
        part(
            "totals",
            2,
            (((Source(REKEYED, ("hourly",)), Aggregate("hourly", TOTALS, emit), Sink("hourly", OUT, "each")), {}, {}),),
            (TOTALS,),
        ),
    )


def test_records_of_a_join_and_an_aggregate_arrive_in_the_output_topic(application, part):
    app = application(*parts(part))
    app.append(AIRLINES, [(("AA",), ("American",), 0), (("UA",), ("United",), 0)])
    app.append(
        FLIGHTS, [(("AA",), (1.5, 10), 5), (("UA",), (2.5, 20), 6), (("AA",), (0.1, 30), 7), (("XX",), (9.0, 1), 8)]
    )
    app.run()
    rows = [
        (r["key.airline"], r["value.flights"], r["value.delay"], r["value.distance"], r["_timestamp"])
        for r in app.read(OUT)
    ]
    assert sorted(rows) == [
        ("American", 1, 1.5, 10, 5),
        ("American", 2, 1.6, 40, 7),
        ("United", 1, 2.5, 20, 6),
    ]
