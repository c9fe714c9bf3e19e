"""The results of a project's tests: data to print, and to write into a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...compiler.topology.engines import StepEngine
from ...errors import HeadwaterError
from ...runtime.testing.comparing import Compared
from ...runtime.testing.rows import Columns

Status = Literal["passed", "failed", "error"]
EntryKind = Literal["topic", "store", "dropped"]


@dataclass(frozen=True)
class ComparedRow:
    """A row of what a case expects, or of what was found in its place. `line`: in the file; None for a row that it does
    not have.
    """

    row: Compared
    line: int | None

    def to_json(self) -> dict[str, Any]:
        """As in `schemas/test_results.json`."""
        expected, found = self.row.expected, self.row.found
        return {
            "kind": self.row.kind,
            "line": self.line,
            "expected": None if expected is None else dict(expected),
            "found": None if found is None else dict(found),
            "differing": list(self.row.differing),
        }


@dataclass(frozen=True)
class Difference:
    """An entry of `expect` that does not hold. `kind`, `name`: a topic, a store, or `dropped`.

    `rows`: all that were compared, of `columns`. `hint`: what may have been meant.
    """

    kind: EntryKind
    name: str
    file: str
    line: int
    rows: tuple[ComparedRow, ...]
    columns: Columns
    hint: str | None = None

    @property
    def wrong(self) -> tuple[ComparedRow, ...]:
        """The rows that differ, are missing, or are there and not expected."""
        return tuple(each for each in self.rows if each.row.kind != "same")

    def to_json(self) -> dict[str, Any]:
        """As in `schemas/test_results.json`."""
        rows = [each.to_json() for each in self.rows]
        return {"kind": self.kind, "name": self.name, "line": self.line, "hint": self.hint, "rows": rows}


@dataclass(frozen=True)
class CaseResult:
    """One case. `error`: why it could not be run to its end, `hint`: what to do about it. `on_spark`: whether it ran on
    Spark.
    """

    name: str
    topology: str
    file: str
    line: int
    status: Status
    seconds: float
    on_spark: bool = False
    differences: tuple[Difference, ...] = ()
    error: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `schemas/test_results.json`."""
        return {
            "test": self.name,
            "topology": self.topology,
            "file": self.file,
            "line": self.line,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "on_spark": self.on_spark,
            "error": self.error,
            "hint": self.hint,
            "differences": [each.to_json() for each in self.differences],
        }


@dataclass(frozen=True)
class CaseResults:
    """All cases that were run, in the order of their files.

    `spark`: the steps because of which Spark was started. `updated`: the files that `update` has written.
    """

    cases: tuple[CaseResult, ...]
    spark: tuple[StepEngine, ...] = ()
    seconds: float = 0.0
    updated: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<CaseResults: {len(self.cases) - len(self.failed)} passed, {len(self.failed)} failed>"

    @property
    def failed(self) -> tuple[CaseResult, ...]:
        """The cases that did not pass."""
        return tuple(each for each in self.cases if each.status != "passed")

    def check(self) -> None:
        """Raises TestsFailedError if a case did not pass."""
        if self.failed:
            raise TestsFailedError(self)

    def to_json(self) -> dict[str, Any]:
        """As in `schemas/test_results.json`."""
        return {
            "tests": [each.to_json() for each in self.cases],
            "passed": len(self.cases) - len(self.failed),
            "failed": len(self.failed),
            "updated": list(self.updated),
            "seconds": round(self.seconds, 3),
            "spark": [{"at": each.at, "because": each.kept} for each in self.spark],
        }


class TestsFailedError(HeadwaterError):
    """Tests of the project have failed: `results`."""

    __test__ = False  # of pytest, which would take it for a class of tests

    def __init__(self, results: CaseResults) -> None:
        names = ", ".join(f"'{each.name}' ({each.file}:{each.line})" for each in results.failed)
        count = len(results.failed)
        super().__init__(
            f"{count} {'test has' if count == 1 else 'tests have'} failed: {names}",
            "`headwater test` shows what was expected and what was found",
        )
        self.results = results


def shown_json(results: Mapping[str, Any], base: str) -> dict[str, Any]:
    """The JSON of results with paths from the reader's directory. `base`: the path from there to the project."""
    if base in ("", "."):
        return dict(results)
    return {**results, "tests": [{**each, "file": f"{base}/{each['file']}"} for each in results["tests"]]}
