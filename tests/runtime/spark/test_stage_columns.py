"""Columns on their way from SQL into a Python stage, whatever their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.tests.conformance.project import Case

pytestmark = pytest.mark.spark


def halves(flow: str) -> dict[str, Any]:
    """Here a key column that shares its name with one of the value, `key.v`, and an argument, `value.v * 0.5`."""
    steps = [
        {"key_by": {"v": "v"}},
        {"filter": "value.v > 1"},
        {"aggregate": {"values": {"half": "sum(value.v * 0.5)"}}},
    ]
    return {"from": "A", "steps": steps, "to": flow.upper()}


@pytest.mark.parametrize("flows", [["f"], ["f", "g"]], ids=["flat", "tagged"])
def test_dot_in_a_name_is_no_path_to_a_field(flows: list[str], tmp_path: Path, spark_session: SparkSession) -> None:
    topology = {"flows": {flow: halves(flow) for flow in flows}}
    case = Case("dots", {"v": "bigint", "input": "a:1@1 b:3@2 c:3@3", "topology": topology})
    topics, dropped = case.run(tmp_path, spark_session)
    assert {name: [(token.key, token.value) for token in tokens] for name, tokens in topics.items()} == {
        flow.upper(): [("3", "3.0")] for flow in flows
    }
    assert dropped == 0
