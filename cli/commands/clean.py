"""`headwater clean`: removes files that a later command creates again: generated code, or stores."""

from __future__ import annotations

import click

from ...readable_text import visible
from ..options import ProjectOptions, project_options
from ..printing.terminal import print_line


@click.command()
@project_options
@click.option("--state", is_flag=True, help="Also the stores; the next run restores them from the changelogs.")
@click.option("--yes", is_flag=True, help="Do not ask before state is removed.")
def command(options: ProjectOptions, state: bool, yes: bool) -> None:
    """Remove generated files, or state.

    Of all topologies, or of the selected ones. State is removed only if Headwater has created it for this project.
    """
    project = options.warned_project()
    paths = project.cleanable(state=state)
    if state and paths and not yes:
        for path in paths:
            print_line(f"  {visible(str(path))}")
        click.confirm("Remove what is listed?" if len(paths) > 1 else "Remove it?", abort=True)
    for path in project.clean(state=state):
        print_line(f"removed {visible(str(path))}")
    if not paths:
        print_line("nothing to remove")
