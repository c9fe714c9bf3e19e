"""`headwater compile`: YAML in, target/<topology>/job.py and runner.py out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...readable_text import counted
from ..options import ProjectOptions, format_option, project_options
from ..printing.findings import print_diagnostics
from ..printing.terminal import print_line

if TYPE_CHECKING:
    from ...compiler.language.type_checker import LeftToSpark
    from ...compiler.topology.engines import StepEngine


@click.command()
@project_options
@format_option("text", "json", "github", default="text")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="List the expressions left to Spark, with the reasons.",
)
def command(options: ProjectOptions, style: str, verbose: bool) -> None:
    """Check everything, write PySpark to target/.

    Spark is started only for new expressions whose types only it knows.
    """
    if verbose and style != "text":
        raise click.UsageError("-v adds lines to the text: omit --format")
    with options.project() as project:
        compiled = project.compile(check=False)
        engines = project.step_engines() if compiled.ok and verbose else ()
        plan = project.outlook(local=True) if compiled.ok and style == "text" else None
    print_diagnostics(compiled.diagnostics, compiled.sources, compiled.root, style)
    if style == "text" and compiled.ok:
        for emitted in compiled.emitted:
            state = "written" if emitted.changed else "unchanged"
            print_line(f"  {os.path.relpath(emitted.job.parent)}: {state}")
        count = counted(len(compiled.emitted), "topology", "topologies")
        print_line(f"compiled {count}, target {compiled.target_name}")
        if plan is not None:
            from ..printing.plan_texts import in_a_line

            click.echo(in_a_line(plan))
        if verbose:
            _show_engines(engines)
            _show_left_to_spark(compiled.left_to_spark)
    raise SystemExit(0 if compiled.ok else 1)


def _show_engines(engines: Sequence[StepEngine]) -> None:
    """Print which steps tasks can compute, and why the others stay with Spark SQL."""
    kept = [step for step in engines if step.kept]
    steps = counted(len(engines), "step")
    print_line(f"tasks can compute {len(engines) - len(kept)} of {steps} with expressions")
    for step in kept:
        print_line(f"  {step.at}: {step.kind} stays with Spark SQL: {step.kept}")


def _show_left_to_spark(left: Sequence[LeftToSpark]) -> None:
    """Print which expressions need Spark for their types, and why."""
    if not left:
        print_line("all types are known without Spark: it was not started")
        return
    new = [expression for expression in left if not expression.kept]
    when = f"it was started for {len(new)}" if new else "their types are known from earlier runs"
    print_line(f"only Spark knows the types of {counted(len(left), 'expression')}; {when}")
    for expression in left:
        print_line(f"  {expression.position.file}:{expression.position.line}: {expression.sql}: {expression.reason}")
