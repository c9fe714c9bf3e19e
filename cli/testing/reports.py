"""The results of tests for other programs: JSON, annotations of GitHub, and JUnit's XML."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ...readable_text import json_text, visible
from .differences import heading, sentence, table

if TYPE_CHECKING:
    from ...api.testing.results import CaseResult, CaseResults


def as_json(results: CaseResults, base: str) -> str:
    """The form of `schemas/test_results.json`. `base`: the path from here to the project."""
    from ...api.testing.results import shown_json

    return json_text(shown_json(results.to_json(), base), indent=2) + "\n"


def as_github(results: CaseResults, base: str) -> str:
    """An annotation at each row of the files that does not hold, and at each case that could not be run."""
    from ...compiler.printing import annotation

    lines = []
    for case in results.failed:
        file = _file(base, case)
        if case.error is not None:
            said = case.error if case.hint is None else f"{case.error}\nhint: {case.hint}"
            lines.append(annotation("error", {"file": file, "line": case.line, "title": case.name}, said))
        for difference in case.differences:
            name = "dropped" if difference.kind == "dropped" else f"{difference.kind} {difference.name}"
            for row in difference.wrong:
                place = {"file": file, "line": row.line or difference.line, "title": case.name}
                lines.append(annotation("error", place, f"{name}: {sentence(difference, row)}"))
    return "".join(lines)


def as_junit(results: CaseResults, base: str) -> str:
    """A test suite for each file, as CI servers read it."""
    root = ElementTree.Element("testsuites", _counts(results.cases, results.seconds))
    for file in dict.fromkeys(case.file for case in results.cases):
        cases = [case for case in results.cases if case.file == file]
        seconds = sum(case.seconds for case in cases)
        suite = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(cases, seconds)})
        for case in cases:
            suite.append(_junit_case(case, base))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def details(case: CaseResult, width: int | None = None) -> str:
    """All that is wrong with a case, as plain text."""
    if case.error is not None:
        hint = f"hint: {visible(case.hint)}\n" if case.hint else ""
        return f"{visible(case.error, lines=True)}\n{hint}"
    lines = []
    for difference in case.differences:
        lines.append(f"{heading(difference)}  ({difference.file}:{difference.line})")
        lines += [line.plain for line in table(difference, width)]
        if difference.hint:
            lines.append(f"hint: {difference.hint}")
    return "\n".join(lines) + "\n"


def _junit_case(case: CaseResult, base: str) -> ElementTree.Element:
    place = {"file": _file(base, case), "line": str(case.line)}
    found = ElementTree.Element(
        "testcase", {"name": visible(case.name), "classname": case.topology, "time": f"{case.seconds:.3f}", **place}
    )
    if case.status != "passed":
        what = "error" if case.status == "error" else "failure"
        message = visible(case.error or "; ".join(map(heading, case.differences)))
        ElementTree.SubElement(found, what, {"message": message}).text = f"\n{details(case)}"
    return found


def _counts(cases: tuple[CaseResult, ...] | list[CaseResult], seconds: float) -> dict[str, str]:
    failures = sum(case.status == "failed" for case in cases)
    errors = sum(case.status == "error" for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": errors}
    return {**{name: str(count) for name, count in counts.items()}, "time": f"{seconds:.3f}"}


def _file(base: str, case: CaseResult) -> str:
    return case.file if base in ("", ".") else f"{base.rstrip('/')}/{case.file}"
