"""From checked flows to stages: which topics, which columns, which engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from headwater.compiler.emit.template import content_hash
from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.topology import graph
from headwater.runtime.engine.operators import aggregations, joins, tables, topics
from headwater.runtime.engine.sql_step import SqlStep

Compile = Callable[..., CheckedProject]

TOPICS = """
clicks: {partitions: 2, key: {user: string}, value: {url: string, seconds: int, user: string, tags: array<string>}}
users: {partitions: 2, key: {user: string}, value: {name: string, age: int}}
"""
JOIN = "{join: {table: people, type: %s, values: {name: people.name}}}"


def topology(compiled: Compile, text: str, topics: str = TOPICS) -> graph.TopologyGraph:
    project = compiled(topics, text)
    assert not [str(d) for d in project.diagnostics if d.severity == "error"]
    return project.topologies[0]


def shape(part: graph.SubtopologyGraph) -> list[list[str] | str]:
    """Names of operators by Python stage, and kinds of SQL steps between."""
    return [
        [type(node).__name__ for node in stage.nodes] if isinstance(stage, graph.PythonStage) else stage.kind
        for stage in part.stages
    ]


def nodes(found: graph.TopologyGraph, kind: type) -> list:
    return [
        node
        for part in found.subtopologies
        for stage in part.stages
        if isinstance(stage, graph.PythonStage)
        for node in stage.nodes
        if isinstance(node, kind)
    ]


def sql(found: graph.TopologyGraph) -> list[SqlStep]:
    return [stage for part in found.subtopologies for stage in part.stages if isinstance(stage, SqlStep)]


CARRIER_DELAYS = """
    description: Hourly departure delays of each airline, by name.
    tables:
      airlines: {topic: airlines_raw, store: airline_names}
    stores:
      airline_names: {type: key_value}
      delay_totals: {type: window, retention: 2d}
    flows:
      late:
        from: flights
        steps:
          - filter: dep_delay > 15
          - join:
              table: airlines
              type: left
              values:
                airline: airlines.name
      hourly:
        from: late
        steps:
          - key_by:
              airline: airline
          - window:
              tumbling: 1h
              grace: 10m
          - aggregate:
              store: delay_totals
              values:
                flights: count(*)
                total_delay: sum(dep_delay)
        to: hourly_delays
"""
FLIGHTS = """
flights: {partitions: 4, key: {carrier: string}, value: {flight: int, tailnum: string, dep_delay: double}}
airlines_raw: {partitions: 4, key: {carrier: string}, value: {name: string}}
hourly_delays: {partitions: 4, key: {airline: string}, windowed: true, value: {flights: bigint, total_delay: double}}
"""


def test_carrier_delays_are_two_subtopologies(compiled: Compile) -> None:
    found = topology(compiled, CARRIER_DELAYS, FLIGHTS)
    assert [(part.number, part.name, part.partitions) for part in found.subtopologies] == [
        (0, "late", 4),
        (1, "hourly", 4),
    ]
    assert [shape(part) for part in found.subtopologies] == [
        [["Source", "Source"], "where", ["Table", "StreamTableJoin", "KeyBy", "Sink"]],
        [["Source", "Aggregate", "Sink"]],
    ]


def test_carrier_delays_carry_only_what_is_needed(compiled: Compile) -> None:
    found = topology(compiled, CARRIER_DELAYS, FLIGHTS)
    flights = next(source for source in nodes(found, topics.Source) if source.topic.name == "flights")
    assert flights.columns == ("dep_delay",)
    repartition = next(topic for topic in found.topics if topic.name == "shop-t-hourly-repartition")
    assert (repartition.key, repartition.value) == ("airline string", "dep_delay double")
    assert found.repartition_topics == (repartition.name,)


def test_windowed_store_has_the_key_without_its_window(compiled: Compile) -> None:
    (store,) = (store for store in topology(compiled, CARRIER_DELAYS, FLIGHTS).stores if store.name == "delay_totals")
    assert (store.type, store.key, store.value) == ("window", "airline string", "flights bigint, total_delay double")
    assert store.window is not None
    assert (store.window.size_ms, store.window.grace_ms, store.retention_ms) == (3_600_000, 600_000, 172_800_000)
    assert [(a.name, a.function, a.column, a.type) for a in store.aggregates] == [
        ("flights", "count", None, "bigint"),
        ("total_delay", "sum", "dep_delay", "double"),
    ]


def test_joins_on_one_re_keyed_stream_share_a_topic_and_aggregates_do_not(compiled: Compile) -> None:
    found = topology(
        compiled,
        f"""
        tables:
          people: {{topic: users}}
        flows:
          keyed: {{from: clicks, steps: [{{key_by: {{user: url}}}}]}}
          a: {{from: keyed, steps: [{JOIN % "left"}], to: oa}}
          b: {{from: keyed, steps: [{JOIN % "inner"}], to: ob}}
          c: {{from: keyed, steps: [{{aggregate: {{values: {{n: count(*)}}}}}}], to: oc}}
        """,
    )
    assert set(found.repartition_topics) == {"shop-t-keyed-repartition", "shop-t-c-repartition"}
    (shared,) = (s for s in nodes(found, topics.Source) if s.topic.name == "shop-t-keyed-repartition")
    assert shared.into == ("a", "b")


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (f"[{{key_by: {{user: url}}}}, {JOIN % 'left'}]", True),
        (f"[{{key_by: {{user: url}}}}, {JOIN % 'inner'}]", False),
        (f"[{{key_by: {{user: url}}}}, repartition, {{filter: seconds > 3}}, {JOIN % 'left'}]", True),
        ("[{key_by: {user: url}}, {aggregate: {values: {n: count(*)}}}]", False),
        ("[{key_by: {user: url}}, repartition]", False),
        (
            f"[{{key_by: {{user: url}}}}, {{aggregate: {{values: {{n: max(url)}}}}}}, to_stream, {JOIN % 'left'}]",
            False,
        ),
    ],
)
def test_null_keys_go_through_a_topic_iff_a_left_join_reads_them(compiled: Compile, steps: str, kept: bool) -> None:
    found = topology(
        compiled, f"tables:\n  people: {{topic: users}}\nflows:\n  a: {{from: clicks, steps: {steps}, to: o}}\n"
    )
    sinks = [sink for sink in nodes(found, topics.Sink) if sink.mode == "repartition"]
    assert [sink.keep_null_keys for sink in sinks] == [kept]


def test_global_join_needs_no_repartition_topic(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        tables:
          people: {topic: users, global: true}
        flows:
          a:
            from: clicks
            steps:
              - key_by: {url: url}
              - join: {table: people, by: {user: upper(value.user)}}
            to: out
        """,
    )
    assert found.repartition_topics == ()
    (join,) = nodes(found, joins.GlobalJoin)
    assert join.by == {"user": "upper(value.user)"}
    assert [(step.kind, step.columns) for step in sql(found)] == [
        ("select", {"upper(value.user)": "upper(user)"}),
    ]
    assert list(found.global_nodes) == [0]
    assert [part.number for part in found.subtopologies] == [1]


def test_topic_between_flows_of_a_topology_cuts_it(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        flows:
          a: {from: clicks, to: middle}
          b: {from: middle, to: out}
        """,
    )
    assert [[topic.name for topic in part.sources] for part in found.subtopologies] == [["clicks"], ["middle"]]


def test_flows_on_one_topic_share_its_source_and_subtopology(compiled: Compile) -> None:
    found = topology(compiled, "flows:\n  a: {from: clicks, to: oa}\n  b: {from: clicks, to: ob}\n")
    assert [part.name for part in found.subtopologies] == ["a"]
    assert [source.into for source in nodes(found, topics.Source)] == [("a", "b")]


def test_renames_are_arrow_and_expressions_are_sql(compiled: Compile) -> None:
    pure = topology(
        compiled,
        "flows:\n  a: {from: clicks, steps: [{select: {page: url}}, {key_by: {page: page}}], to: o}\n",
    )
    assert [shape(part) for part in pure.subtopologies] == [[["Source", "Select", "KeyBy", "Sink"]]]
    computed = topology(
        compiled,
        "flows:\n  a: {from: clicks, steps: [{select: {page: lower(url)}}, {key_by: {page: page}}], to: o}\n",
    )
    assert [shape(part) for part in computed.subtopologies] == [[["Source"], "select", ["KeyBy", "Sink"]]]


def test_rename_between_two_sql_steps_stays_in_sql(compiled: Compile) -> None:
    found = topology(
        compiled,
        "flows:\n  a: {from: clicks, steps: [{filter: seconds > 3}, {select: {n: seconds}}, {filter: n < 9}], to: o}\n",
    )
    assert [shape(part) for part in found.subtopologies] == [[["Source"], "where", "select", "where", ["Sink"]]]


def test_column_that_nobody_reads_is_not_computed(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        flows:
          a:
            from: clicks
            steps:
              - with_columns: {n: length(url), m: seconds * 2}
              - filter: m > 3
              - select: {m: m}
            to: o
        """,
    )
    assert sql(found)[0].columns == {"m": "seconds * 2"}
    assert nodes(found, topics.Source)[0].columns == ("seconds",)


def test_key_column_that_shares_its_name_is_told_apart(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        flows:
          a:
            from: clicks
            steps:
              - filter: key.user <> value.user
              - select: {long: seconds > 60}
            to: o
        """,
    )
    where, select = sql(found)
    assert where.condition == "`key.user` <> user"
    assert (select.keep, select.columns, select.types) == ((), {"long": "seconds > 60"}, {"long": "boolean"})


def test_current_timestamp_is_a_column_that_the_stage_before_adds(compiled: Compile) -> None:
    found = topology(
        compiled, "flows:\n  a: {from: clicks, steps: [{with_columns: {seen: current_timestamp()}}], to: o}\n"
    )
    first = found.subtopologies[0].stages[0]
    assert isinstance(first, graph.PythonStage)
    assert first.yields["a"].value.endswith(", _now timestamp")
    assert sql(found)[0].columns == {"seen": "_now"}
    last = found.subtopologies[0].stages[-1]
    assert isinstance(last, graph.PythonStage)
    assert "_now" not in last.reads["a"].value


def test_expressions_over_aggregates_are_projected_and_kept(compiled: Compile) -> None:
    found = topology(
        compiled,
        "flows:\n  a: {from: clicks, steps: [{aggregate: {values: {n: count(*), m: sum(seconds) / count(*)}}}],"
        " to: o}\n",
    )
    assert [shape(part) for part in found.subtopologies] == [
        [["Source", "Aggregate"], "select", ["Materialize", "Sink"]]
    ]
    (store,) = found.stores
    assert [aggregate.name for aggregate in store.aggregates] == ["n", "sum(seconds)"]
    assert store.value == "n bigint, m double"
    assert sql(found)[0].columns == {"m": "`sum(seconds)` / n"}


def test_computed_argument_is_a_column_named_by_its_sql(compiled: Compile) -> None:
    found = topology(
        compiled, "flows:\n  a: {from: clicks, steps: [{aggregate: {values: {n: sum(seconds * 2)}}}], to: o}\n"
    )
    assert sql(found)[0].columns == {"seconds * 2": "seconds * 2"}
    assert found.stores[0].aggregates[0].column == "seconds * 2"


@pytest.mark.parametrize(
    ("flows", "emit", "old", "modes"),
    [
        ("  b: {from: t, to: o}\n", "per_epoch", False, ["per_epoch"]),
        ("  b: {from: t, steps: [{filter: seconds > 3}], to: o}\n", "per_epoch", True, ["per_epoch"]),
        ("  b: {from: t, steps: [{select: {m: seconds * 60}}], to: o}\n", "each_update", True, ["per_epoch"]),
        ("  b: {from: t, steps: [{filter: 1 / seconds > 3}], to: o}\n", "each_update", True, ["per_epoch"]),
        ("  b: {from: t, steps: [to_stream], to: o}\n", "each_update", False, ["append"]),
        (
            "  b: {from: t, to: o}\n  c: {from: t, steps: [to_stream], to: p}\n",
            "each_update",
            True,
            ["per_epoch", "append"],
        ),
        (
            "  b: {from: t, steps: [{key_by: {url: url}}, {aggregate: {values: {n: count(*)}}}], to: o}\n",
            "each_update",
            True,
            ["repartition", "per_epoch"],
        ),
    ],
)
def test_table_sends_on_what_those_behind_it_need(
    compiled: Compile, flows: str, emit: str, old: bool, modes: list[str]
) -> None:
    found = topology(compiled, f"flows:\n  t: {{from: clicks, steps: [to_table]}}\n{flows}")
    table = nodes(found, tables.Table)[0]
    assert (table.emit, table.old) == (emit, old)
    assert [sink.mode for sink in nodes(found, topics.Sink)] == modes


@pytest.mark.parametrize(
    ("value", "emit"),
    [
        ("sum(seconds) / count(*)", "per_epoch"),
        ("max_by(url, seconds)", "per_epoch"),
        ("100 / (sum(seconds) - 2)", "each_update"),
        ("sum(seconds) + count(*)", "each_update"),
    ],
)
def test_expression_over_aggregates_sees_each_update_if_it_may_fail(compiled: Compile, value: str, emit: str) -> None:
    found = topology(
        compiled, f"flows:\n  a: {{from: clicks, steps: [{{aggregate: {{values: {{n: '{value}'}}}}}}], to: o}}\n"
    )
    aggregate = nodes(found, aggregations.Aggregate)[0]
    assert (aggregate.emit, aggregate.old) == (emit, False)
    assert [sink.mode for sink in nodes(found, topics.Sink)] == ["per_epoch"]


def test_each_update_is_neither_collapsed_by_the_table_nor_by_the_sink(compiled: Compile) -> None:
    found = topology(compiled, "flows:\n  t: {from: clicks, steps: [{to_table: {emit: each_update}}], to: o}\n")
    assert nodes(found, tables.Table)[0].emit == "each_update"
    assert [sink.mode for sink in nodes(found, topics.Sink)] == ["each_update"]


def test_filtered_table_is_settled_once_behind_its_projections(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        tables:
          people: {topic: users}
        flows:
          a:
            from: people
            steps: [{filter: age > 3}, {select: {name: upper(name), age: age}}, {filter: age < 99}]
            to: o
        """,
    )
    assert [shape(part) for part in found.subtopologies] == [
        [["Source", "Table"], "where", "select", "where", ["Settle", "Sink"]]
    ]
    assert [step.table for step in sql(found) if step.kind == "where"] == [True, True]


def test_join_with_a_filtered_table_gives_it_a_store_of_its_own(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        tables:
          people: {topic: users}
        flows:
          adults: {from: people, steps: [{filter: age >= 18}]}
          a: {from: clicks, steps: [{join: {table: adults, values: {name: adults.name}}}], to: o}
        """,
    )
    (join,) = nodes(found, joins.StreamTableJoin)
    assert join.store.name == "adults"
    assert [table.store.name for table in nodes(found, tables.Table)] == ["people", "adults"]


def test_dead_branch_is_left_out_but_keeps_its_case(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        flows:
          a:
            from: clicks
            steps:
              - branch:
                  - {flow: long, when: seconds > 60}
                  - {flow: middle, when: seconds > 30}
                  - {flow: rest}
          b: {from: long, to: ob}
          c: {from: rest, to: oc}
        """,
    )
    (branch,) = sql(found)
    assert branch.branches == {"long": "seconds > 60", "middle": "seconds > 30", "rest": None}
    last = found.subtopologies[0].stages[-1]
    assert isinstance(last, graph.PythonStage)
    assert list(last.reads) == ["long", "rest"]


def test_edges_of_a_merge_in_sql_carry_equal_columns(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        flows:
          a: {from: clicks, steps: [{filter: seconds > 60}], to: oa}
          m: {from: [clicks, a], steps: [{filter: url <> ''}, {select: {url: url}}], to: om}
        """,
    )
    merge = next(number for number, step in enumerate(sql(found)) if step.kind == "merge")
    assert [(step.kind, step.flow) for step in sql(found)[:merge]] == [
        ("where", "a"),
        ("fork", "a"),
        ("select", "m.a"),
    ]
    assert sql(found)[merge].flows == ("m.clicks", "m.a")


def test_single_flow_through_two_subtopologies_has_two_names(compiled: Compile) -> None:
    steps = "[{key_by: {url: url}}, {aggregate: {values: {n: count(*)}}}]"
    found = topology(compiled, f"flows:\n  class: {{from: clicks, steps: {steps}, to: o}}\n")
    assert [(part.name, part.function) for part in found.subtopologies] == [
        ("class", "class_"),
        ("class_rekeyed", "class_rekeyed"),
    ]


def test_every_stage_reads_what_the_stage_before_yields(compiled: Compile) -> None:
    found = topology(compiled, CARRIER_DELAYS, FLIGHTS)
    for part in found.subtopologies:
        python = [stage for stage in part.stages if isinstance(stage, graph.PythonStage)]
        assert isinstance(part.stages[0], graph.PythonStage)
        assert isinstance(part.stages[-1], graph.PythonStage)
        assert not python[0].reads
        assert not python[-1].yields
        for before, after in itertools.pairwise(python):
            assert before.yields.keys() == after.reads.keys()


def test_subtopologies_are_numbered_along_the_flow_wherever_their_tables_are_declared(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        tables:
          people: {topic: users}
        flows:
          named:
            from: clicks
            steps:
              - key_by: {user: url}
              - join: {table: people}
            to: out
        """,
        """
        clicks: {partitions: 2, key: {user: string}, value: {url: string}}
        users: {partitions: 2, key: {user: string}, value: {name: string}}
        """,
    )

    assert [[topic.name for topic in part.sources] for part in found.subtopologies] == [
        ["clicks"],
        ["users", "shop-t-named-repartition"],
    ]
    assert [part.number for part in found.subtopologies] == [0, 1]


def test_topic_of_a_table_is_read_before_that_of_a_stream_wherever_it_is_declared(compiled: Compile) -> None:
    found = topology(
        compiled,
        """
        tables:
          people: {topic: users}
        flows:
          all: {from: clicks, to: copies}
          by_name:
            from: people
            steps:
              - key_by: {user: name}
              - aggregate: {values: {namesakes: count(*)}}
          a:
            from: clicks
            steps: [{join: {table: by_name, values: {namesakes: by_name.namesakes}}}]
            to: out
        """,
    )
    assert [[topic.name for topic in part.sources] for part in found.subtopologies] == [
        ["users"],
        ["shop-t-by_name-repartition", "clicks"],
    ]


def test_topic_whose_records_may_go_names_all_that_read_it_and_that_counts_for_no_hash(compiled: Compile) -> None:
    clicks, users = TOPICS.strip().splitlines()
    topics = f"{clicks[:-1]}, retention: 1h}}\n{users[:-1]}, cleanup: compact}}\nnames: {users[7:]}\n"
    first = "flows: {f: {from: clicks, to: all_clicks}, g: {from: names, to: all_names}}"
    second = "tables: {people: {topic: users}}\nflows: {f: {from: clicks, to: more_clicks}}"

    alone, *_ = compiled(topics, first).topologies
    both = compiled(topics, first, second)

    read = {name: topic.readers for name, topic in both.topics.items()}
    assert (read["clicks"], read["users"]) == (("shop-t", "shop-t1"), ("shop-t1",))
    assert {readers for name, readers in read.items() if name not in ("clicks", "users")} == {()}
    assert [topic.readers for topic in alone.topics if topic.name == "clicks"] == [("shop-t",)]
    assert content_hash(both.topologies[0]) == content_hash(alone)
