"""Every aggregate of every type, against Spark SQL: refused where Spark refuses it, else of Spark's type and value."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from headwater import Project
from headwater.compiler.language.functions import AGGREGATES
from headwater.runtime.records.record_json import to_json
from headwater.runtime.records.types import arrow_type, ddl
from headwater.runtime.records.values import from_json

VALUES = {
    "boolean": [True, False, None],
    "tinyint": [-128, 127, 3, None],
    "smallint": [-32768, 7, None],
    "int": [2**31 - 1, -5, 0, None],
    "bigint": [2**40, -(2**50), 1, None],
    "float": [0.5, -2.25, "NaN", "Infinity", 0.0, -0.0, None],
    "double": [0.5, -1024.25, "NaN", "-Infinity", 0.0, -0.0, None],
    "decimal(10,2)": ["1.25", "-99999999.99", "0.01", None],
    "decimal(38,10)": ["1.25", "-3.0000000001", "7", None],
    "string": ["", "a", "ä", "1.5", "true", "\U0001f600", None],
    "binary": ["", "AAE=", "/w==", None],
    "date": ["1969-12-31", "2024-02-29", None],
    "timestamp": ["1969-12-31T23:59:59.999999Z", "2024-02-29T12:00:00Z", None],
    "timestamp_ntz": ["1969-12-31T23:59:59.5", "2024-02-29T12:00:00", None],
    "array<double>": [[], [1.0, None], [-0.0], ["NaN"], None],
    "map<string,int>": [{}, {"a": 1}, {"b": None}, None],
    "struct<a:int,b:string>": [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 1, "b": "y"}, None],
    "array<map<string,int>>": [[{"a": 1}], [], None],
    "struct<m:map<string,int>>": [{"m": {"a": 1}}, {"m": None}, None],
}

SPARK_ALONE = {
    ("sum", "string"), ("sum", "timestamp"), ("avg", "string"), ("avg", "timestamp"),
    ("mean", "string"), ("mean", "timestamp"),
    *((word, "string") for word in ("bool_and", "every", "bool_or", "any", "some", "count_if")),
    *(
        (word, type_)
        for word in ("approx_count_distinct", "min_by", "max_by")
        for type_ in VALUES
        if "map<" in type_
    ),
}  # fmt: skip
"""What Spark takes and Headwater does not: hidden casts, and maps where an order of values is needed."""


def name_of(type_: str) -> str:
    return "c_" + re.sub(r"\W+", "_", type_).strip("_")


def calls() -> dict[str, tuple[str, str, str]]:
    """Name of the result -> (aggregate, type, SQL)."""
    found = {}
    for type_ in VALUES:
        column = name_of(type_)
        for word in AGGREGATES:
            sql = f"{word}({column}, n)" if word in ("min_by", "max_by") else f"{word}({column})"
            found[f"{word}_{column}"] = (word, type_, sql)
        for word in ("first", "last", "any_value"):
            found[f"{word}_known_{column}"] = (word, type_, f"{word}({column}, true)")
        for word in ("min_by", "max_by"):
            # By itself: among several of the same order Spark takes any.
            found[f"{word}_self_{column}"] = (word, type_, f"{word}({column}, {column})")
        found[f"count_pairs_{column}"] = ("count", type_, f"count({column}, n)")
    return found


def write(root: Path, values: dict[str, str]) -> None:
    local = {"spark": {"master": "local[2]"}, "log": {"type": "embedded", "path": "log"}, "state_dir": "state"}
    columns = {"n": "int", **{name_of(type_): type_ for type_ in VALUES}}
    steps = [{"aggregate": {"values": values}}]
    files = {
        "headwater.yml": {"name": "types", "version": "1", "profile": "types"},
        "profiles.yml": {"types": {"target": "local", "targets": {"local": local}}},
        "topics/inputs.yml": {"topics": {"inputs": {"partitions": 1, "key": {"g": "string"}, "value": columns}}},
        "topologies/t.yml": {"topology": "t", "flows": {"f": {"from": "inputs", "steps": steps, "to": "results"}}},
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(yaml.safe_dump(content, sort_keys=False, width=1000))


def records() -> list[dict]:
    """A group of values of all types, one of nulls only. `n` is never twice the same, so that no result is a tie."""
    rng = random.Random(10)
    rows = [{"g": "nulls", "n": None} | {name_of(type_): None for type_ in VALUES} for _ in range(2)]
    for n in range(40):
        rows.append({"g": "some", "n": n} | {name_of(type_): rng.choice(some) for type_, some in VALUES.items()})
    return rows


def same(a: object, b: object) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-12))


@pytest.mark.spark
def test_each_aggregate_of_each_type_is_refused_or_gives_what_spark_gives(tmp_path, spark_session):
    everything = calls()
    types = {"g": "string", "n": "int", **{name_of(type_): type_ for type_ in VALUES}}
    rows = records()
    arrays = {name: from_json([row[name] for row in rows], arrow_type(type_)) for name, type_ in types.items()}
    schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
    frame = spark_session.createDataFrame(pa.table(arrays), schema).coalesce(1)

    spark_refuses = set()
    for name, (_, _, sql) in everything.items():
        try:
            frame.selectExpr(sql)
        except Exception:
            spark_refuses.add(name)

    write(tmp_path, {name: sql for name, (_, _, sql) in everything.items()})
    with Project.load(tmp_path, session=spark_session) as project:
        diagnostics = project.compile(check=False).diagnostics
    lines = (tmp_path / "topologies/t.yml").read_text().splitlines()
    refused = {lines[found.position.line - 1].strip().partition(":")[0] for found in diagnostics}
    assert {found.code for found in diagnostics} == {"HW413"}
    alone = {name for name, (word, type_, _) in everything.items() if (word, type_) in SPARK_ALONE}
    assert refused == spark_refuses | alone

    left = {name: sql for name, (_, _, sql) in everything.items() if name not in refused}
    write(tmp_path, left)
    with Project.load(tmp_path, session=spark_session) as project:
        assert not project.compile().diagnostics
        project.append("inputs", [{"key": {"g": row["g"]}, "value": {k: v for k, v in row.items() if k != "g"}}
                                  for row in rows])  # fmt: skip
        assert not project.run(until_caught_up=True).failed
        found = {record.key["g"]: record.value for record in project.read("results")}
        described = json.loads((tmp_path / "target/manifest.json").read_text())

    expected = frame.groupBy("g").agg(*[expr(sql, name) for name, sql in left.items()]).toArrow()
    columns = {name: to_json(expected[name].combine_chunks()) for name in left}
    groups = expected["g"].to_pylist()
    wrong = [
        (left[name], group, found[group][name], column[groups.index(group)])
        for group in found
        for name, column in columns.items()
        if not same(found[group][name], column[groups.index(group)])
    ]
    assert not wrong
    assert found.keys() == set(groups)
    result = next(topic for topic in described["topics"] if topic["name"] == "results")
    assert result["value"] == {name: ddl(expected.schema.field(name).type) for name in left}


def expr(sql: str, name: str):
    from pyspark.sql import functions

    return functions.expr(sql).alias(name)
