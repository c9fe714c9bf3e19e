"""An application that sums up numbers by key, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.tests.runtime.local.local_application import LocalApplication, part

PARTITIONS = 4
WORDS = Topic("words", PARTITIONS, "k string", "x bigint")
SUMS = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer="test-app")
OTHERS = Topic("others", PARTITIONS, "k string", "x bigint")
COPIED = Topic("copied", PARTITIONS, "k string", "x bigint", writer="test-app")
TOTALS = Store(
    "totals",
    PARTITIONS,
    "k string",
    "n bigint, s bigint",
    aggregates=(Agg("n", "count"), Agg("s", "sum", "x", "bigint")),
)
FLOW = Flow("k string", "x bigint")
RECORDS = 30
SUM_OF_ONE = (RECORDS, sum(range(RECORDS)))


def summed(source=WORDS, name="sums", at="topologies/t.yml:7", backend="lmdb"):
    """Numbers of each key, summed up."""
    store = replace(TOTALS, backend=backend)
    nodes = (Source(source, ("f",)), Aggregate("f", store, at=at), Sink("f", SUMS, "each_update"))
    return part(name, PARTITIONS, ((nodes, {}, {}),), (store,))


def passed_through(expression):
    """The same behind a step in SQL."""
    last = (Aggregate("f", TOTALS), Sink("f", SUMS, "each_update"))
    stages = (((Source(WORDS, ("f",)),), {}, {"f": FLOW}), expression, (last, {"f": FLOW}, {}))
    return part("sums", PARTITIONS, stages, (TOTALS,))


def summed_by_text():
    """The same behind a repartition topic, under keys of the same name and type."""
    by_text = Topic("by_text", PARTITIONS, "k string", "x bigint", writer="test-app")
    nodes = (Source(WORDS, ("f",)), Sink("f", by_text, "repartition"))
    return part("sums", PARTITIONS, ((nodes, {}, {}),)), summed(by_text, "sums_by_text")


def fed(app: LocalApplication, records: int = RECORDS) -> LocalApplication:
    """With so many records of each key."""
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (x,), x) for x in range(records)], partition)
    return app


def last_sums(app: LocalApplication) -> dict[str, tuple[int, int]]:
    return {row["key.k"]: (row["value.n"], row["value.s"]) for row in app.read(SUMS)}


WHOLE_SUMS = {f"k{partition}": SUM_OF_ONE for partition in range(PARTITIONS)}
