"""Which columns enter which: through every kind of step, and through the example project."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.engine.building import Pipe, subtopology
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import GlobalJoin, StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.process import Process
from headwater.runtime.engine.operators.stateless import Fork, KeyBy, Merge, Select
from headwater.runtime.engine.operators.tables import Materialize, Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.functions import PythonFunction
from headwater.runtime.ir.topology import Agg, GlobalTable, Store, Topic, Topology
from headwater.runtime.ir.windows import Window
from headwater.runtime.observe.lineage_columns import Inputs, column_lineage

GOLDEN = Path(__file__).parents[2] / "golden"
SALES = Topic("sales", 2, "id string", "shop string, price double, tags array<string>, at struct<city string>")
SHOPS = Topic("shops", 2, "id string", "name string, city string")
OUT = "test-app"


def topology(*functions) -> Topology:
    parts = tuple(subtopology(n, function.__name__)(function) for n, function in enumerate(functions))
    return Topology("test", "app", "1", "hash", parts)


def texts(inputs: Inputs) -> set[str] | None:
    return None if inputs is None else {".".join(each) for each in inputs}


def lineage(*functions) -> dict[str, dict[str, set[str] | None]]:
    found = column_lineage(topology(*functions))
    return {topic: {name: texts(each) for name, each in columns.items()} for topic, columns in found.items()}


def test_steps_in_sql_are_followed():
    made = Topic("made", 2, "shop string, half double", "double double, city string, tag string", writer=OUT)

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(Source(SALES, "sales"))
        rows = rows.where("sales", "price > 0 and id is not null")
        rows = rows.with_columns(
            "sales", {"double double": "Price * 2 + unix_timestamp(_now)", "city string": "at.city"}
        )
        rows = rows.explode(
            "sales", {"tag string": "transform(tags, each -> concat(each, id))"}, keep=("double", "city", "shop")
        )
        rows = rows.select("sales", {"half double": "double / 4"}, keep=("double", "city", "tag", "shop"))
        rows = rows.key_by(
            "sales", {"shop string": "upper(shop)", "half double": "half"}, keep=("double", "city", "tag")
        )
        return rows.process(Sink("sales", made))

    assert lineage(build) == {
        "made": {
            "key.shop": {"sales.value.shop"},
            "key.half": {"sales.value.price"},
            "value.double": {"sales.value.price"},
            "value.city": {"sales.value.at"},
            "value.tag": {"sales.value.tags", "sales.key.id"},
        }
    }


def test_column_with_the_name_of_a_parameter_is_followed():
    made = Topic("made", 2, "id string", "many int", writer=OUT)

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(Source(SALES, "sales"))
        rows = rows.select("sales", {"many int": "size(filter(tags, id -> id > 'a')) + length(id)"})
        return rows.process(Sink("sales", made))

    assert lineage(build)["made"]["value.many"] == {"sales.value.tags", "sales.key.id"}


def test_branches_copies_and_merges_are_followed():
    made = Topic("made", 2, "id string", "of string", writer=OUT)
    rest = Topic("rest", 2, "id string", "shop string", writer=OUT)

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(Source(SALES, "sales", columns=("shop", "price", "tags")))
        rows = rows.branch("sales", {"dear": "price > 100", "cheap": None}, keep=("shop", "tags"))
        rows = rows.fork("dear", ("one", "two"))
        rows = rows.select("one", {"of string": "shop"})
        rows = rows.select("cheap", {"of string": "tags[0]"})
        rows = rows.merge(("one", "cheap"), "both")
        return rows.process(Sink("both", made), Sink("two", rest))

    assert lineage(build) == {
        "made": {"key.id": {"sales.key.id"}, "value.of": {"sales.value.shop", "sales.value.tags"}},
        "rest": {"key.id": {"sales.key.id"}, "value.shop": {"sales.value.shop"}},
    }


def test_joins_aggregates_and_repartition_topics_are_followed():
    names = Store("names", 2, "id string", "name string, city string")
    cities = Topic("cities", 1, "city string", "country string")
    everywhere = GlobalTable("everywhere", cities, Store("everywhere", 1, "city string", "country string"))
    keyed = Topic("keyed", 2, "name string", "price double, country string", writer=OUT)
    totals = Store(
        "totals",
        2,
        "name string",
        "n bigint, total double, country string",
        type="window",
        window=Window.tumbling("1h", grace="0s"),
        aggregates=(Agg("n", "count"), Agg("total", "sum", "price", type="double"), Agg("country", "max", "country")),
    )
    made = Topic("made", 2, "name string", "n bigint, mean double, country string", windowed=True, writer=OUT)

    def by_name(rows: Pipe) -> Pipe:
        return rows.process(
            Source(SHOPS, "shops"),
            Table("shops", names),
            Source(SALES, "sales"),
            Fork("sales", ("ours", "theirs")),
            Merge(("ours", "theirs"), "all"),
            KeyBy("all", {"id": "shop"}),
            StreamTableJoin("all", "shops", names, "inner", {"name": "name", "city": "city"}),
            GlobalJoin("all", everywhere, "left", {"city": "city"}, {"country": "country", "town": "city"}),
            Select("all", {"shown": "name"}, ("price", "country")),
            KeyBy("all", {"name": "shown"}),
            Sink("all", keyed, "repartition"),
        )

    def summed(rows: Pipe) -> Pipe:
        rows = rows.process(Source(keyed, "all"), Aggregate("all", totals))
        rows = rows.select("all", {"mean double": "total / n"}, keep=("n", "country"))
        return rows.process(Materialize("all", totals), Sink("all", made))

    wanted = {
        "made": {
            "key.name": {"shops.value.name"},
            "key.window_start": set(),
            "key.window_end": set(),
            "value.n": set(),
            "value.mean": {"sales.value.price"},
            "value.country": {"cities.value.country"},
        }
    }
    assert lineage(by_name, summed) == wanted
    assert lineage(summed, by_name) == wanted  # whatever the order of the subtopologies


@pytest.mark.parametrize("sql", ["nowhere + 1", "this is ( no SQL"])
def test_expression_that_cannot_be_followed_is_not_guessed(sql):
    made = Topic("made", 2, "id string", "x double, price double", writer=OUT)

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(Source(SALES, "sales"))
        rows = rows.select("sales", {"x double": sql}, keep=("price",))
        return rows.process(Sink("sales", made))

    assert lineage(build)["made"] == {"key.id": {"sales.key.id"}, "value.x": None, "value.price": {"sales.value.price"}}


def test_columns_of_the_same_name_in_key_and_value_are_told_apart():
    source = Topic("source", 1, "k string", "k string, v string")
    made = Topic("made", 1, "k string", "k string", writer=OUT)

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(Source(source, "rows"))
        rows = rows.select("rows", {"k string": "concat(`key.k`, v)"})
        return rows.process(Sink("rows", made))

    assert lineage(build)["made"] == {"key.k": {"source.key.k"}, "value.k": {"source.key.k", "source.value.v"}}


def test_steps_in_sql_between_processors_that_share_a_store_are_followed():
    source = Topic("source", 1, "id string", "a bigint, b bigint")
    made = Topic("made", 1, "id string", "c bigint", writer=OUT)
    store = Store("seen", 1, "id string", "n bigint")
    function = PythonFunction("functions.f:F")
    into = {"rows": Flow("id string", "c bigint")}

    def build(rows: Pipe) -> Pipe:
        rows = rows.process(
            Source(source, "rows"),
            Process("rows", function, "first", stores=(store,), at=1),
            Pipe().branch("rows", {"high": "a > b", "low": None}, at=2),
            Pipe().select("high", {"c bigint": "a + 1"}, at=3),
            Process("high", function, "second", into=into, stores=(store,), at=4),
            Process("low", function, "third", into={}, stores=(store,), at=5),
        )
        return rows.process(Sink("rows", made))

    everything = {"source.key.id", "source.value.a", "source.value.b"}
    assert lineage(build)["made"] == {"key.id": everything, "value.c": everything}


@pytest.mark.parametrize(
    "runner", sorted(GOLDEN.glob("*/expected/**/runner.py")), ids=lambda path: f"{path.parts[-5]}-{path.parts[-2]}"
)
def test_every_generated_topology_is_followed_to_its_topics(runner):
    found = load_runner(runner).topology
    inputs = {topic.name: topic for part in found.subtopologies for topic in part.sources}
    inputs |= {table.topic.name: table.topic for part in found.subtopologies for table in part.global_tables}
    internal = {name for part in found.subtopologies for name in part.repartition_topics}
    for columns in column_lineage(found).values():
        for entered in columns.values():
            assert entered is not None
            assert {topic for topic, _ in entered} <= set(inputs) - internal
