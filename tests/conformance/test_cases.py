"""Kafka Streams' rules, case by case, on the real runtime."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from headwater.tests.conformance.project import CASES, Case
from headwater.tests.conformance.test_in_this_process import NAMES as IN_THIS_PROCESS

NAMES = sorted(path.stem for path in CASES.glob("*.yml"))
FAILING = [name for name in NAMES if "fails" in Case.load(name).content]
COMPUTING = ("filter", "select", "with_columns", "key_by", "branch", "explode")
"""Steps with expressions that tasks may compute themselves."""
OF_COLUMNS = ("select", "with_columns", "key_by")
"""Steps whose attributes are columns."""


def in_tasks() -> list[Any]:
    """Cases with such steps. Tasks compute them without Spark too (`test_in_this_process.py`): on Spark, two of each
    step are enough, and `make soak` runs the others.
    """
    texts = {name: (CASES / f"{name}.yml").read_text() for name in sorted({*NAMES} - {*FAILING})}
    by_step = [[name for name, text in texts.items() if re.search(step, text)] for step in COMPUTING]
    chosen = {name for names in by_step for name in names[:2]} | ({*texts} - {*IN_THIS_PROCESS})
    every = sorted({name for names in by_step for name in names})
    return [pytest.param(name, marks=[] if name in chosen else [pytest.mark.soak]) for name in every]


def words(topology: Mapping[str, Any]) -> set[str]:
    """The words of the language in a topology: steps, their attributes, kinds of results, and forms of joins."""
    steps = [step for flow in topology["flows"].values() for step in flow.get("steps", ())]
    tables = topology.get("tables", {})
    found = {step for step in steps if isinstance(step, str)}
    found |= {"route" for flow in topology["flows"].values() if isinstance(flow.get("to"), dict)}
    for name, content in (item for step in steps if isinstance(step, dict) for item in step.items()):
        attributes = content if isinstance(content, dict) and name not in OF_COLUMNS else {}
        found |= {name, *(f"{name} {attribute}" for attribute in attributes)}
        found |= {f"{name} {content[kind]}" for kind in ("type", "emit") if kind in attributes}
        table = tables.get(content["table"], {}) if name == "join" and "table" in attributes else {}
        found.add(" ".join(sorted(("join", *attributes, *table))) if name == "join" else name)
    return found


def on_spark() -> list[Any]:
    """All cases that do not fail. This process has most of them too (`test_in_this_process.py`): on Spark, the others
    and the first with each word are enough, and `make soak` runs the rest.
    """
    marked, seen = [], set[str]()
    for name in sorted({*NAMES} - {*FAILING}):
        there = words(Case.load(name).content["topology"])
        rest = name in IN_THIS_PROCESS and there <= seen
        seen |= there
        marked.append(pytest.param(name, marks=[pytest.mark.soak] if rest else []))
    return marked


def test_cases_have_numbers_of_their_own():
    assert [int(name.split("_")[0]) for name in NAMES] == list(range(1, len(NAMES) + 1))


@pytest.mark.spark
@pytest.mark.parametrize("name", on_spark())
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
@pytest.mark.parametrize("max_records", [2, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 1000))])
@pytest.mark.parametrize("name", FAILING)
def test_case_fails_at_its_record_wherever_epochs_end(name, max_records, tmp_path, spark_session):
    case = Case.load(name)
    assert case.failing_record(tmp_path, spark_session, max_records) == case.content["fails"]
