"""`headwater resume`: has paused topologies go on."""

from __future__ import annotations

import click

from ..options import ProjectOptions, project_options


@click.command()
@project_options
def command(options: ProjectOptions) -> None:
    """Have topologies go on that `headwater pause` has stopped: all of them, or the selected ones."""
    for each in options.project().resume():
        click.echo(f"{each.application} goes on" if each.changed else f"{each.application} is not paused")
