"""The types of all expressions that there are in projects are those that Spark gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from headwater.cli.main import main
from headwater.compiler.language.type_checker import UntypedAnalyzer
from headwater.compiler.pipeline import compile_project
from headwater.runtime.expressions.analyzer import Request, Verdict
from headwater.runtime.expressions.terms import UntypedError
from headwater.runtime.expressions.typed import type_of
from headwater.runtime.expressions.types import canonical
from headwater.runtime.records.types import split_columns
from headwater.tests.conformance.project import CASES, Case
from headwater.tests.projects.changes.deployed import Deployed, changes
from headwater.tests.projects.changes.flights_small import files_of_flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


class Noting(UntypedAnalyzer):
    """Notes what Spark would be asked."""

    def __init__(self) -> None:
        self.asked: dict[Request, None] = {}

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        self.asked |= dict.fromkeys(requests)
        return super().analyze(requests)


def projects(folder: Path) -> Iterator[Path]:
    """The projects of this repository, and the one that is made for a user."""
    for file in ROOT.rglob("headwater.yml"):
        if not {".venv", ".package"} & {*file.relative_to(ROOT).parts}:
            yield file.parent
    assert CliRunner().invoke(main, ["init", "shop", "--project-dir", str(folder / "shop")]).exit_code == 0
    yield folder / "shop"
    for case in CASES.glob("*.yml"):
        Case.load(case.stem).write(folder / case.stem)
        yield folder / case.stem


def changed_flights(folder: Path) -> Iterator[Path]:
    """The example after each change of it."""
    for number, parameters in enumerate(changes("flights")):
        (change,) = parameters.values
        root = files_of_flights(folder / f"flights-{number}")
        for each in (*change.earlier, change):
            each.done(Deployed(root, {}))
        yield root


def known(request: Request) -> str | None:
    sql, columns = request
    try:
        return type_of(sql, dict(split_columns(columns)))
    except UntypedError:
        return None


@pytest.mark.spark
@pytest.mark.parametrize("made", [projects, pytest.param(changed_flights, marks=pytest.mark.soak)])
def test_types_of_all_projects_are_those_that_spark_gives(
    made: Callable[[Path], Iterator[Path]], tmp_path: Path, spark_session: SparkSession
) -> None:
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    noting = Noting()
    for root in made(tmp_path):
        compile_project(root, analyzer=noting, keep_verdicts=False, only_spark=True)

    said = {request: type_ for request in noting.asked if (type_ := known(request)) is not None}
    given = dict(zip(said, SparkAnalyzer({"master": "local[2]"}).analyze(list(said)), strict=True))

    assert said == {each: canonical(type_) if isinstance(type_, str) else type_ for each, type_ in given.items()}
    assert len(said) > len(noting.asked) * 0.8
