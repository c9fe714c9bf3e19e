"""`headwater reset`: lets topologies start again from the first records of their topics, or rebuilds stores."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...readable_text import counted
from ..options import ProjectOptions, format_option, whole_project_options
from ..printing.terminal import WARNING, print_line, print_styled
from ..removing import confirmed, show, show_json


@click.command()
@whole_project_options
@click.argument("topologies", metavar="TOPOLOGY...", nargs=-1, required=True)
@click.option("--store", "stores", multiple=True, help="Only rebuild this store; can be repeated.")
@click.option("--withdraw", is_flag=True, help="With --store: take the request back, if no run has rebuilt it yet.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is done.")
@format_option("table", "json", default="table")
def command(
    options: ProjectOptions,
    topologies: Sequence[str],
    stores: Sequence[str],
    withdraw: bool,
    dry_run: bool,
    yes: bool,
    style: str,
) -> None:
    """Let topologies start again from the first records of their topics: `sales`, or `sales+` with its readers.

    Everything that they have committed is removed: positions, stores, changelogs and output. External topics do not
    change and keep all appended records. A running topology is an error, and so is one whose output another topology
    has read, unless that one starts again too.

    With `--store` nothing is removed: the next run rebuilds the store, keeps the present rows meanwhile, and switches
    once it has caught up.
    """
    project = options.warned_project()
    if stores:
        from ..store_reset import reset_stores

        if len(topologies) > 1:
            raise click.UsageError("`--store` works on one topology")
        planned_stores = project.plan_store_reset(topologies[0], stores, withdraw=withdraw)
        reset_stores(project, planned_stores, dry_run=dry_run, yes=yes, style=style)
        return
    if withdraw:
        raise click.UsageError("`--withdraw` needs the `--store` of the request")
    planned = project.plan_reset(topologies)
    if style == "json":
        show_json(planned, dry_run=dry_run)
    elif not planned:
        print_line("nothing to reset: the topologies have not committed anything")
    else:
        show(planned)
    if planned and (errors := project.parse().errors):
        text = f"the project has {counted(len(errors), 'error')}: no run starts before `headwater parse` finds none"
        print_styled(WARNING, text, err=True)
    question = "Remove this for good, and start again with the next run?"
    if not planned or not confirmed(dry_run, yes, question, style):
        return
    project.remove(planned)
    for removal in planned if style != "json" else ():
        print_line(f"{removal.application} is reset: the next run reads its topics from the first records")
