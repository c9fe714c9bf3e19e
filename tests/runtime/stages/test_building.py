"""What a pipe notes, what an engine is told of its steps, and what is read off a subtopology's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headwater.runtime.engine.building import Pipe, subtopology
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.joins import GlobalJoin, StreamTableJoin
from headwater.runtime.engine.operators.operator import Flow, Node
from headwater.runtime.engine.operators.stateless import Fork, KeyBy, Merge, Select
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.engine.sql_step import SqlStep
from headwater.runtime.engine.steps import Steps
from headwater.runtime.ir.topology import Agg, GlobalTable, Store, Topic
from headwater.runtime.ir.windows import Window

AIRLINES = Topic("airlines", 4, "carrier string", "name string")
FLIGHTS = Topic("flights", 2, "carrier string", "delay double, dest string")
AIRPORTS = Topic("airports", 1, "code string", "city string")
LATE = Topic("late", 4, "carrier string", "delay double", writer="p-t")
NAMES = Store("names", 4, "carrier string", "name string")
TOTALS = Store("totals", 4, "carrier string", "n bigint", aggregates=(Agg("n", "count"),))
HOURS = Store("hours", 4, "carrier string", "n bigint", window=Window(1, 1, 0), aggregates=(Agg("n", "count"),))
CITIES = GlobalTable("cities", AIRPORTS, Store("cities", 1, "code string", "city string"))

SOURCES = (Source(AIRLINES, "airlines", at=3), Source(FLIGHTS, "late", at=7))
AIRLINE = Flow("carrier string", "name string")
FLIGHT = Flow("carrier string", "delay double, dest string")


class Written:
    """An engine that keeps what it is told, in order. `in_tasks`: whether tasks do what they can."""

    def __init__(self, in_tasks: bool = False) -> None:
        self._in_tasks = in_tasks
        self.stages: list[tuple[tuple[Node, ...], Mapping[str, Flow], Mapping[str, Flow]]] = []
        self.steps: list[tuple[str, Mapping[str, Any]]] = []

    def in_task(self, step: SqlStep, alone: bool) -> bool:
        return self._in_tasks and not alone

    def process(self, rows: int, nodes: Any, reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> int:
        self.stages.append((nodes, dict(reads), dict(yields)))
        return rows + 1

    def sql(self, rows: int, step: str, arguments: Mapping[str, Any]) -> int:
        self.steps.append((step, arguments))
        return rows + 1


def told(pipe: Pipe) -> Written:
    engine = Written()
    assert Steps(pipe.steps)(0, engine) == len(pipe.steps)
    return engine


def in_tasks(pipe: Pipe) -> Written:
    engine = Written(in_tasks=True)
    Steps(pipe.steps)(0, engine)
    return engine


def operators_in(engine: Written) -> list[list[str]]:
    return [[type(node).__name__ for node in nodes] for nodes, _, _ in engine.stages]


def test_steps_that_tasks_can_do_belong_to_the_stages_beside_them() -> None:
    rows = Pipe().process(*SOURCES).where("late", "delay > 15", at=8)
    rows = rows.with_columns("late", {"text string": "format_string('%s', dest)"}, at=9)
    rows = rows.select("late", {"delay double": "delay / 60"}, at=10).process(Sink("late", LATE))
    engine = in_tasks(rows)
    assert [kind for kind, _ in engine.steps] == ["with_columns"]
    # Nobody reads the airlines: only there something has to be done between two steps.
    assert operators_in(engine) == [["Source", "Source", "Handover", "Where"], ["Compute", "Sink"]]
    assert engine.stages[1][1] == {"late": Flow("carrier string", "delay double, dest string, text string")}


def test_step_between_two_that_stay_with_spark_stays_too_as_it_would_take_a_stage_alone() -> None:
    rows = Pipe().process(SOURCES[1]).where("late", "delay > 15")
    rows = rows.with_columns("late", {"text string": "format_string('%s', dest)"})
    rows = rows.where("late", "delay > 20").where("late", "delay > 25")
    rows = rows.where("late", "format_string('%s', text) <> ''").where("late", "delay > 30")
    engine = in_tasks(rows.process(Sink("late", LATE)))
    assert [kind for kind, _ in engine.steps] == ["with_columns", "where", "where", "where"]
    assert operators_in(engine) == [["Source", "Where"], ["Where", "Sink"]]


def behind(*nodes: Any, flow: str = "late") -> Flow:
    """The columns of an edge behind operators."""
    return told(Pipe().process(*SOURCES, *nodes).where(flow, "true").process(Sink(flow, LATE))).stages[0][2][flow]


def test_edges_that_are_read_later_go_on_with_the_columns_they_have() -> None:
    pipe = Pipe().process(*SOURCES).where("late", "delay > 15", at="t.yml:9")
    engine = told(pipe.process(Table("airlines", NAMES), StreamTableJoin("late", "airlines", NAMES, "left", {})))

    going = {"airlines": AIRLINE, "late": FLIGHT}
    assert [(reads, yields) for _, reads, yields in engine.stages] == [({}, going), (going, {})]
    assert engine.steps == [("where", {"condition": "delay > 15", "table": False, "flow": "late", "at": "t.yml:9"})]


def test_edge_that_nobody_reads_goes_no_further_and_one_that_is_alone_needs_no_name() -> None:
    joining = (Table("airlines", NAMES), StreamTableJoin("late", "airlines", NAMES, "left", {"airline": "name"}))
    engine = told(Pipe().process(*SOURCES, *joining).where("late", "delay > 15").process(Sink("late", LATE)))

    assert list(engine.stages[0][2]) == ["late"]
    assert engine.steps[0][1]["flow"] is None


@pytest.mark.parametrize(
    ("nodes", "key", "value"),
    [
        ((StreamTableJoin("late", "airlines", NAMES, "left", {"airline": "name"}),), None, "airline string"),
        ((GlobalJoin("late", CITIES, "left", {"code": "dest"}, {"in": "city"}),), None, "in string"),
        ((Fork("late", ("other", "late")),), None, ""),
        ((Fork("late", ("a", "b")), Merge(("a", "b"), "late")), None, ""),
        ((KeyBy("late", {"to": "dest"}),), "to string", ""),
    ],
)
def test_operator_adds_columns_or_another_key(nodes: tuple[Any, ...], key: str | None, value: str) -> None:
    added = f"{FLIGHT.value}, {value}" if value else FLIGHT.value
    assert behind(*nodes) == Flow(key or FLIGHT.key, added)


def test_operator_makes_the_columns_that_it_names() -> None:
    assert behind(Select("late", {"code": "carrier"}, keep=("dest",))) == Flow(
        "carrier string", "dest string, code string"
    )
    assert behind(Aggregate("late", TOTALS)) == Flow("carrier string", "n bigint")
    windows = "carrier string, window_start timestamp, window_end timestamp"
    assert behind(Aggregate("late", HOURS)) == Flow(windows, "n bigint")


def test_columns_that_a_stage_keeps_are_those_that_go_on() -> None:
    first = Pipe().process(SOURCES[1], keep={"late": ("delay", "_now")})
    engine = told(first.with_columns("late", {"seen timestamp": "_now"}).process(Sink("late", LATE)))

    assert engine.stages[0][2] == {"late": Flow("carrier string", "delay double, _now timestamp")}
    assert engine.stages[1][1] == {"late": Flow("carrier string", "delay double, _now timestamp, seen timestamp")}


def test_computed_columns_have_the_types_that_they_are_written_with() -> None:
    pipe = Pipe().process(SOURCES[1])
    pipe = pipe.select("late", {"hours double": "delay / 60", "`to do` array<int>": "array(1)"}, keep=("dest",))
    pipe = pipe.explode("late", {"n int": "`to do`"}, keep=("hours", "dest"))
    engine = told(pipe.key_by("late", {"dest string": "upper(dest)"}, keep=("dest", "n")).process(Sink("late", LATE)))

    assert engine.stages[1][1] == {"late": Flow("dest string", "dest string, n int")}
    select, explode, key_by = (arguments for _, arguments in engine.steps)
    assert (select["columns"], select["keep"]) == ({"hours": "delay / 60", "to do": "array(1)"}, ("carrier", "dest"))
    assert (explode["columns"], explode["keep"]) == ({"n": "`to do`"}, ("carrier", "hours", "dest"))
    assert (key_by["key"], key_by["keep"]) == ({"key.dest": "upper(dest)"}, ("dest", "n"))


def test_key_column_has_another_physical_name_while_a_value_column_shares_its_own() -> None:
    pipe = Pipe().process(SOURCES[1]).with_columns("late", {"carrier string": "lower(carrier)"})
    engine = told(pipe.select("late", keep=("delay",)).process(Sink("late", LATE)))

    (_, adding), (_, dropping) = engine.steps
    assert (adding["keep"], adding["key"]) == (("delay", "dest"), {"key.carrier": "carrier"})
    assert (dropping["keep"], dropping["key"]) == (("delay",), {"carrier": "key.carrier"})
    assert engine.stages[1][1] == {"late": Flow("carrier string", "delay double")}


def test_copies_in_sql_have_the_columns_that_are_kept() -> None:
    pipe = Pipe().process(SOURCES[1]).fork("late", ("a", "b"), keep=("delay",))
    pipe = pipe.branch("a", {"c": "delay > 1", "unread": "delay > 0", "d": None})
    engine = told(pipe.merge(("b", "c", "d"), "late").process(Sink("late", LATE)))

    fork, branch, merge = (arguments for _, arguments in engine.steps)
    assert (fork["flow"], fork["keep"]) == (None, ("carrier", "delay"))
    assert branch["branches"] == (("c", "delay > 1"), ("unread", "delay > 0"), ("d", None))
    assert (branch["flow"], branch["into"], branch["keep"]) == ("a", ("c", "d"), None)
    assert (merge["flows"], merge["into"], merge["keep"]) == (("b", "c", "d"), "late", ("carrier", "delay"))
    assert engine.stages[1][1] == {"late": Flow("carrier string", "delay double")}


def test_edge_that_no_step_makes_is_refused() -> None:
    def late(rows: Pipe) -> Pipe:
        return rows.process(Source(FLIGHTS, "lat"), Sink("late", LATE))

    with pytest.raises(ValueError, match="no step makes the edge late"):
        subtopology(0, "late")(late)


def test_sources_sinks_and_stores_of_a_subtopology_are_those_of_its_operators() -> None:
    @subtopology(3, "late", file="topologies/t.yml")
    def late(rows: Pipe) -> Pipe:
        rows = rows.process(*SOURCES)
        rows = rows.where("late", "delay > 15", at=9)
        return rows.process(
            Table("airlines", NAMES),
            StreamTableJoin("late", "airlines", NAMES, "inner", {"name": "name"}, at=10),
            GlobalJoin("late", CITIES, "left", by={"code": "dest"}, values={"city": "city"}),
            Fork("late", ("late", "counted")),
            Aggregate("counted", TOTALS, at=11),
            Sink("late", LATE, at=12),
        )

    assert (late.number, late.name, late.partitions) == (3, "late", 4)
    assert (late.sources, late.sinks) == ((AIRLINES, FLIGHTS), (LATE,))
    assert (late.stores, late.global_tables) == ((NAMES, TOTALS), (CITIES,))
    assert late.places == {"names": "topologies/t.yml:10", "totals": "topologies/t.yml:11"}
    engine = Written()
    late.build(0, engine)
    assert [node.at for node in engine.stages[1][0]][-1] == "topologies/t.yml:12"
    assert engine.steps[0][1]["at"] == "topologies/t.yml:9"
