"""`headwater test`: runs the tests of a project, without a log, and mostly without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ...runtime.ir.topology import ExpressionEngine
from ..options import ProjectOptions, format_option, project_options
from ..printing.findings import print_diagnostics, warn_of_unread
from ..printing.terminal import print_line

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
    help="task: in this process, with Spark only for expressions that need it. spark: everything on Spark.",
)
@click.option("--update", is_flag=True, help="Replace rows that differ in the files with the results.")
@format_option("table", "json", "github", "junit", default="table")
def command(
    options: ProjectOptions, cases: tuple[str, ...], engine: ExpressionEngine, update: bool, style: str
) -> None:
    """Run the tests of the project.

    CASES: names of tests (* matches any characters), or files of tests/; default: all. A test runs on a log of its own,
    which is removed afterwards.
    """
    from ...compiler.outcomes import InvalidProjectError

    with options.project() as project:
        base = os.path.relpath(project.root)
        try:
            results = project.test(cases, engine=engine, update=update, progress=_progress(style, base))
        except InvalidProjectError as error:  # printed in the requested format, as `parse` does
            project_ = error.found
            print_diagnostics(
                project_.diagnostics, project_.sources, project_.root, style if style in ("json", "github") else "text"
            )
            raise SystemExit(1) from error
        warn_of_unread(project, in_files=True)
        _show(results, style, base)
        for file in results.updated:
            print_line(f"{os.path.normpath(os.path.join(base, file))} has been updated", err=True)
        failed = [case for case in results.failed if not update or case.status == "error"]
    raise SystemExit(1 if failed else 0)


def _progress(style: str, base: str) -> Callable[[CaseResult], None]:
    from ..printing.tests import print_case

    def print_one(case: CaseResult) -> None:
        if style == "table":
            print_case(case, base)

    return print_one


def _show(results: CaseResults, style: str, base: str) -> None:
    from ..printing.tests import print_results

    if not results.cases:
        print_line("no tests: `headwater test` runs the cases in the .yml files of tests/", err=True)
    if style == "table":
        if results.cases:
            print_results(results)
        return
    from ..printing import tests as reports

    form = {"json": reports.as_json, "github": reports.as_github, "junit": reports.as_junit}[style]
    click.echo(form(results, base), nl=False)
