"""`headwater describe`: subtopologies, processor nodes and stores."""

from __future__ import annotations

import click

from ...readable_text import visible
from ..options import ProjectOptions, format_option, project_options
from ..printing.findings import warn


@click.command()
@project_options
@format_option("text", "mermaid", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Show subtopologies and their nodes.

    The text is the one of Kafka Streams' Topology.describe().
    """
    project = options.project()
    click.echo(visible(project.describe(style), lines=True), nl=False)
    warn(project)
