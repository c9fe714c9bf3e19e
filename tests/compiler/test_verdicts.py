"""The verdicts that the tests of the compiler take for Spark's are Spark's."""

from __future__ import annotations

import pytest

from headwater.tests.compiler.verdicts import record, recorded

pytestmark = pytest.mark.spark


def test_recorded_verdicts_are_those_of_spark(spark_session: object, update_golden: bool) -> None:
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    known = recorded()

    said = SparkAnalyzer({"master": "local[2]"}).analyze(list(known))

    found = dict(zip(known, said, strict=True))
    if update_golden:
        record(found)
    assert found == recorded()
