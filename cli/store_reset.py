"""What `headwater reset --store` says before it asks for stores to be computed again, and once it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..readable_text import json_text
from ..runtime.driver.event_texts import counted
from .printing import tables
from .printing.plan_texts import lacking_room, room_text
from .printing.tables import size_text
from .printing.terminal import WARNING, say, tell
from .removing import confirmed

if TYPE_CHECKING:
    from ..api.project import Project
    from ..runtime.changes.planning import StoreReset

_STORES_HEADER = ("application", "reads again", "records", "size")


def reset_stores(project: Project, planned: StoreReset, *, dry_run: bool, yes: bool, style: str) -> None:
    """Tell what was planned, and do it once that is confirmed."""
    if style == "json":
        click.echo(json_text(_stores_json(planned, dry_run), indent=2))
    else:
        _show(planned)
    if planned.is_done:
        return
    names = ", ".join(planned.stores)
    stay, as_now = ("stays", "as it is") if len(planned.stores) == 1 else ("stay", "as they are")
    question = f"Leave {names} {as_now}?" if planned.withdraw else f"Have the next run compute {names} again?"
    if not confirmed(dry_run, yes, question, style):
        return
    project.reset_store(planned)
    if style != "json":
        tell(
            f"{names} of {planned.application} {stay} {as_now}"
            if planned.withdraw
            else f"`headwater run` computes {names} again; until it has caught up, everyone reads what is there"
        )


def _show(planned: StoreReset) -> None:
    what = f"{', '.join(planned.stores)} of {planned.application}"
    if planned.withdraw:
        it = "it" if len(planned.stores) == 1 else "them"
        told = f"nobody has asked for {it} to be computed again"
        if not planned.is_done:
            told = f"the next run computes {it} again"
        tell(f"{what}: {told}")
        return
    rows = [
        [name, each.topic, f"{each.records:,}", size_text(each.bytes)]
        for name, read in planned.reads.items()
        for each in read
    ]
    tables.show(_STORES_HEADER, rows, right=(2, 3))
    readers = [name for name in planned.reads if name != planned.application]
    also = f", and so are those of {', '.join(readers)}, which read it" if readers else ""
    tell(
        f"{what}: computed again from {counted(planned.records, 'record')} ({size_text(planned.bytes)}); all other "
        f"stores and topics of {planned.application} are computed with it{also}"
    )
    if room := room_text(planned.space):
        tell(room)
    for line in lacking_room(planned.space):
        say(WARNING, line)
    if planned.is_done:
        tell("this was asked for already: `headwater run` does it")


def _stores_json(planned: StoreReset, dry_run: bool) -> dict[str, object]:
    """In the form published as `schemas/store_reset.json`."""
    return {
        "dry_run": dry_run,
        "application": planned.application,
        "stores": list(planned.stores),
        "asked_before": list(planned.asked),
        "withdraw": planned.withdraw,
        "computed_again": [
            {
                "application": name,
                "topics": [{"topic": each.topic, "records": each.records, "bytes": each.bytes} for each in read],
            }
            for name, read in planned.reads.items()
        ],
        "records": planned.records,
        "bytes": planned.bytes,
        "space": [
            {"place": each.place, "bytes": each.bytes, "free": each.free, "enough": each.enough}
            for each in planned.space
        ],
    }
