"""Projects written in a test, and an analyzer that needs no Spark."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.compiler.pipeline import CheckedProject, compile_project
from headwater.runtime.expressions.analyzer import Analyzer, Request, Verdict
from headwater.tests.compiler.verdicts import record, recorded

PROJECT = "name: shop\nversion: '1.0'\nprofile: shop\n"
PROFILES = """
shop:
  target: local
  targets:
    local:
      spark:
        master: local[2]
      log:
        type: embedded
        path: .headwater/log
      state_dir: .headwater/state
"""


class RecordedAnalyzer:
    """What Spark's analyzer once said of the expressions of these tests: `verdicts.json`.

    `test_verdicts.py` holds the file to Spark. With `spark` an expression that is not in it is asked of it and added.
    """

    def __init__(self, spark: Callable[[], Analyzer] | None = None) -> None:
        self.asked: list[Request] = []
        self._spark = spark

    def analyze(self, requests: Sequence[Request]) -> list[Verdict]:
        self.asked += requests
        known = recorded()
        new = [request for request in requests if request not in known]
        if new and self._spark is None:
            pytest.fail(f"verdicts.json has no {new[0]}: pytest {Path(__file__).parent} --update-golden")
        if new and self._spark is not None:
            known |= zip(new, self._spark().analyze(new), strict=True)
            record(known)
        return [known[request] for request in requests]


@pytest.fixture
def analyzer(request: pytest.FixtureRequest, update_golden: bool) -> RecordedAnalyzer:
    def spark() -> Analyzer:
        from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

        request.getfixturevalue("spark_session")
        return SparkAnalyzer({"master": "local[2]"})

    return RecordedAnalyzer(spark if update_golden else None)


@pytest.fixture
def compiled(tmp_path: Path, analyzer: RecordedAnalyzer) -> Callable[..., CheckedProject]:
    """Compile a project of one topics file and topologies by name; `parse=True` leaves the analyzer out."""

    def run(topics: str, *topologies: str, parse: bool = False, **files: str) -> CheckedProject:
        write(tmp_path, topics, *topologies, **files)
        return compile_project(tmp_path, analyzer=None if parse else analyzer)

    return run


def write(root: Path, topics: str, *topologies: str, **files: str) -> None:
    """Write the files of a project; of `files` the names have `__` for `/`, and `.py` is added."""
    (root / "topics").mkdir(exist_ok=True)
    (root / "topologies").mkdir(exist_ok=True)
    (root / "headwater.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILES)
    (root / "topics" / "topics.yml").write_text(
        "topics:\n" + textwrap.indent(textwrap.dedent(topics).strip("\n"), "  ")
    )
    for number, text in enumerate(topologies):
        name = f"t{number}" if number else "t"
        (root / "topologies" / f"{name}.yml").write_text(f"topology: {name}\n" + textwrap.dedent(text))
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
