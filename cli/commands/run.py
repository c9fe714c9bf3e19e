"""`headwater run`: compiles the selected topologies and runs them."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.ir.topology import ExpressionEngine
from ..given_files import InputPath
from ..options import ProjectOptions, continue_option, engine_option, project_options
from ..printing.results import watch_options, watching
from ..removing import check_going_on, confirm_full_refresh, yes_option


@click.command()
@project_options
@click.option("--until-caught-up", is_flag=True, help="End once all committed input is consumed.")
@click.option("--full-refresh", is_flag=True, help="First forget state, output and positions of the selection.")
@click.option(
    "--plan",
    type=InputPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Run only if the project and the log still match this plan: see `headwater plan --out`.",
)
@continue_option
@engine_option
@yes_option
@watch_options
def command(
    options: ProjectOptions,
    until_caught_up: bool,
    full_refresh: bool,
    go_on: bool,
    yes: bool,
    plan: Path | None,
    metrics_port: int | None,
    log_format: str,
    trace: Path | None,
    engine: ExpressionEngine | None,
) -> None:
    """Compile and run, until interrupted.

    Ctrl-C and SIGTERM finish the epoch and commit it; a second one ends the run at once.
    """
    if plan is not None and full_refresh:
        raise click.UsageError("a plan keeps what is committed, which --full-refresh forgets: choose one")
    check_going_on(go_on, full_refresh)
    with watching(metrics_port, log_format, trace) as watch, options.project() as project:
        if plan is not None and project.parse().ok:
            project.check_plan(plan, go_on=go_on)  # before Spark is started for the types of new expressions
        watch.compiled(project)
        if full_refresh:
            confirm_full_refresh(project.plan_full_refresh(), (), yes=yes)
            project.full_refresh()
        else:
            watch.plan(project.outlook(go_on=go_on or _continues(plan)))
        with watch.shown() as observer:
            results = project.run(
                until_caught_up=until_caught_up,
                observer=observer,
                check=False,
                plan=plan,
                go_on=go_on,
                trace=watch.trace,
                engine=engine,
            )
        watch.results(results)
        raise SystemExit(1 if results.failed else 0)


def _continues(plan: Path | None) -> bool:
    """Whether a plan was made with `--continue`. Raises PlanFileError."""
    from ...runtime.changes.plan import PlanBasis

    return plan is not None and PlanBasis.read(plan).go_on
