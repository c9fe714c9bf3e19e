"""Prints the results of `headwater test`, and writes reports for CI."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import click
from rich.cells import cell_len
from rich.text import Text

from ...readable_text import json_text, visible
from .tables import time_text
from .terminal import console, is_terminal, print_line, print_styled

if TYPE_CHECKING:
    from ...api.project import Project
    from ...api.project_tests import CaseResult, CaseResults, ComparedRow, Difference
    from ...runtime.testing.rows import Columns


# Expected and actual rows of a case, as lines that are also readable without colour.
#
#     -  Endeavor Air  2013-01-01T15:00:00Z  1        42.0
#     +  Endeavor Air  2013-01-01T15:00:00Z  2        62.0
#                                            ^        ^~~~
#
# `-` is a row of the file, `+` a row of the result; rows without a sign are the same in both.

_GAP = "  "
_MOST_ROWS = 30
"""The most rows of a table: more would hide the important one. Rows that differ come first."""

_ABSENT = object()


def heading(difference: Difference) -> str:
    """`topic hourly_delays: 1 row differs, 1 is missing`."""
    if difference.kind == "dropped":
        return "dropped: other counts"
    counts = {kind: sum(compared.row.kind == kind for compared in difference.rows) for kind in _VERBS}
    parts = [f"{count} row{'s' * (count != 1)} {_VERBS[kind][count != 1]}" for kind, count in counts.items() if count]
    return f"{difference.kind} {difference.name}: {', '.join(parts)}"


_VERBS = {"differs": ("differs", "differ"), "missing": ("missing",) * 2, "unexpected": ("not expected",) * 2}
"""The text after the count: for one row, and for several."""


def table(difference: Difference, width: int | None) -> list[Text]:
    """The rows of a difference. `width`: of the terminal; a wider table becomes a list. None: no limit."""
    names = columns(difference)
    shown = _chosen(difference.rows)
    cells = difference.columns
    lines = list(_lines(names, shown, cells))
    if width is not None and any(cell_len(line.plain) > width for line in lines):
        lines = list(_listed(names, shown, cells))
    hidden = len(difference.rows) - len(shown)
    return [*lines, *([Text(f"   and {hidden} more")] if hidden else [])]


def columns(difference: Difference) -> list[str]:
    """The columns that are shown: those that the file names; if it has no rows, those of the result."""
    expected = [compared.row.expected for compared in difference.rows if compared.row.expected is not None]
    found = [compared.row.found for compared in difference.rows if compared.row.found is not None]
    named = dict.fromkeys(name for row in expected for name in row)
    if not named:
        named = dict.fromkeys(name for row in found for name in row if name in difference.columns.names())
    is_deleted = difference.columns.is_deleted
    deleted = any(compared.row.kind != "same" and is_deleted(compared.row.found or {}) for compared in difference.rows)
    null = difference.columns.field_name("value")
    return [*named, *([null] if deleted and null not in named else [])]


def sentence(difference: Difference, compared: ComparedRow) -> str:
    """One wrong row in words, for reports without a table: `flights is 2, not 1`."""
    expected, found, cells = compared.row.expected, compared.row.found, difference.columns
    if expected is None:
        return f"the row is not expected: {_in_words(columns(difference), found, cells)}"
    if found is None:
        return f"a row is missing: {_in_words(list(expected), expected, cells)}"
    parts = [_differs(name, expected, found, cells) for name in compared.row.differing]
    same = {name: value for name, value in expected.items() if name not in compared.row.differing}
    return f"{', '.join(parts)}{f' in the row {_in_words(list(same), same, cells)}' if same else ''}"


def _differs(name: str, expected: Mapping[str, Any], found: Mapping[str, Any], columns: Columns) -> str:
    if name == columns.field_name("value") and name not in expected:
        return "it is deleted"
    return f"{name} is {_cell(name, found, columns)}, not {_cell(name, expected, columns)}"


def _in_words(names: Sequence[str], row: Mapping[str, Any] | None, columns: Columns) -> str:
    return ", ".join(f"{name}: {_cell(name, row or {}, columns)}" for name in names if name in (row or {}))


def _chosen(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """The rows to show, in their order: wrong rows are chosen before the others."""
    ranked = sorted(range(len(rows)), key=lambda number: (rows[number].row.kind == "same", number))[:_MOST_ROWS]
    return [rows[number] for number in sorted(ranked)]


def _lines(names: Sequence[str], rows: Sequence[ComparedRow], columns: Columns) -> Iterator[Text]:
    texts = [[_cell(name, side, columns) for name in names] for compared in rows for side in _sides(compared)]
    widths = [max(map(cell_len, column)) for column in zip(names, *texts, strict=True)]
    yield _line(" ", names, widths, "bold")
    for compared in rows:
        differing = [number for number, name in enumerate(names) if name in compared.row.differing]
        expected, found = compared.row.expected, compared.row.found
        if compared.row.kind == "same":
            yield _line(" ", [_cell(name, found, columns) for name in names], widths, "dim")
            continue
        if expected is not None:
            yield _line("-", [_cell(name, expected, columns) for name in names], widths, "red", differing)
        if found is not None:
            cells = [_cell(name, found, columns) for name in names]
            yield _line("+", cells, widths, "green", differing)
            if differing:
                marks = [_mark(text) if number in differing else "" for number, text in enumerate(cells)]
                yield _line(" ", marks, widths, "bold yellow")


def _sides(compared: ComparedRow) -> list[Mapping[str, Any] | None]:
    return [side for side in (compared.row.expected, compared.row.found) if side is not None]


def _mark(text: str) -> str:
    return "^" + "~" * (cell_len(text) - 1)


def _line(sign: str, cells: Sequence[str], widths: Sequence[int], style: str, differing: Sequence[int] = ()) -> Text:
    line = Text(f"{sign}  ", style)
    for number, (text, width) in enumerate(zip(cells, widths, strict=True)):
        line.append(text, f"bold {style} underline" if number in differing else style)
        line.append(" " * (width - cell_len(text)) + _GAP)
    line.rstrip()
    return line


def _listed(names: Sequence[str], rows: Sequence[ComparedRow], columns: Columns) -> Iterator[Text]:
    """Each wrong row as a list of names and values, for a terminal too narrow for a table."""
    for compared in rows:
        if compared.row.kind == "same":
            continue
        expected, found = compared.row.expected, compared.row.found
        for number, name in enumerate(names):
            sign = "*" if not number else " "
            if expected is not None and found is not None and name in compared.row.differing:
                yield Text.assemble(f"{sign}  {name}: ", ("- ", "red"), (_cell(name, expected, columns), "red"))
                yield Text.assemble(
                    f"   {' ' * cell_len(name)}  ", ("+ ", "green"), (_cell(name, found, columns), "green")
                )
            else:
                side, mark = (expected, "-") if found is None else (found, "+" if expected is None else " ")
                yield Text(f"{sign}  {name}: {mark} {_cell(name, side, columns)}")


def _cell(name: str, row: Mapping[str, Any] | None, columns: Columns) -> str:
    """The text of a cell; empty if the row has no such column."""
    value = (row or {}).get(name, _ABSENT)
    if value is _ABSENT:
        return ""
    if isinstance(value, int) and columns.is_time(name):
        return time_text(value)
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


# The results of tests for programs: JSON, annotations of GitHub, and JUnit XML.


def as_json(results: CaseResults, base: str) -> str:
    """The form of `schemas/test_results.json`. `base`: the path from here to the project."""
    from ...api.project_tests import shown_json

    return json_text(shown_json(results.to_json(), base), indent=2) + "\n"


def as_github(results: CaseResults, base: str) -> str:
    """An annotation at each wrong row of the files, and at each case that could not be run."""
    from ...compiler.diagnostics import annotation

    lines = []
    for case in results.failed:
        file = _file(base, case)
        if case.error is not None:
            text = case.error if case.hint is None else f"{case.error}\nhint: {case.hint}"
            lines.append(annotation("error", {"file": file, "line": case.line, "title": case.name}, text))
        for difference in case.differences:
            name = "dropped" if difference.kind == "dropped" else f"{difference.kind} {difference.name}"
            for row in difference.wrong:
                location = {"file": file, "line": row.line or difference.line, "title": case.name}
                lines.append(annotation("error", location, f"{name}: {sentence(difference, row)}"))
    return "".join(lines)


def as_junit(results: CaseResults, base: str) -> str:
    """A test suite for each file, in the XML that CI servers read."""
    root = ElementTree.Element("testsuites", _counts(results.cases, results.seconds))
    for file in dict.fromkeys(case.file for case in results.cases):
        cases = [case for case in results.cases if case.file == file]
        seconds = sum(case.seconds for case in cases)
        suite = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(cases, seconds)})
        for case in cases:
            suite.append(_junit_case(case, base))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def details(case: CaseResult) -> str:
    """Everything that is wrong with a case, as plain text."""
    if case.error is not None:
        hint = f"hint: {visible(case.hint)}\n" if case.hint else ""
        return f"{visible(case.error, lines=True)}\n{hint}"
    lines = []
    for difference in case.differences:
        lines.append(f"{heading(difference)}  ({difference.file}:{difference.line})")
        lines += [line.plain for line in table(difference, None)]
        if difference.hint:
            lines.append(f"hint: {difference.hint}")
    return "\n".join(lines) + "\n"


def _junit_case(case: CaseResult, base: str) -> ElementTree.Element:
    location = {"file": _file(base, case), "line": str(case.line)}
    element = ElementTree.Element(
        "testcase", {"name": visible(case.name), "classname": case.topology, "time": f"{case.seconds:.3f}", **location}
    )
    if case.status != "passed":
        what = "error" if case.status == "error" else "failure"
        message = visible(case.error or "; ".join(map(heading, case.differences)))
        ElementTree.SubElement(element, what, {"message": message}).text = f"\n{details(case)}"
    return element


def _counts(cases: tuple[CaseResult, ...] | list[CaseResult], seconds: float) -> dict[str, str]:
    failures = sum(case.status == "failed" for case in cases)
    errors = sum(case.status == "error" for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": errors}
    return {**{name: str(count) for name, count in counts.items()}, "time": f"{seconds:.3f}"}


def _file(base: str, case: CaseResult) -> str:
    return case.file if base in ("", ".") else f"{base.rstrip('/')}/{case.file}"


# Test results for people: a line for each case, the differences of failed cases, and the counts.

_SIGNS = {"passed": ("passed", "green"), "failed": ("failed", "bold red"), "error": ("error ", "bold red")}
_INDENT = "  "


def print_case(case: CaseResult, base: str) -> None:
    """Print a line for a case, and its differences below it."""
    location = os.path.normpath(os.path.join(base, f"{case.file}:{case.line}"))
    print_styled(_SIGNS[case.status], f"  {case.name}  ", (location, "dim"))
    if case.error is not None:
        for line in visible(case.error, lines=True).splitlines():
            print_line(f"{_INDENT}{line}")
        if case.hint is not None:
            print_styled(_INDENT, ("hint: ", "bold"), case.hint)
    for difference in case.differences:
        screen = console()
        at = os.path.normpath(os.path.join(base, f"{difference.file}:{difference.line}"))
        print_styled(f"{_INDENT}{heading(difference)}  ", (at, "dim"))
        for row in table(difference, screen.width - 2 * len(_INDENT) if is_terminal() else None):
            screen.print(Text(2 * _INDENT) + row, soft_wrap=True)
        if difference.hint:
            print_styled(_INDENT, ("hint: ", "bold"), difference.hint)


def print_passed(results: CaseResults) -> None:
    """Print how many cases have passed, for a command that does more than testing."""
    if results.cases:
        print_line(f"{len(results.cases)} {'test' if len(results.cases) == 1 else 'tests'} passed")


def print_results(results: CaseResults) -> None:
    """Print why Spark was started, and how many cases have passed."""
    if results.spark:
        click.echo("Spark was started for what only it computes:")
        for step in results.spark:
            print_line(f"{_INDENT}{step.at}: {step.kept}")
    failed = len(results.failed)
    passed = len(results.cases) - failed
    text = f"{failed} failed, {passed} passed" if failed else f"{passed} passed"
    print_styled((text, "bold red" if failed else "bold green"), f" in {results.seconds:.1f} s")


# Tests as the first part of another command.


def run_tests(project: Project) -> None:
    """Run the tests and print those that fail. Raises TestsFailedError."""

    def print_failed(case: CaseResult) -> None:
        if case.status != "passed":
            print_case(case, os.path.relpath(project.root))

    results = project.test(progress=print_failed)
    results.check()
    print_passed(results)
