"""`headwater reset --store`: shows what rebuilding stores means, asks, and requests the rebuild."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..readable_text import counted, json_text
from .printing import tables
from .printing.plan_texts import lacking_room, room_text
from .printing.tables import size_text
from .printing.terminal import WARNING, print_line, print_styled
from .removing import confirmed

if TYPE_CHECKING:
    from ..api.project import Project
    from ..runtime.changes.planning import StoreReset

_STORES_HEADER = ("application", "reads again", "records", "size")


def reset_stores(project: Project, planned: StoreReset, *, dry_run: bool, yes: bool, style: str) -> None:
    """Show the plan and, once confirmed, request the rebuild or withdraw the request."""
    if style == "json":
        click.echo(json_text(_stores_json(planned, dry_run), indent=2))
    else:
        _show(planned)
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


def _show(planned: StoreReset) -> None:
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
