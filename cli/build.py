"""`headwater build`: compile, seed, and run until caught up."""

from __future__ import annotations

import click

from .findings import show
from .options import ProjectOptions, project_options
from .progress import shown
from .results import show_run, show_seeds


@click.command()
@project_options
@click.option(
    "--full-refresh", is_flag=True, help="Forget what the selected topics and topologies have, and begin again."
)
def command(options: ProjectOptions, full_refresh: bool) -> None:
    """Compile, seed, run until caught up.

    It ends when all committed input is consumed, as CI needs it.
    """
    with options.project() as project:
        compiled = project.compile(check=False)
        show(compiled.diagnostics, compiled.sources, compiled.root, "text")
        if not compiled.ok:
            raise SystemExit(1)
        if full_refresh:
            project.full_refresh()
        show_seeds(project.seed(full_refresh=full_refresh))
        with shown() as observer:
            results = project.run(until_caught_up=True, observer=observer, check=False)
        show_run(results)
        raise SystemExit(1 if results.failed else 0)
