"""The thinnest path: a source, a table, a join, an aggregate, a sink."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.keyed.stored_rows import stored_columns
from headwater.runtime.engine.execution.node import Edges, TaskEpoch
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.stateless import KeyBy
from headwater.runtime.engine.operators.tables import Materialize, Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.engine.pipe import pipe_schema
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.state.codec import RowCodec
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.task_id import StoreId
from headwater.tests.runtime.local.local_application import part

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


def parts(emit="each_update"):
    return (
        part(
            "flights",
            1,
            (
                (
                    (
                        Source(AIRLINES, ("airlines",)),
                        Source(FLIGHTS, ("late",)),
                        Table("airlines", NAMES),
                        StreamTableJoin("late", "airlines", NAMES, "left", {"airline": "name"}),
                        KeyBy("late", {"airline": "airline"}),
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
            (
                (
                    (
                        Source(REKEYED, ("hourly",)),
                        Aggregate("hourly", TOTALS, emit),
                        Sink("hourly", OUT, "each_update"),
                    ),
                    {},
                    {},
                ),
            ),
            (TOTALS,),
        ),
    )


def test_records_of_a_join_and_an_aggregate_arrive_in_the_output_topic(application):
    app = application(*parts())
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


MEANS = Topic("means", 1, "carrier string", "mean double, flights bigint", writer="test-app")
MEAN = Store(
    "mean",
    1,
    "carrier string",
    "mean double, flights bigint",
    aggregates=(Agg("flights", "count"), Agg("delay", "sum", "delay", "double", "double")),
)


def divided(batches):
    """What SQL does for `mean: sum(delay) / count(*)`."""
    schema = pipe_schema({"f": Flow("carrier string", "mean double, flights bigint")})
    for batch in batches:
        rows = batch.to_pylist()
        for row in rows:
            row["mean"] = row["delay"] / row["flights"] if row["_kind"] > 0 else None
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def mean_part(emit):
    """An aggregate, an expression over it, and both in one store."""
    before = Flow("carrier string", "flights bigint, delay double")
    after = Flow("carrier string", "mean double, flights bigint")
    return part(
        "mean",
        1,
        (
            ((Source(FLIGHTS, ("f",)), Aggregate("f", MEAN, emit, old=True)), {}, {"f": before}),
            divided,
            ((Materialize("f", MEAN), Sink("f", MEANS, "per_epoch")), {"f": after}, {}),
        ),
        (MEAN,),
    )


@pytest.mark.parametrize("emit", ["each_update", "per_epoch"])
def test_expression_over_aggregates_is_stored_beside_their_state(application, emit):
    mean = mean_part(emit)
    app = application(mean)
    for delay in (1.0, 2.0, 6.0):
        app.append(FLIGHTS, [(("AA",), (delay, 1), 5)])
        app.run()
    assert [row["value.mean"] for row in app.read(MEANS)] == [1.0, 1.5, 3.0]
    directory = StateDirectory(app.path / "state", "client-1", "test-app")
    ((_, value),) = LmdbStore(directory.store_path(StoreId("mean", 0))).range(None, None)
    codec = RowCodec(stored_columns(MEAN))
    columns, timestamps = codec.decode([value])
    row = {name: column[0].as_py() for name, column in zip(codec.types, columns, strict=True)}
    assert (row["mean"], row["flights.count"], row["delay.count"], timestamps.tolist()) == (3.0, 3, 3, [5])


def swapped(batches):
    """A stage of SQL that leaves a tagged pipe as it is."""
    yield from batches


def test_several_edges_cross_sql_together(application):
    flows = {"airlines": Flow("carrier string", "name string"), "late": Flow("carrier string", "delay double")}
    joined = Topic("joined", 1, "carrier string", "delay double, airline string", writer="test-app")
    crossing = part(
        "p",
        1,
        (
            ((Source(AIRLINES, ("airlines",)), Source(FLIGHTS, ("late",), ("delay",))), {}, flows),
            swapped,
            (
                (
                    Table("airlines", NAMES),
                    StreamTableJoin("late", "airlines", NAMES, "left", {"airline": "name"}),
                    Sink("late", joined),
                ),
                flows,
                {},
            ),
        ),
        (NAMES,),
    )
    app = application(crossing)
    app.append(AIRLINES, [(("AA",), ("American",), 5), (("AA",), ("Americano",), 7)])
    app.append(FLIGHTS, [(("AA",), (1.0, 1), 4), (("AA",), (2.0, 1), 6), (None, None, 6), (("AA",), (3.0, 1), 8)])
    app.run()
    assert [row["value.airline"] for row in app.read(joined)] == [None, "American", "Americano"]
    assert app.dropped == {"StreamTableJoin:null_value": 1}


def test_error_of_a_step_names_its_place_and_the_record(application):
    total = Store("total", 1, "carrier string", "s bigint", aggregates=(Agg("s", "sum", "distance", "bigint"),))
    summed = part(
        "p", 1, (((Source(FLIGHTS, ("f",)), Aggregate("f", total, at="topologies/t.yml:12")), {}, {}),), (total,)
    )
    app = application(summed)
    app.append(FLIGHTS, [(("AA",), (1.0, 2**62), 4), (("AA",), (2.0, 2**62), 6)])
    result = app.attempt()
    assert (result.status, result.records) == ("failed", 0)
    expected = r"topologies/t.yml:12: record flights\[0\]@1 cannot be processed: sum overflows bigint"
    assert re.match(expected, result.error)


@dataclass(frozen=True)
class _Failing:
    """A step of another one's making, which raises."""

    error: Exception
    flow: str = "f"
    at: str = "topologies/t.yml:12"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        raise self.error


@dataclass(frozen=True)
class _FailingLater:
    """One that gives its rows some at a time, and raises behind the first ones."""

    flow: str = "f"
    at: str = "topologies/t.yml:12"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        epoch.more[self.flow] = self._pieces(edges[self.flow])

    def _pieces(self, rows: Rows) -> Iterator[Rows]:
        yield rows
        if len(rows):
            raise ValueError("no such answer")


def test_error_in_rows_that_are_made_as_they_are_written_names_the_step_and_the_record(application):
    out = Topic("copy", 1, "carrier string", "name string", writer="test-app")
    nodes = (Source(AIRLINES, ("f",)), _FailingLater(), Sink("f", out, at="topologies/t.yml:14"))
    app = application(part("p", 1, ((nodes, {}, {}),)))
    app.append(AIRLINES, [(("AA",), ("American",), 0)])
    result = app.attempt()
    expected = r"topologies/t.yml:12: record airlines\[0\]@0 cannot be processed: no such answer"
    assert re.match(expected, result.error)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_error_of_the_machine_is_not_called_one_of_a_step(application, error):
    app = application(part("p", 1, (((Source(AIRLINES, ("f",)), _Failing(error)), {}, {}),)))
    app.append(AIRLINES, [(("AA",), ("American",), 0)])
    result = app.attempt()
    assert re.match(
        "the epoch's job of test-app, subtopology p, failed: .*(No space left|not enough memory)", result.error
    )


def test_want_of_memory_names_the_records_that_were_taken_with_their_bytes(application):
    app = application(part("p", 1, (((Source(AIRLINES, ("f",)), _Failing(MemoryError())), {}, {}),)))
    app.append(AIRLINES, [((name,), ("American",), 0) for name in ("AA", "BB", "CC")])
    said = app.attempt().error
    assert re.search(r"not enough memory for the records of airlines, partition 0, offsets 0 to 2 \(\d+ bytes in", said)
    assert "`max_bytes`" in said


def test_headers_stay_with_their_records(application):
    out = Topic("copy", 1, "carrier string", "name string", writer="test-app")
    app = application(part("p", 1, (((Source(AIRLINES, ("f",)), Sink("f", out)), {}, {}),)))
    app.append(AIRLINES, [(("AA",), ("American",), 0)])
    app.append(AIRLINES, [(("UA",), ("United",), 1), (("XX",), None, 2)], headers=['{"a":"1"}', None])
    app.run()
    assert [row["_headers"] for row in app.read(out)] == [None, '{"a":"1"}', None]


def test_records_of_several_sinks_to_one_topic_are_written_in_order(application):
    out = Topic("copy", 1, "carrier string", "delay double", writer="test-app")
    nodes = (Source(FLIGHTS, ("a", "b")), Sink("a", out), Sink("b", out))
    app = application(part("p", 1, ((nodes, {}, {}),)))
    app.append(FLIGHTS, [(("AA",), (1.0, 1), 4), (("AA",), (2.0, 1), 6)])
    app.run()
    assert [row["value.delay"] for row in app.read(out)] == [1.0, 1.0, 2.0, 2.0]
