"""`headwater test`: runs the tests of a project, without a log, and mostly without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ...runtime.ir.topology import ExpressionEngine
from ..options import ProjectOptions, format_option, project_options
from ..printing.findings import show, warn_of_unread
from ..printing.terminal import tell

if TYPE_CHECKING:
    from ...api.project_tests import CaseResult, CaseResults


@click.command()
@project_options
@click.argument("cases", nargs=-1)
@click.option(
    "--engine",
    type=click.Choice(["task", "spark"]),
    default="task",
    show_default=True,
    help="task: in this process, with Spark only for expressions that need it. spark: all of it on Spark.",
)
@click.option("--update", is_flag=True, help="Write what was found into the files, in the place of rows that differ.")
@format_option("table", "json", "github", "junit", default="table")
def command(
    options: ProjectOptions, cases: tuple[str, ...], engine: ExpressionEngine, update: bool, style: str
) -> None:
    """Run the tests of the project.

    CASES: names of tests (* stands for other characters), or files of tests/; all of them, if none is named. Each runs
    on a log of its own, which is gone afterwards.
    """
    from ...compiler.outcomes import InvalidProjectError

    with options.project() as project:
        base = os.path.relpath(project.root)
        try:
            results = project.test(cases, engine=engine, update=update, progress=_progress(style, base))
        except InvalidProjectError as error:  # told in the form that was asked for, as `parse` does
            found = error.found
            show(found.diagnostics, found.sources, found.root, style if style in ("json", "github") else "text")
            raise SystemExit(1) from error
        warn_of_unread(project)
        _show(results, style, base)
        for file in results.updated:
            tell(f"{os.path.normpath(os.path.join(base, file))} has been updated", err=True)
        failed = [each for each in results.failed if not update or each.status == "error"]
    raise SystemExit(1 if failed else 0)


def _progress(style: str, base: str) -> Callable[[CaseResult], None]:
    from ..printing.tests import tell_case

    def told(case: CaseResult) -> None:
        if style == "table":
            tell_case(case, base)

    return told


def _show(results: CaseResults, style: str, base: str) -> None:
    from ..printing.tests import tell_results

    if not results.cases:
        tell("no tests: `headwater test` runs the cases in the .yml files of tests/", err=True)
    if style == "table":
        if results.cases:
            tell_results(results)
        return
    from ..printing import tests as reports

    form = {"json": reports.as_json, "github": reports.as_github, "junit": reports.as_junit}[style]
    click.echo(form(results, base), nl=False)
