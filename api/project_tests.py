"""The tests of a project, and their results."""

from __future__ import annotations

import codecs
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from ..compiler.diagnostics import Diagnostics, did_you_mean
from ..compiler.outcomes import InvalidProjectError, Parsed, UnknownNameError
from ..compiler.reading.source import MappingNode
from ..compiler.reading.source import SequenceNode as Items
from ..compiler.testing.cases import Case, LoadedCases, load_cases
from ..compiler.testing.checked import CheckedCase, Surface, check_case
from ..compiler.testing.updating import Found, updated
from ..compiler.topology.engines import StepEngine
from ..errors import HeadwaterError
from ..runtime.ir.topology import ExpressionEngine
from ..runtime.testing.comparing import Compared, cells_of_record, cells_of_row, compared, last_of_each_key
from ..runtime.testing.driven import DrivenTopology, Expected, ExpectedDrops
from ..runtime.testing.rows import Columns
from .arguments import ArgumentError, check_names
from .files import CheckedFiles, Selection
from .topology_test_driver import DrivenProject, rows_of_store, with_vars

if TYPE_CHECKING:
    from ..runtime.cluster.spark.on_demand import SparkOnDemand


# The results of a project's tests: data to print, and to write into a file.

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


# Runs the tests of a project: the cases in its folder `tests/`.

UNUSED_VARIABLE = "HW035"


class Testing:
    """The tests of a project."""

    def __init__(self, files: CheckedFiles, selection: Selection, spark: SparkOnDemand) -> None:
        self._files = files
        self._selection = selection
        self._spark = spark
        self._projects: dict[str, DrivenProject] = {}

    def test(
        self, names: Sequence[str], engine: ExpressionEngine, update: bool, progress: Callable[[CaseResult], None]
    ) -> CaseResults:
        """See `Project.test`."""
        check_names("names", names)
        if engine not in ("task", "spark"):
            raise ArgumentError("engine", engine, "'task' or 'spark'")
        started = time.monotonic()
        diagnostics = Diagnostics()
        loaded = load_cases(self._files.root, self._files.untyped.loaded.vars, diagnostics)
        self._refuse(diagnostics, loaded)
        chosen = list(self._chosen(loaded.cases, names))
        if not chosen:
            return CaseResults(())
        checked = [self._checked(case, diagnostics) for case in chosen]
        self._refuse(diagnostics, loaded)
        results: list[CaseResult] = []
        spark: dict[StepEngine, None] = {}
        for case, made in zip(chosen, checked, strict=True):
            result = made if isinstance(made, CaseResult) else self._run(made, engine)
            if result.on_spark and engine == "task":
                spark |= dict.fromkeys(self._project(case).kept_on_spark(case.topology.text))
            results.append(result)
            progress(result)
        files = self._update(results) if update else ()
        return CaseResults(tuple(results), tuple(spark), time.monotonic() - started, files)

    def _update(self, results: Sequence[CaseResult]) -> tuple[str, ...]:
        """Write what was found into the files of cases that have failed. Returns these files."""
        found: dict[str, list[Found]] = {}
        for each in (difference for result in results for difference in result.differences):
            rows = [compared.row for compared in each.rows]
            found.setdefault(each.file, []).append(Found(each.kind, each.line, rows, each.columns))
        for file, differences in found.items():
            path = self._files.root / file
            content = path.read_bytes()
            bom = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
            text = updated(content.removeprefix(bom).decode("utf-8"), differences)
            path.write_bytes(bom + text.encode("utf-8"))
        return tuple(found)

    def _chosen(self, cases: Sequence[Case], names: Sequence[str]) -> Iterator[Case]:
        """The named cases (by name, pattern or file) of the selected topologies. Raises UnknownNameError."""
        selected = self._selection.topologies() if self._selection.narrows else None
        for name in names:
            if not any(_is_named(case, name) for case in cases):
                known = [each for case in cases for each in (case.name.text, case.position.file)]
                hint = did_you_mean(name, known) or "`headwater test` without names runs all of them"
                raise UnknownNameError("test", name, hint)
        for case in cases:
            if (selected is None or case.topology.text in selected) and (
                not names or any(_is_named(case, name) for name in names)
            ):
                yield case

    def _checked(self, case: Case, diagnostics: Diagnostics) -> CheckedCase | CaseResult | None:
        """The case as it is run; its result where its variables do not fit the project. None: something is reported."""
        project = self._project(case)
        try:
            graph = project.graphs.get(case.topology.text)
        except InvalidProjectError as error:
            if not case.vars:
                raise
            return _result(case, error=HeadwaterError(f"the project has errors with these variables: {error.message}"))
        if case.vars_node is not None:
            self._check_variables(case.vars_node, project, diagnostics)
        if graph is None:
            message = f"There is no topology '{case.topology.text}'."
            hint = did_you_mean(case.topology.text, project.graphs)
            diagnostics.add("HW801", case.topology.position, message, hint)
            return None
        return check_case(case, graph, self._files.root, diagnostics)

    def _check_variables(self, node: MappingNode, project: DrivenProject, diagnostics: Diagnostics) -> None:
        found = project.files.typed.diagnostics
        unused = [each.message for each in found if each.code == UNUSED_VARIABLE and not each.position.in_file]
        for name in node:
            for message in unused:
                if f"'{name}'" in message:
                    diagnostics.add("HW806", node.key_position(name), message, "Leave it out, or use it.")

    def _project(self, case: Case) -> DrivenProject:
        """The project with the case's variables; the same one for equal variables."""
        key = repr(sorted(case.vars.items()))
        if key not in self._projects:
            self._projects[key] = with_vars(self._files, self._spark, case.vars)
        return self._projects[key]

    def _refuse(self, diagnostics: Diagnostics, loaded: LoadedCases) -> None:
        """Raises InvalidProjectError if something in the files of tests is wrong."""
        if diagnostics.has_errors:
            found = self._files.found()
            sources = {**found["sources"], **loaded.sources}
            raise InvalidProjectError(Parsed(**{**found, "diagnostics": tuple(diagnostics), "sources": sources}))

    def _run(self, checked: CheckedCase | None, engine: ExpressionEngine) -> CaseResult:
        assert checked is not None  # else it was reported, and refused
        case = checked.case
        project, name, started = self._project(case), case.topology.text, time.monotonic()
        on_spark = project.on_spark(name, engine)
        driven = project.driven(name, engine)
        try:
            driven.feed(checked.given)
            surface = Surface.of(project.graphs[name])
            every = [_difference(driven, surface, entry, each) for entry, each in checked.expected]
        except HeadwaterError as error:
            return _result(case, time.monotonic() - started, on_spark, error=error)
        finally:
            driven.close()
        return _result(case, time.monotonic() - started, on_spark, tuple(each for each in every if each.wrong))


def _is_named(case: Case, name: str) -> bool:
    file = case.position.file
    return name in (case.name.text, file) or file.endswith(f"/{name}") or fnmatchcase(case.name.text, name)


def _result(
    case: Case,
    seconds: float = 0.0,
    on_spark: bool = False,
    differences: tuple[Difference, ...] = (),
    error: HeadwaterError | None = None,
) -> CaseResult:
    at = case.position
    status: Status = "error" if error is not None else "failed" if differences else "passed"
    return CaseResult(
        case.name.text,
        case.topology.text,
        at.file,
        at.line,
        status,
        seconds,
        on_spark,
        differences,
        None if error is None else error.message,
        None if error is None else error.hint,
    )


def _difference(driven: DrivenTopology, surface: Surface, entry: MappingNode, expected: Expected) -> Difference:
    """What was found in the place of an entry of `expect`."""
    if isinstance(expected, ExpectedDrops):
        return _dropped(driven, entry, expected)
    columns, hint = expected.columns, None
    if expected.kind == "topic":
        records = driven.records(surface.written[expected.name])
        left = last_of_each_key(records) if expected.last else records
        found = [cells_of_record(columns, each) for each in left]
    else:
        found = [cells_of_row(columns, each) for each in rows_of_store(driven, surface, expected.name, None)]
    key = [columns.name_of("key", name) for name in columns.key]
    how = {"any_order": expected.any_order, "contains": expected.contains}
    rows = compared(expected.rows, found, key, deleted=columns.field_name("value"), **how)
    if expected.last:
        rows = tuple(each for each in rows if not _is_deletion(columns, each))
        groups = Counter(each.group for each in rows if each.number is not None)
        if any(each.kind == "missing" and groups[each.group] > 1 for each in rows):
            hint = "of each key only the last record is compared: with `emit: per_epoch` those before depend on epochs"
    return _shown(entry, expected.kind, expected.name, rows, columns, hint)


def _is_deletion(columns: Columns, row: Compared) -> bool:
    """Whether nobody expected a deletion that was found: the key is not there, as if it had never been."""
    return row.kind == "unexpected" and row.found is not None and columns.is_deleted(row.found)


def _dropped(driven: DrivenTopology, entry: MappingNode, expected: ExpectedDrops) -> Difference:
    found = {reason: driven.dropped.get(reason, 0) for reason in expected.counts}
    wrong = tuple(reason for reason, count in expected.counts.items() if found[reason] != count)
    row = Compared("differs" if wrong else "same", expected.counts, found, 0, wrong)
    return _shown(entry, "dropped", "dropped", (row,), Columns("dropped", {}, {}), None)


def _shown(
    entry: MappingNode,
    kind: EntryKind,
    name: str,
    rows: Sequence[Compared],
    columns: Columns,
    hint: str | None,
) -> Difference:
    at = entry.key_position(kind)
    written = entry.get("rows")
    lines = [item.position.line for item in written] if isinstance(written, Items) else [at.line]
    placed = tuple(ComparedRow(row, None if row.number is None else lines[row.number]) for row in rows)
    return Difference(kind, name, at.file, at.line, placed, columns, hint)
