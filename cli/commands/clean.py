"""`headwater clean`: removes files that can be made again: generated code, or stores."""

from __future__ import annotations

import click

from ...readable_text import visible
from ..options import ProjectOptions, project_options
from ..printing.findings import warn_of_call
from ..printing.terminal import tell


@click.command()
@project_options
@click.option("--state", is_flag=True, help="Also the stores; the next run restores them from the changelogs.")
@click.option("--yes", is_flag=True, help="Do not ask before state is removed.")
def command(options: ProjectOptions, state: bool, yes: bool) -> None:
    """Remove generated files, or state.

    Of all topologies, or of the selected ones. Only state that Headwater has made for this project is removed.
    """
    project = options.project()
    warn_of_call(project)
    doomed = project.cleanable(state=state)
    if state and doomed and not yes:
        for path in doomed:
            tell(f"  {visible(str(path))}")
        click.confirm("Remove what is listed?" if len(doomed) > 1 else "Remove it?", abort=True)
    for path in project.clean(state=state):
        tell(f"removed {visible(str(path))}")
    if not doomed:
        tell("nothing to remove")
