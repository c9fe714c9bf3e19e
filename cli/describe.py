"""`headwater describe`: subtopologies, processor nodes and stores."""

from __future__ import annotations

import click

from .options import ProjectOptions, format_option, project_options


@click.command()
@project_options
@format_option("text", "mermaid", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Show each topology as Kafka Streams describes one: its subtopologies, their nodes, what goes where."""
    click.echo(options.project().describe(style), nl=False)
