"""`headwater resume`: resumes paused topologies."""

from __future__ import annotations

import click

from ..options import ProjectOptions, project_options
from ..printing.terminal import print_line


@click.command()
@project_options
def command(options: ProjectOptions) -> None:
    """Resume topologies that `headwater pause` has paused: all of them, or the selected ones."""
    project = options.warned_project()
    for pause in project.resume():
        print_line(f"{pause.application} is resumed" if pause.changed else f"{pause.application} is not paused")
