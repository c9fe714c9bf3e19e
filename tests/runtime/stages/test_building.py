"""What a pipe takes along from step to step, and what is read off a subtopology's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headwater.runtime.operators.aggregate import Aggregate
from headwater.runtime.operators.declarations import Flow
from headwater.runtime.operators.edges import Fork
from headwater.runtime.operators.joins import GlobalJoin, StreamTableJoin
from headwater.runtime.operators.node import Node
from headwater.runtime.operators.sink import Sink
from headwater.runtime.operators.source import Source
from headwater.runtime.operators.table import Table
from headwater.runtime.stages.building import Pipe, subtopology
from headwater.runtime.topology import Agg, GlobalTable, Store, Topic

AIRLINES = Topic("airlines", 4, "carrier string", "name string")
FLIGHTS = Topic("flights", 2, "carrier string", "delay double, dest string")
AIRPORTS = Topic("airports", 1, "code string", "city string")
LATE = Topic("late", 4, "carrier string", "delay double", writer="p-t")
NAMES = Store("names", 4, "carrier string", "name string")
TOTALS = Store("totals", 4, "carrier string", "n bigint", aggregates=(Agg("n", "count"),))
CITIES = GlobalTable("cities", AIRPORTS, Store("cities", 1, "code string", "city string"))


class Written:
    """An engine that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.stages: list[tuple[tuple[Node, ...], Mapping[str, Flow], Mapping[str, Flow]]] = []
        self.steps: list[tuple[str, Mapping[str, Any]]] = []

    def process(self, rows: int, nodes: Any, reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> int:
        self.stages.append((nodes, reads, yields))
        return rows + 1

    def sql(self, rows: int, step: str, arguments: Mapping[str, Any]) -> int:
        self.steps.append((step, arguments))
        return rows + 1


SOURCES = (Source(AIRLINES, "airlines", at=3), Source(FLIGHTS, "late", at=7))
AIRLINE = Flow("carrier string", "name string")
FLIGHT = Flow("carrier string", "delay double, dest string")


def test_edges_that_no_operator_names_go_on_as_their_sources_read_them() -> None:
    engine = Written()

    pipe = Pipe(0, engine, "topologies/t.yml").process(*SOURCES).where("delay > 15", flow="late", at=9)
    end = pipe.process(Table("airlines", NAMES, at=3), Sink("late", LATE, at=12))

    assert end.rows == 3
    (_, nothing, yielded), (nodes, read, last) = engine.stages
    assert (nothing, yielded) == ({}, {"airlines": AIRLINE, "late": FLIGHT})
    assert (read, last) == ({"airlines": AIRLINE, "late": FLIGHT}, {})
    assert [node.at for node in nodes] == ["topologies/t.yml:3", "topologies/t.yml:12"]
    ((step, arguments),) = engine.steps
    assert (step, arguments["at"]) == ("where", "topologies/t.yml:9")


def test_columns_that_sql_has_computed_must_be_said() -> None:
    pipe = Pipe(0, Written()).process(*SOURCES).select({"hours": "delay / 60"}, keep=["carrier"], flow="late")
    computed = Flow("carrier string", "hours double")

    with pytest.raises(ValueError, match="SQL has changed the columns of late"):
        pipe.process(Sink("late", LATE))
    assert pipe.process(reads={"late": computed}).edges == {"airlines": AIRLINE, "late": computed}


def test_copies_in_sql_have_the_columns_that_are_kept() -> None:
    kept = Flow("carrier string", "delay double")
    pipe = Pipe(0, Written()).process(SOURCES[1])

    forked = pipe.fork(("a", "b"), keep=("carrier", "delay"))
    branched = forked.branch((("c", "delay > 1"), ("d", None)), into=("c",), flow="a")
    merged = branched.merge(("b", "c"), "late")

    assert forked.edges == {"a": kept, "b": kept}
    assert branched.edges == {"b": kept, "c": kept}
    assert merged.edges == {"late": kept}


def test_edges_of_forks_joins_and_tables_are_said_by_their_stage() -> None:
    joined = Flow("carrier string", "delay double, name string")
    nodes = (
        *SOURCES,
        Table("airlines", NAMES),
        StreamTableJoin("late", "airlines", NAMES, "inner", {"name": "name"}),
        Fork("late", ("a", "b")),
        Sink("a", LATE),
    )

    assert Pipe(0, Written()).process(*nodes, yields={"b": joined}).edges == {"b": joined}


def test_sources_sinks_and_stores_of_a_subtopology_are_those_of_its_operators() -> None:
    @subtopology(3, "late", file="topologies/t.yml")
    def late(rows: Pipe) -> Pipe:
        rows = rows.process(*SOURCES)
        rows = rows.where("delay > 15", flow="late", at=9)
        return rows.process(
            Table("airlines", NAMES, at=3),
            StreamTableJoin("late", "airlines", NAMES, "inner", {"name": "name"}, at=8),
            GlobalJoin("late", CITIES, "left", by={"code": "dest"}, values={"city": "city"}),
            Fork("late", ("late", "counted")),
            Aggregate("counted", TOTALS),
            Sink("late", LATE, at=12),
        )

    assert (late.number, late.name, late.partitions) == (3, "late", 4)
    assert (late.sources, late.sinks) == ((AIRLINES, FLIGHTS), (LATE,))
    assert (late.stores, late.global_tables) == ((NAMES, TOTALS), (CITIES,))
    assert late.places == {"names": "topologies/t.yml:3"}
    engine = Written()
    late.build(Pipe(0, engine))
    assert [node.at for node in engine.stages[1][0]][-1] == "topologies/t.yml:12"
