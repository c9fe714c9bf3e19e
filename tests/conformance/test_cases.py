"""Kafka Streams' rules, case by case, on the real runtime."""

import re

import pytest
from conformance.in_process import DrivenRunError, InProcess, NeedsSparkError
from conformance.project import CASES, Case

NAMES = sorted(path.stem for path in CASES.glob("*.yml"))
COMPUTING = re.compile("filter|select|with_columns|key_by|branch|explode")
"""Steps with expressions that tasks may compute themselves."""
IN_TASKS = [name for name in NAMES if COMPUTING.search((CASES / f"{name}.yml").read_text())]
NEEDS_SPARK = {"20_subtract_before_add", "37_final_sessions"}
"""With expressions that tasks cannot compute, or of which only Spark knows the type."""
FAILING = [name for name in NAMES if "fails" in Case.load(name).content]


def test_cases_have_numbers_of_their_own():
    assert [int(name.split("_")[0]) for name in NAMES] == list(range(1, len(NAMES) + 1))


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted({*NAMES} - {*FAILING}))
def test_case_gives_the_records_and_drops_of_kafka_streams(name, tmp_path, spark_session):
    case = Case.load(name)
    assert case.run(tmp_path, spark_session) == case.outputs


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted({*IN_TASKS} - {*FAILING}))
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


@pytest.mark.parametrize("name", NAMES)
def test_case_gives_the_same_in_this_process_wherever_epochs_end(name, tmp_path):
    """What is collapsed by epoch depends on them, so of such a case an epoch is a batch."""
    case = Case.load(name)
    case.write(tmp_path)
    if name in NEEDS_SPARK:
        with pytest.raises(NeedsSparkError), InProcess(tmp_path).driven("case", 1000):
            pass
        return
    project = InProcess(tmp_path)
    for max_records in [1000] if "per_epoch" in name else [1, 7, 1000]:
        if name in FAILING:
            with pytest.raises(DrivenRunError, match=f"record {re.escape(case.content['fails'])} cannot be processed"):
                case.run_in_process(project, max_records)
        else:
            assert case.run_in_process(project, max_records) == case.outputs
