"""Kafka Streams' rules, case by case, on the real runtime."""

import pytest
from conformance.project import CASES, Case

NAMES = sorted(path.stem for path in CASES.glob("*.yml"))


def test_there_are_thirty_cases_with_numbers_of_their_own():
    assert [int(name.split("_")[0]) for name in NAMES] == list(range(1, 31))


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_case_gives_the_records_and_drops_of_kafka_streams(name, tmp_path, spark_session):
    case = Case.load(name)
    assert case.run(tmp_path, spark_session) == case.outputs
