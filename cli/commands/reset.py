"""`headwater reset`: has topologies start again from the first records of their topics, or computes stores again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...runtime.driver.event_texts import counted
from ..options import ProjectOptions, format_option, whole_project_options
from ..printing.findings import warn_of_call
from ..printing.terminal import WARNING, say, tell
from ..removing import confirmed, show, show_json


@click.command()
@whole_project_options
@click.argument("topologies", metavar="TOPOLOGY...", nargs=-1, required=True)
@click.option("--store", "stores", multiple=True, help="Only compute this store again; can be repeated.")
@click.option("--withdraw", is_flag=True, help="With --store: leave it as it is, if no run has computed it yet.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
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
    """Have topologies start again from the first records of their topics: `sales`, or `sales+` with its readers.

    All that they have committed goes: positions, stores, changelogs and output. Topics that are fed from outside stay
    as they are, with all appended records. A topology that runs is refused, and so is one whose output another one has
    read, unless that one starts again too.

    With `--store` nothing goes: the next run computes the store again, beside the rows that it has, and switches once
    it has caught up.
    """
    project = options.project()
    warn_of_call(project)
    if stores:
        from ..store_reset import reset_stores

        if len(topologies) > 1:
            raise click.UsageError("`--store` is about the stores of one topology")
        planned_stores = project.plan_store_reset(topologies[0], stores, withdraw=withdraw)
        reset_stores(project, planned_stores, dry_run=dry_run, yes=yes, style=style)
        return
    if withdraw:
        raise click.UsageError("`--withdraw` needs the `--store` that was to be computed again")
    planned = project.plan_reset(topologies)
    if style == "json":
        show_json(planned, dry_run=dry_run)
    elif not planned:
        tell("nothing to reset: they have not committed anything")
    else:
        show(planned)
    if planned and (errors := project.parse().errors):
        told = f"the project has {counted(len(errors), 'error')}: no run begins before `headwater parse` finds none"
        say(WARNING, told, err=True)
    question = "Remove this for good, and start again with the next run?"
    if not planned or not confirmed(dry_run, yes, question, style):
        return
    project.remove(planned)
    for each in planned if style != "json" else ():
        tell(f"{each.application} is reset: the next run reads its topics from the first records")
