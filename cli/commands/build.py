"""`headwater build`: compile, test, seed, and run until caught up."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.ir.topology import ExpressionEngine
from ..options import ProjectOptions, continue_option, engine_option, project_options
from ..printing.results import watch_options, watching
from ..printing.tests import run_tests
from ..removing import check_going_on, confirm_full_refresh, yes_option


@click.command()
@project_options
@click.option(
    "--full-refresh", is_flag=True, help="Forget all data of the selected topics and topologies, and start again."
)
@click.option("--no-test", is_flag=True, help="Do not run the tests of the project first.")
@continue_option
@engine_option
@yes_option
@watch_options
def command(
    options: ProjectOptions,
    full_refresh: bool,
    no_test: bool,
    go_on: bool,
    yes: bool,
    metrics_port: int | None,
    log_format: str,
    trace: Path | None,
    engine: ExpressionEngine | None,
) -> None:
    """Compile, test, seed, run until caught up.

    It ends when all committed input is consumed, as CI needs it. If a test fails, nothing is seeded or run.
    """
    check_going_on(go_on, full_refresh)
    with watching(metrics_port, log_format, trace) as watch, options.project() as project:
        watch.compiled(project)
        if not no_test:
            run_tests(project)
        if full_refresh:
            removals = {removal.application: removal for removal in project.plan_full_refresh(seeds=True)}
            replaced, readers = project.plan_seed(keep_unchanged=True)
            confirm_full_refresh(
                list((removals | {reader.application: reader for reader in readers}).values()), replaced, yes=yes
            )
            project.full_refresh(seeds=True)
        else:
            watch.plan(project.outlook(go_on=go_on))
        watch.seeds(project.seed(full_refresh=full_refresh, keep_unchanged=True))
        with watch.shown() as observer:
            results = project.run(
                until_caught_up=True, observer=observer, check=False, go_on=go_on, trace=watch.trace, engine=engine
            )
        watch.results(results)
        raise SystemExit(1 if results.failed else 0)
