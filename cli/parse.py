"""`headwater parse`: is everything that can be known without Spark right?"""

from __future__ import annotations

import click

from .findings import show
from .options import ProjectOptions, format_option, project_options


@click.command()
@project_options
@format_option("text", "json", "github", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Check the project's files; needs no Java and takes a moment.

    Types of expressions are checked by `compile`.
    """
    parsed = options.project().parse()
    show(parsed.diagnostics, parsed.sources, parsed.root, style)
    if style == "text" and parsed.ok:
        click.echo(parsed.summary)
    raise SystemExit(0 if parsed.ok else 1)
