"""`headwater reset`: lets topologies start again from the first records of their topics, or rebuilds stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...readable_text import counted, json_text
from ..options import ProjectOptions, format_option, whole_project_options
from ..printing import tables
from ..printing.tables import size_text
from ..printing.terminal import WARNING, print_line, print_styled
from ..removing import confirmed, show, show_json

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.changes.planning import StoreReset

_STORES_HEADER = ("application", "reads again", "records", "size")


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
        if len(topologies) > 1:
            raise click.UsageError("`--store` works on one topology")
        planned_stores = project.plan_store_reset(topologies[0], stores, withdraw=withdraw)
        _reset_stores(project, planned_stores, dry_run=dry_run, yes=yes, style=style)
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


# With --store: shows what rebuilding stores means, asks, and requests the rebuild.


def _reset_stores(project: Project, planned: StoreReset, *, dry_run: bool, yes: bool, style: str) -> None:
    """Show the plan and, once confirmed, request the rebuild or withdraw the request."""
    if style == "json":
        click.echo(json_text(_stores_json(planned, dry_run), indent=2))
    else:
        _show_stores(planned)
    if planned.is_done:
        return
    names = ", ".join(planned.stores)
    stay, as_now = ("stays", "as it is") if len(planned.stores) == 1 else ("stay", "as they are")
    question = f"Leave {names} {as_now}?" if planned.withdraw else f"Rebuild {names} with the next run?"
    if not confirmed(dry_run, yes, question, style):
        return
    project.reset_store(planned)
    if style != "json":
        print_line(
            f"{names} of {planned.application} {stay} {as_now}"
            if planned.withdraw
            else f"`headwater run` rebuilds {names}; until it has caught up, everyone reads the present rows"
        )


def _show_stores(planned: StoreReset) -> None:
    what = f"{', '.join(planned.stores)} of {planned.application}"
    if planned.withdraw:
        it = "it" if len(planned.stores) == 1 else "them"
        state = f"no rebuild of {it} is requested"
        if not planned.is_done:
            state = f"the next run rebuilds {it}"
        print_line(f"{what}: {state}")
        return
    rows = [
        [name, topic.topic, f"{topic.records:,}", size_text(topic.bytes)]
        for name, topics in planned.reads.items()
        for topic in topics
    ]
    tables.show(_STORES_HEADER, rows, right=(2, 3))
    readers = [name for name in planned.reads if name != planned.application]
    also = f", and those of {', '.join(readers)}, which read it" if readers else ""
    print_line(
        f"{what}: rebuilt from {counted(planned.records, 'record')} ({size_text(planned.bytes)}); all other "
        f"stores and topics of {planned.application} are rebuilt with it{also}"
    )
    from ..printing.plan_texts import lacking_room, room_text  # loads Arrow, which help does without

    if room := room_text(planned.space):
        print_line(room)
    for line in lacking_room(planned.space):
        print_styled(WARNING, line)
    if planned.is_done:
        print_line("already requested: `headwater run` does it")


def _stores_json(planned: StoreReset, dry_run: bool) -> dict[str, object]:
    """The form published as `schemas/store_reset.json`."""
    return {
        "dry_run": dry_run,
        "application": planned.application,
        "stores": list(planned.stores),
        "asked_before": list(planned.asked),
        "withdraw": planned.withdraw,
        "computed_again": [
            {
                "application": name,
                "topics": [{"topic": topic.topic, "records": topic.records, "bytes": topic.bytes} for topic in topics],
            }
            for name, topics in planned.reads.items()
        ],
        "records": planned.records,
        "bytes": planned.bytes,
        "space": [asdict(space) for space in planned.space],
    }
