"""The SQL steps on flat and tagged pipes: what passes, what is guarded, what is evaluated for whom."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.runtime.cluster.spark import sql_steps

pytestmark = pytest.mark.spark

SCHEMA = "_kind tinyint, _ts bigint, _order bigint, _meta string, k string, v int, tags string"


@pytest.fixture
def rows(spark_session: SparkSession) -> DataFrame:
    return spark_session.createDataFrame(
        [
            (1, 10, 10, None, "a", 1, "x,y"),
            (0, 11, 11, None, "b", None, None),
            (1, 12, 12, None, "c", 0, None),
            (-1, 0, 0, "end", None, None, None),
        ],
        SCHEMA,
    ).coalesce(1)


def data(rows: DataFrame) -> list[tuple[Any, ...]]:
    return [
        tuple(row[name] for name in rows.columns if name not in ("_ts", "_order", "_meta")) for row in rows.collect()
    ]


def test_filter_of_a_stream_passes_control_and_counts_null_as_false(rows: DataFrame) -> None:
    assert data(sql_steps.where(rows, "v > 0")) == [(1, "a", 1, "x,y"), (-1, None, None, None)]


def test_filter_of_a_stream_evaluates_null_values(rows: DataFrame) -> None:
    assert [row[1] for row in data(sql_steps.where(rows, "v IS NULL"))] == ["b", None]


def test_filter_of_a_table_turns_a_failing_row_into_a_deletion(rows: DataFrame) -> None:
    kept = data(sql_steps.where(rows, "v > 0", table=True))
    assert [(row[0], row[1]) for row in kept] == [(1, "a"), (0, "b"), (0, "c"), (-1, None)]


def test_select_evaluates_nothing_for_null_values_and_control(rows: DataFrame) -> None:
    selected = sql_steps.select(sql_steps.where(rows, "v IS NULL OR v > 0"), {"n": "1 / coalesce(v, 0)"}, keep=["k"])
    assert selected.columns == [*sql_steps.META, "k", "n"]
    assert data(selected) == [(1, "a", 1.0), (0, "b", None), (-1, None, None)]


def test_key_by_is_evaluated_for_null_values(rows: DataFrame) -> None:
    keyed = sql_steps.key_by(rows, {"new": "coalesce(tags, 'none')"}, keep=["v"])
    assert data(keyed) == [(1, 1, "x,y"), (0, None, "none"), (1, 0, "none"), (-1, None, None)]


@pytest.mark.parametrize("flow", [None, "f"])
def test_step_behind_key_by_sees_equal_keys_as_the_same_value(rows: DataFrame, flow: str | None) -> None:
    negative = "CAST('-0.0' AS DOUBLE)"
    keys = {
        "d": f"IF(v = 1, {negative}, {negative} + v)",
        "f": f"CAST({negative} AS FLOAT)",
        "a": f"array({negative}, 1.5D, NULL)",
        "s": f"named_struct('x.y', {negative}, 't', k)",
        "n": f"IF(v = 1, array(named_struct('x', {negative})), NULL)",
        "t": "k",
    }
    pipe = rows if flow is None else sql_steps.fork(rows, [flow, "g"])
    keyed = sql_steps.key_by(pipe, keys, keep=["v"], flow=flow)
    told = sql_steps.select(keyed, {"told": "concat_ws('|', d, f, to_json(struct(a, s, n)), t)"}, keep=["v"], flow=flow)
    found = (told if flow is None else told.select("_kind", "@f.*")).collect()

    assert [row["told"] for row in found if row["_kind"] == 1 and row["told"]] == [
        '0.0|0.0|{"a":[0.0,1.5,null],"s":{"x.y":0.0,"t":"a"},"n":[{"x":0.0}]}|a',
        '0.0|0.0|{"a":[0.0,1.5,null],"s":{"x.y":0.0,"t":"c"}}|c',
    ]
    assert [(field.name, field.dataType.simpleString()) for field in keyed.schema if field.name in keys] == (
        []
        if flow
        else [
            ("d", "double"),
            ("f", "float"),
            ("a", "array<double>"),
            ("s", "struct<x.y:double,t:string>"),
            ("n", "array<struct<x:double>>"),
            ("t", "string"),
        ]
    )


def test_explode_yields_elements_in_order_and_nothing_for_null(rows: DataFrame) -> None:
    exploded = sql_steps.explode(rows, {"t": "split(tags, ',')"}, keep=["k"])
    assert data(exploded) == [(1, "a", "x"), (1, "a", "y"), (-1, None, None)]


def test_branch_takes_the_first_match_and_drops_the_rest(rows: DataFrame) -> None:
    branched = sql_steps.branch(rows, [("ones", "v = 1"), ("nulls", "v IS NULL")])
    assert branched.columns == [*sql_steps.META, "@ones", "@nulls"]
    found = [
        (row["_kind"], row["@ones"] and row["@ones"]["k"], row["@nulls"] and row["@nulls"]["k"])
        for row in branched.collect()
    ]
    assert found == [(1, "a", None), (0, None, "b"), (-1, None, None)]


def test_fork_copies_in_order_of_readers_and_control_once(rows: DataFrame) -> None:
    forked = sql_steps.fork(rows, ["x", "y"])
    found = [("x" if row["@x"] else "y" if row["@y"] else "-") for row in forked.collect()]
    assert found == ["x", "y", "x", "y", "x", "y", "-"]


def test_tagged_steps_touch_their_own_flow_only(rows: DataFrame) -> None:
    forked = sql_steps.fork(rows, ["x", "y"])
    filtered = sql_steps.where(forked, "v > 0", flow="x")
    projected = sql_steps.select(filtered, {"w": "v + 1"}, keep=["k"], flow="x")
    exploded = sql_steps.explode(projected, {"t": "split(tags, ',')"}, keep=["k"], flow="y")
    merged = sql_steps.merge(sql_steps.select(exploded, {"w": "length(t)"}, keep=["k"], flow="y"), ["x", "y"], "z")
    assert merged.columns == [*sql_steps.META, "k", "w"]
    assert [(row["k"], row["w"]) for row in merged.collect()] == [("a", 2), ("a", 1), ("a", 1), (None, None)]


def test_projection_renames_a_key_column_that_a_value_column_would_hide(rows: DataFrame) -> None:
    projected = sql_steps.with_columns(rows, {"k": "v + 1"}, key={"key.k": "k"})
    assert projected.columns == [*sql_steps.META, "v", "tags", "key.k", "k"]
    assert [(row["key.k"], row["k"]) for row in projected.collect()] == [("a", 2), ("b", None), ("c", 1), (None, None)]


def test_branch_with_one_reader_leaves_a_flat_pipe(rows: DataFrame) -> None:
    branched = sql_steps.branch(rows, [("ones", "v = 1"), ("rest", None)], into=["rest"], keep=["k"])
    assert branched.columns == [*sql_steps.META, "k"]
    assert [row["k"] for row in branched.collect()] == ["b", "c", None]


def test_every_step_is_named_by_its_position(rows: DataFrame) -> None:
    plan = sql_steps.where(rows, "v > 0", at="topologies/x.yml:22")._jdf.queryExecution().analyzed()
    assert plan.identifier().name() == "topologies/x.yml:22"


def test_columns_reach_the_next_stage_in_the_order_it_expects(rows: DataFrame) -> None:
    selected = sql_steps.select(rows, {"a": "v + 1"}, keep=["k", "v"])
    assert sql_steps.ordered(selected, {"f": ["a", "k"]}).columns == [*sql_steps.META, "a", "k"]
    forked = sql_steps.ordered(sql_steps.fork(rows, ["x", "y"]), {"y": ["v", "k"], "x": ["k"]})
    assert forked.columns == [*sql_steps.META, "@y", "@x"]
    assert forked.schema["@y"].dataType.names == ["v", "k"]


def test_columns_named_by_sql_with_quotes_pass_through_structs(rows: DataFrame) -> None:
    named = sql_steps.with_columns(
        sql_steps.fork(rows, ["x", "y"]), {"if(k = 'a', 1, 0)": "if(k = 'a', 1, 0)"}, flow="x"
    )
    trimmed = sql_steps.merge(named, ["x"], "z", keep=["if(k = 'a', 1, 0)"])
    assert trimmed.schema["@z"].dataType.names == ["if(k = 'a', 1, 0)"]
