"""`headwater run`: compiles the selected topologies and runs them."""

from __future__ import annotations

import click

from .findings import show
from .options import ProjectOptions, project_options
from .progress import shown
from .results import show_run


@click.command()
@project_options
@click.option("--until-caught-up", is_flag=True, help="End once all committed input is consumed.")
@click.option("--full-refresh", is_flag=True, help="Forget state, output and positions of what is selected, first.")
def command(options: ProjectOptions, until_caught_up: bool, full_refresh: bool) -> None:
    """Compile and run, until interrupted.

    Ctrl-C and SIGTERM finish the epoch and commit it; a second one does not wait for that.
    """
    with options.project() as project:
        compiled = project.compile(check=False)
        show(compiled.diagnostics, compiled.sources, compiled.root, "text")
        if not compiled.ok:
            raise SystemExit(1)
        if full_refresh:
            project.full_refresh()
        with shown() as observer:
            results = project.run(until_caught_up=until_caught_up, observer=observer, check=False)
        show_run(results)
        raise SystemExit(1 if results.failed else 0)
