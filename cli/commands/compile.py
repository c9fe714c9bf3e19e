"""`headwater compile`: YAML in, target/<topology>/job.py and runner.py out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..options import ProjectOptions, format_option, project_options
from ..printing.findings import show
from ..printing.terminal import tell

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
    help="Say which expressions are left to Spark, and why.",
)
def command(options: ProjectOptions, style: str, verbose: bool) -> None:
    """Check everything, write PySpark to target/.

    Spark is started only for expressions whose types only it knows, and that it has not judged before.
    """
    if verbose and style != "text":
        raise click.UsageError("-v adds lines to the text; leave out --format")
    with options.project() as project:
        compiled = project.compile(check=False)
        engines = project.step_engines() if compiled.ok and verbose else ()
        plan = project.outlook(local=True) if compiled.ok and style == "text" else None
    show(compiled.diagnostics, compiled.sources, compiled.root, style)
    if style == "text" and compiled.ok:
        for emitted in compiled.emitted:
            state = "written" if emitted.changed else "unchanged"
            tell(f"  {os.path.relpath(emitted.job.parent)}: {state}")
        count = len(compiled.emitted)
        tell(f"compiled {count} topolog{'y' if count == 1 else 'ies'}, target {compiled.target_name}")
        if plan is not None:
            from ..printing.plan_texts import in_a_line

            click.echo(in_a_line(plan))
        if verbose:
            _show_engines(engines)
            _show_left_to_spark(compiled.left_to_spark)
    raise SystemExit(0 if compiled.ok else 1)


def _show_engines(engines: Sequence[StepEngine]) -> None:
    """Which steps tasks can compute, and what keeps the others with Spark SQL."""
    kept = [each for each in engines if each.kept]
    count = f"{len(engines)} step{'' if len(engines) == 1 else 's'} with expressions"
    tell(f"tasks can compute {len(engines) - len(kept)} of {count}")
    for each in kept:
        tell(f"  {each.at}: {each.kind} stays with Spark SQL: {each.kept}")


def _show_left_to_spark(left: Sequence[LeftToSpark]) -> None:
    """Which expressions Spark was started for, or had been at an earlier time, and why."""
    if not left:
        tell("all types are known without Spark: it was not started")
        return
    asked = [each for each in left if not each.kept]
    count = f"{len(left)} expression{'' if len(left) == 1 else 's'}"
    when = f"it was started for {len(asked)}" if asked else "its answers were kept from before"
    tell(f"only Spark knows the types of {count}; {when}")
    for each in left:
        tell(f"  {each.position.file}:{each.position.line}: {each.sql}: {each.reason}")
