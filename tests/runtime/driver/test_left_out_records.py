"""Records that expressions cannot process, left out on real Spark: casts, divisions, behind a repartition topic."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.ir.topology import ExpressionEngine

pytestmark = pytest.mark.spark

FILES = {
    "headwater.yml": 'name: words\nversion: "1.0"\nprofile: words\n',
    "profiles.yml": """
words:
  target: local
  targets:
    local:
      log: {type: embedded, path: log}
      state_dir: state
""",
    "topics/words.yml": """
topics:
  words:
    partitions: 2
    on_error: dead_letter
    key: {id: int}
    value: {text: string}
""",
    "topologies/t.yml": """
topology: t
flows:
  f:
    from: words
    steps:
      - select:
          n: cast(text as int)
          r: 100 / id
    to: out
  h:
    from: words
    to: copies
  g:
    from: words
    on_error: skip
    steps:
      - key_by:
          k: if(id = 6, cast('six' || text as int), id % 2)
      - aggregate:
          values:
            s: sum(cast(text as bigint))
      - select:
          q: 10 / (s - 3)
    to: sums
""",
}


def written(root: Path, files: Mapping[str, str], session: SparkSession) -> Project:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return Project(root, session=session)


@pytest.mark.parametrize("engine", ["spark", "task"])
def test_records_that_expressions_cannot_process_are_left_out_and_kept(
    tmp_path: Path, spark_session: SparkSession, engine: ExpressionEngine
) -> None:
    project = written(tmp_path, FILES, spark_session)
    texts = ["1", "x", "2", "3", "y", "5", "6", "7"]
    project.append(
        "words", [{"timestamp": 1000 + n, "key": {"id": n}, "value": {"text": text}} for n, text in enumerate(texts)]
    )

    (result,) = project.run(until_caught_up=True, engine=engine).applications

    read = {name: list(project.read(name)) for name in ("out", "copies", "sums", "t_words_dead_letter")}
    # 1 and 4 do not cast, 0 is divided by: these are letters. 6 fails in the flow that skips.
    assert {each.key["id"] for each in read["out"] if each.key} == {2, 3, 5, 7}
    assert {each.key["id"] for each in read["copies"] if each.key} == {2, 3, 5, 7}
    letters = {json.loads(each.value["key"])["id"]: each.value for each in read["t_words_dead_letter"] if each.value}
    assert {number: each["error"].partition("]")[0] for number, each in letters.items()} == {
        0: "[DIVIDE_BY_ZERO",
        1: "[CAST_INVALID_INPUT",
        4: "[CAST_INVALID_INPUT",
    }
    assert {each["step"] for each in letters.values()} == {"topologies/t.yml:7"}
    # Of the odd ones 3 would make the sum 3, which is divided by less 3: it is left out, and 5 and 7 are summed up.
    assert {each.key["k"]: each.value for each in read["sums"] if each.key} == {0: {"q": -10.0}, 1: {"q": 10 / 9}}
    assert sum(result.dropped.values()) == 5


DIVIDED = {
    **FILES,
    "topics/words.yml": """
topics:
  words:
    partitions: 2
    on_error: dead_letter
    key: {id: int}
    value: {by: int}
""",
    "topologies/t.yml": """
topology: t
flows:
  f:
    from: words
    steps:
      - filter: id < 90
      - with_columns:
          part: 100 div by
          next: id + 2147483600
      - filter: part is null or part < 100
    to: out
""",
}


@pytest.mark.parametrize("engine", ["spark", "task"])
def test_records_that_an_expression_of_a_task_cannot_process_are_left_out_and_told_as_spark_tells_them(
    tmp_path: Path, spark_session: SparkSession, engine: ExpressionEngine
) -> None:
    project = written(tmp_path, DIVIDED, spark_session)
    divisors = {1: 5, 2: 0, 3: None, 48: 7, 5: 1, 95: 0}
    project.append(
        "words", [{"timestamp": 1000 + n, "key": {"id": n}, "value": {"by": by}} for n, by in divisors.items()]
    )

    (result,) = project.run(until_caught_up=True, engine=engine).applications

    assert {each.key["id"]: each.value for each in project.read("out") if each.key} == {
        1: {"by": 5, "part": 20, "next": 2147483601},
        3: {"by": None, "part": None, "next": 2147483603},
    }
    letters = {json.loads(e.value["key"])["id"]: e.value for e in project.read("t_words_dead_letter") if e.value}
    assert {number: each["error"].partition("]")[0] for number, each in letters.items()} == {
        2: "[DIVIDE_BY_ZERO",
        48: "[ARITHMETIC_OVERFLOW",
    }
    assert {each["step"] for each in letters.values()} == {"topologies/t.yml:8"}
    assert sum(result.dropped.values()) == 2


def test_record_that_a_task_computes_in_front_of_the_filter_that_removes_it_is_named(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    files = {
        **FILES,
        "topics/words.yml": DIVIDED["topics/words.yml"].replace("dead_letter", "fail"),
        "topologies/t.yml": """
topology: t
flows:
  f:
    from: words
    steps:
      - with_columns:
          part: 100 div by
      - filter: by <> 0
    to: out
""",
    }
    project = written(tmp_path, files, spark_session)
    project.append("words", [{"timestamp": n, "key": {"id": 1}, "value": {"by": by}} for n, by in enumerate([5, 0, 2])])

    (result,) = project.run(until_caught_up=True, engine="task", check=False).applications

    assert re.search(r"topologies/t.yml:7: record words\[\d\]@1 cannot be .*\[DIVIDE_BY_ZERO\]", result.error or "")
