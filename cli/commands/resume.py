"""`headwater resume`: has paused topologies go on."""

from __future__ import annotations

import click

from ..options import ProjectOptions, project_options
from ..printing.findings import warn_of_call
from ..printing.terminal import tell


@click.command()
@project_options
def command(options: ProjectOptions) -> None:
    """Have topologies go on that `headwater pause` has stopped: all of them, or the selected ones."""
    project = options.project()
    warn_of_call(project)
    for each in project.resume():
        tell(f"{each.application} goes on" if each.changed else f"{each.application} is not paused")
