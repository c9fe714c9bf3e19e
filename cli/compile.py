"""`headwater compile`: YAML in, target/<topology>/job.py and runner.py out."""

from __future__ import annotations

import os

import click

from .findings import show
from .options import ProjectOptions, format_option, project_options


@click.command()
@project_options
@format_option("text", "json", "github", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Check everything, write PySpark to target/.

    Spark is started only for expressions that it has not judged before.
    """
    with options.project() as project:
        compiled = project.compile(check=False)
        plan = project.outlook(local=True) if compiled.ok and style == "text" else None
    show(compiled.diagnostics, compiled.sources, compiled.root, style)
    if style == "text" and compiled.ok:
        from .plan.texts import in_a_line

        for emitted in compiled.emitted:
            state = "written" if emitted.changed else "unchanged"
            click.echo(f"  {os.path.relpath(emitted.job.parent)}: {state}")
        count = len(compiled.emitted)
        click.echo(f"compiled {count} topolog{'y' if count == 1 else 'ies'}, target {compiled.target_name}")
        if plan is not None:
            click.echo(in_a_line(plan))
    raise SystemExit(0 if compiled.ok else 1)
