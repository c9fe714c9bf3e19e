"""Tells people how tests went: a line for each case, what is wrong with those that fail, and how many there were."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from rich.text import Text

from ...readable_text import visible
from ..printing.terminal import console, is_terminal, say, tell
from .differences import heading, table

if TYPE_CHECKING:
    from ...api.testing.results import CaseResult, CaseResults

_SIGNS = {"passed": ("passed", "green"), "failed": ("failed", "bold red"), "error": ("error ", "bold red")}
_INDENT = "  "


def tell_case(case: CaseResult, base: str) -> None:
    """A line for a case, and below it what is wrong."""
    place = os.path.normpath(os.path.join(base, f"{case.file}:{case.line}"))
    say(_SIGNS[case.status], f"  {case.name}  ", (place, "dim"))
    if case.error is not None:
        for line in visible(case.error, lines=True).splitlines():
            tell(f"{_INDENT}{line}")
        if case.hint is not None:
            say(_INDENT, ("hint: ", "bold"), case.hint)
    for difference in case.differences:
        screen = console()
        at = os.path.normpath(os.path.join(base, f"{difference.file}:{difference.line}"))
        say(f"{_INDENT}{heading(difference)}  ", (at, "dim"))
        for row in table(difference, screen.width - 2 * len(_INDENT) if is_terminal() else None):
            screen.print(Text(2 * _INDENT) + row, soft_wrap=True)
        if difference.hint:
            say(_INDENT, ("hint: ", "bold"), difference.hint)


def tell_passed(results: CaseResults) -> None:
    """A line of how many have passed, for a command that does more than testing."""
    if results.cases:
        tell(f"{len(results.cases)} {'test' if len(results.cases) == 1 else 'tests'} passed")


def tell_results(results: CaseResults) -> None:
    """Why Spark was started, and how many have passed."""
    if results.spark:
        click.echo("Spark was started for what only it computes:")
        for each in results.spark:
            tell(f"{_INDENT}{each.at}: {each.kept}")
    failed = len(results.failed)
    passed = len(results.cases) - failed
    said = f"{failed} failed, {passed} passed" if failed else f"{passed} passed"
    say((said, "bold red" if failed else "bold green"), f" in {results.seconds:.1f} s")
