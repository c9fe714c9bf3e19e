"""`headwater build`: seed, compile, and run until caught up."""

from __future__ import annotations

import click

from .findings import show
from .options import ProjectOptions, project_options
from .progress import shown
from .results import show_run, show_seeds


@click.command()
@project_options
@click.option("--full-refresh", is_flag=True, help="Start the selected topics and topologies anew.")
def command(options: ProjectOptions, full_refresh: bool) -> None:
    """Compile, seed, and run until all input is consumed: what CI does with a project."""
    project = options.project()
    compiled = project.compile(check=False)
    show(compiled.diagnostics, compiled.sources, compiled.root, "text")
    if not compiled.ok:
        raise SystemExit(1)
    show_seeds(project.seed(full_refresh=full_refresh))
    with shown() as observer:
        ran = project.run(until_caught_up=True, full_refresh=full_refresh, observer=observer)
    show_run(ran)
    raise SystemExit(1 if ran.results.failed else 0)
