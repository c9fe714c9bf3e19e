"""Applications that sum up, join with tables and with global ones, and what comes of it."""

from __future__ import annotations

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import GlobalJoin, StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, GlobalTable, Store, Topic
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.tests.runtime.local.local_application import APPLICATION, PROJECT, LocalApplication, part

PARTITIONS = 2
RECORDS = 40
SEEDS = f"{PROJECT}-seed"
WORDS = Topic("words", PARTITIONS, "k string", "x bigint")
NAMES = Topic("names", PARTITIONS, "k string", "name string")
CITIES = Topic("cities", 1, "k string", "city string")
SUMS = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=APPLICATION)
NAMED = Topic("named", PARTITIONS, "k string", "x bigint, name string, city string", writer=APPLICATION)
TOTALS = Store(
    "totals",
    PARTITIONS,
    "k string",
    "n bigint, s bigint",
    aggregates=(Agg("n", "count"), Agg("s", "sum", "x", "bigint")),
)
KNOWN = Store("known", PARTITIONS, "k string", "name string")
PLACES = GlobalTable("places", CITIES, Store("places", 1, "k string", "city string"))


def summed(at="topologies/t.yml:7"):
    """Numbers of each key, summed up."""
    nodes = (Source(WORDS, "f"), Aggregate("f", TOTALS, at=at), Sink("f", SUMS))
    return part("sums", PARTITIONS, ((nodes, {}, {}),), (TOTALS,))


def named():
    """Numbers with the name of their key from a table, and its city from a global one."""

    def same(batches):
        yield from batches

    flow = Flow("k string", "x bigint, name string")
    joined = (
        Source(NAMES, "t"),
        Source(WORDS, "f"),
        Table("t", KNOWN),
        StreamTableJoin("f", "t", KNOWN, "left", {"name": "name"}),
    )
    looked_up = (GlobalJoin("f", PLACES, "left", {"k": "k"}, {"city": "city"}), Sink("f", NAMED))
    stages = ((joined, {}, {"f": flow}), same, (looked_up, {"f": flow}, {}))
    return part("named", PARTITIONS, stages, (KNOWN,), (PLACES,))


def fed(app: LocalApplication, first: int = 0) -> LocalApplication:
    for partition in range(PARTITIONS):
        numbers = range(first, first + RECORDS)
        app.append(WORDS, [((f"{partition}-{x % 5}",), (x,), x) for x in numbers], partition)
        named = [((f"{partition}-{x % 3}",), (f"name {x}",) if x % 7 else None, x) for x in numbers]
        app.append(NAMES, named, partition)
    cities = [((f"{x % 2}-{x % 4}",) if x % 9 else None, (f"city {x}",), x) for x in range(first, first + 20)]
    app.append(CITIES, cities)
    return app


def found(app: LocalApplication, *topics: Topic) -> list[str]:
    """Records by partition and writer, in their order."""
    rows = [row for topic in topics for row in app.read(topic)]
    return [repr(row) for row in sorted(rows, key=lambda row: (row["partition"], row["lane"]))]


def rows_of(app: LocalApplication, store: Store, part_name: str, state: str | None = "state") -> list[tuple]:
    """The rows of a store as a query gives them; without `state`, of its changelog alone."""
    state_dir = app.path / state if state else None
    query = StoreQuery(APPLICATION, part_name, store, app.log, state_dir, LmdbBackend().open)
    return sorted((str(row.key), str(row.value), row.timestamp) for row in query.rows())
