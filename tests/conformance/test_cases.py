"""Kafka Streams' rules, case by case, on the real runtime."""

import re
from typing import Any

import pytest
from conformance.project import CASES, Case
from conformance.test_in_this_process import NAMES as IN_THIS_PROCESS

NAMES = sorted(path.stem for path in CASES.glob("*.yml"))
FAILING = [name for name in NAMES if "fails" in Case.load(name).content]
COMPUTING = ("filter", "select", "with_columns", "key_by", "branch", "explode")
"""Steps with expressions that tasks may compute themselves."""


def in_tasks() -> list[Any]:
    """Cases with such steps. Tasks compute them without Spark too (`test_in_this_process.py`): on Spark, two of each
    step are enough, and `make soak` runs the others.
    """
    texts = {name: (CASES / f"{name}.yml").read_text() for name in sorted({*NAMES} - {*FAILING})}
    by_step = [[name for name, text in texts.items() if re.search(step, text)] for step in COMPUTING]
    chosen = {name for names in by_step for name in names[:2]} | ({*texts} - {*IN_THIS_PROCESS})
    every = sorted({name for names in by_step for name in names})
    return [pytest.param(name, marks=[] if name in chosen else [pytest.mark.soak]) for name in every]


def test_cases_have_numbers_of_their_own():
    assert [int(name.split("_")[0]) for name in NAMES] == list(range(1, len(NAMES) + 1))


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted({*NAMES} - {*FAILING}))
def test_case_gives_the_records_and_drops_of_kafka_streams(name, tmp_path, spark_session):
    case = Case.load(name)
    assert case.run(tmp_path, spark_session) == case.outputs


@pytest.mark.spark
@pytest.mark.parametrize("name", in_tasks())
def test_case_gives_the_same_where_tasks_compute_expressions(name, tmp_path, spark_session):
    case = Case.load(name)
    assert case.run(tmp_path, spark_session, "task") == case.outputs


@pytest.mark.spark
@pytest.mark.parametrize("name", FAILING)
def test_case_fails_at_the_same_record_where_tasks_compute_expressions(name, tmp_path, spark_session):
    case = Case.load(name)
    assert case.failing_record(tmp_path, spark_session, 1000, "task") == case.content["fails"]


@pytest.mark.spark
@pytest.mark.parametrize("max_records", [1, 2, 1000])
@pytest.mark.parametrize("name", FAILING)
def test_case_fails_at_its_record_wherever_epochs_end(name, max_records, tmp_path, spark_session):
    case = Case.load(name)
    assert case.failing_record(tmp_path, spark_session, max_records) == case.content["fails"]
