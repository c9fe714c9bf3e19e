"""A project's tests, and their results."""

from __future__ import annotations

import codecs
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..compiler.diagnostics import Diagnostics, did_you_mean
from ..compiler.outcomes import InvalidProjectError, Parsed, UnknownNameError
from ..compiler.reading.source import MappingNode
from ..compiler.reading.source import SequenceNode as Items
from ..compiler.testing.cases import Case, LoadedCases, load_cases
from ..compiler.testing.checked import CheckedCase, TestedTopology, check_case
from ..compiler.testing.updating import Found, updated
from ..compiler.topology.engines import StepEngine
from ..errors import HeadwaterError
from ..runtime.ir.topology import ExpressionEngine
from ..runtime.testing.comparing import Compared, cells_of_record, cells_of_row, compared, last_of_each_key
from ..runtime.testing.driven import DrivenTopology, Expected, ExpectedDrops
from ..runtime.testing.rows import Columns
from .arguments import ArgumentError, check_names
from .target import Part
from .topology_test_driver import DrivenProject, rows_of_store, with_vars

if TYPE_CHECKING:
    pass


# Results of a project's tests: data to print, and to write to a file.

Status = Literal["passed", "failed", "error"]
EntryKind = Literal["topic", "store", "dropped"]


@dataclass(frozen=True)
class ComparedRow:
    """An expected row of a case, an actual row, or both.

    `line`: in the file; None for a row that is only in the result.
    """

    row: Compared
    line: int | None

    def to_json(self) -> dict[str, Any]:
        """The form of `schemas/test_results.json`."""
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

    `rows`: all compared rows, with the cells of `columns`. `hint`: what may have been meant.
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
        """The rows that differ, are missing, or are unexpected."""
        return tuple(compared_ for compared_ in self.rows if compared_.row.kind != "same")

    def to_json(self) -> dict[str, Any]:
        """The form of `schemas/test_results.json`."""
        rows = [row.to_json() for row in self.rows]
        return {"kind": self.kind, "name": self.name, "line": self.line, "hint": self.hint, "rows": rows}


@dataclass(frozen=True)
class CaseResult:
    """One case. `error`: why it could not be completed; `hint`: a way out. `on_spark`: whether it ran on Spark."""

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
        """The form of `schemas/test_results.json`."""
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
            "differences": [difference.to_json() for difference in self.differences],
        }


@dataclass(frozen=True)
class CaseResults:
    """All cases that were run, in the order of their files.

    `spark`: the steps that needed Spark. `updated`: the files that `update` has written.
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
        return tuple(case for case in self.cases if case.status != "passed")

    def check(self) -> None:
        """Raise TestsFailedError if a case did not pass."""
        if self.failed:
            raise TestsFailedError(self)

    def to_json(self) -> dict[str, Any]:
        """The form of `schemas/test_results.json`."""
        return {
            "tests": [case.to_json() for case in self.cases],
            "passed": len(self.cases) - len(self.failed),
            "failed": len(self.failed),
            "updated": list(self.updated),
            "seconds": round(self.seconds, 3),
            "spark": [{"at": step.at, "because": step.kept} for step in self.spark],
        }


class TestsFailedError(HeadwaterError):
    """Tests of the project have failed. `results`: of all cases."""

    __test__ = False  # pytest would collect the class

    def __init__(self, results: CaseResults) -> None:
        names = ", ".join(f"'{case.name}' ({case.file}:{case.line})" for case in results.failed)
        count = len(results.failed)
        super().__init__(
            f"{count} {'test has' if count == 1 else 'tests have'} failed: {names}",
            "`headwater test` shows expected and actual rows",
        )
        self.results = results


def shown_json(results: Mapping[str, Any], base: str) -> dict[str, Any]:
    """The results' JSON with paths from the reader's directory. `base`: the path from there to the project."""
    if base in ("", "."):
        return dict(results)
    return {**results, "tests": [{**case, "file": f"{base}/{case['file']}"} for case in results["tests"]]}


# Runs the cases in the folder `tests/`.

UNUSED_VARIABLE = "HW035"


class Testing(Part):
    """Runs a project's tests."""

    @cached_property
    def _projects(self) -> dict[str, DrivenProject]:
        return {}

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
        self._raise_errors(diagnostics, loaded)
        chosen = list(self._chosen(loaded.cases, names))
        if not chosen:
            return CaseResults(())
        checked = [self._checked(case, diagnostics) for case in chosen]
        self._raise_errors(diagnostics, loaded)
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
        """Write actual rows into the files of failed cases. Returns these files."""
        by_file: dict[str, list[Found]] = {}
        for difference in (difference for result in results for difference in result.differences):
            rows = [compared.row for compared in difference.rows]
            by_file.setdefault(difference.file, []).append(
                Found(difference.kind, difference.line, rows, difference.columns)
            )
        for file, differences in by_file.items():
            path = self._files.root / file
            content = path.read_bytes()
            bom = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
            text = updated(content.removeprefix(bom).decode("utf-8"), differences)
            path.write_bytes(bom + text.encode("utf-8"))
        return tuple(by_file)

    def _chosen(self, cases: Sequence[Case], names: Sequence[str]) -> Iterator[Case]:
        """The named cases (by name, pattern or file) of the selected topologies. Raises UnknownNameError."""
        selected = self._selection.topologies() if self._selection.narrows else None
        for name in names:
            if not any(_is_named(case, name) for case in cases):
                names_ = [name_ for case in cases for name_ in (case.name.text, case.position.file)]
                hint = did_you_mean(name, names_) or "`headwater test` without names runs all of them"
                raise UnknownNameError("test", name, hint)
        for case in cases:
            if (selected is None or case.topology.text in selected) and (
                not names or any(_is_named(case, name) for name in names)
            ):
                yield case

    def _checked(self, case: Case, diagnostics: Diagnostics) -> CheckedCase | CaseResult | None:
        """The case, ready to run; its result if its variables do not fit the project; None if an error is reported."""
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
        diagnostics_ = project.files.typed.diagnostics
        unused = [
            diagnostic.message
            for diagnostic in diagnostics_
            if diagnostic.code == UNUSED_VARIABLE and not diagnostic.position.in_file
        ]
        for name in node:
            for message in unused:
                if f"'{name}'" in message:
                    diagnostics.add("HW806", node.key_position(name), message, "Remove it, or use it.")

    def _project(self, case: Case) -> DrivenProject:
        """The project with the case's variables. Cases with equal variables share it."""
        key = repr(sorted(case.vars.items()))
        if key not in self._projects:
            self._projects[key] = with_vars(self._files, self._spark, case.vars)
        return self._projects[key]

    def _raise_errors(self, diagnostics: Diagnostics, loaded: LoadedCases) -> None:
        """Raise InvalidProjectError if test files have errors."""
        if diagnostics.has_errors:
            fields = self._files.parsed_fields()
            sources = {**fields["sources"], **loaded.sources}
            raise InvalidProjectError(Parsed(**{**fields, "diagnostics": tuple(diagnostics), "sources": sources}))

    def _run(self, checked: CheckedCase | None, engine: ExpressionEngine) -> CaseResult:
        assert checked is not None  # otherwise an error was reported and raised
        case = checked.case
        project, name, started = self._project(case), case.topology.text, time.monotonic()
        on_spark = project.on_spark(name, engine)
        driven = project.driven(name, engine)
        try:
            driven.feed(checked.given)
            surface = TestedTopology.from_graph(project.graphs[name])
            differences = [_difference(driven, surface, entry, expected) for entry, expected in checked.expected]
        except HeadwaterError as error:
            return _result(case, time.monotonic() - started, on_spark, error=error)
        finally:
            driven.close()
        return _result(
            case,
            time.monotonic() - started,
            on_spark,
            tuple(difference for difference in differences if difference.wrong),
        )


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


def _difference(driven: DrivenTopology, surface: TestedTopology, entry: MappingNode, expected: Expected) -> Difference:
    """The difference between an entry of `expect` and the result; without wrong rows if the entry holds."""
    if isinstance(expected, ExpectedDrops):
        return _dropped(driven, entry, expected)
    columns, hint = expected.columns, None
    if expected.kind == "topic":
        records = driven.records(surface.written[expected.name])
        kept = last_of_each_key(records) if expected.last else records
        found = [cells_of_record(columns, record) for record in kept]
    else:
        found = [cells_of_row(columns, row) for row in rows_of_store(driven, surface, expected.name, None)]
    key = [columns.name_of("key", name) for name in columns.key]
    options = {"any_order": expected.any_order, "contains": expected.contains}
    rows = compared(expected.rows, found, key, deleted=columns.field_name("value"), **options)
    if expected.last:
        rows = tuple(row for row in rows if not _is_deletion(columns, row))
        groups = Counter(row.group for row in rows if row.number is not None)
        if any(row.kind == "missing" and groups[row.group] > 1 for row in rows):
            hint = "of each key only the last record is compared: with `emit: per_epoch` earlier ones depend on epochs"
    return _shown(entry, expected.kind, expected.name, rows, columns, hint)


def _is_deletion(columns: Columns, row: Compared) -> bool:
    """Whether a row is an unexpected deletion. It counts as no row: the key is absent, as if it had never been."""
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
    compared_rows = tuple(ComparedRow(row, None if row.number is None else lines[row.number]) for row in rows)
    return Difference(kind, name, at.file, at.line, compared_rows, columns, hint)
