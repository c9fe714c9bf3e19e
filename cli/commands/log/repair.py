"""`headwater log repair`: goes on without what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import json_text
from ....runtime.driver.event_texts import counted
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.findings import warn_of_call
from ...printing.terminal import WARNING, say, tell
from .verify import shown_progress

if TYPE_CHECKING:
    from ....runtime.log.inspection.repair import Repair

_HEADER = ("application", "topic", "partition", "offsets", "records", "readable", "dropped")


@click.command(short_help="Give up what is missing or damaged.")
@whole_project_options
@click.option("--drop-unreadable", is_flag=True, help="Give up records that cannot be read, for good.")
@click.option("--dry-run", is_flag=True, help="Only say what would be given up.")
@click.option("--yes", is_flag=True, help="Do not ask before records are given up.")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, drop_unreadable: bool, dry_run: bool, yes: bool, style: str) -> None:
    """Give up what is missing or damaged, so that everything else can be read again.

    It says for each topic, partition and range of offsets how many records there were and how many can be read, and
    asks. Offsets stay as they are. A topology that runs is refused: stop it first.
    """
    if not (drop_unreadable or dry_run):
        raise click.UsageError("Say what to do: --drop-unreadable, or --dry-run to see what that would give up.")
    project = options.project()
    warn_of_call(project)
    with shown_progress() as progress:
        planned = project.plan_repair(progress)
    if style == "json":
        shown = {"dry_run": dry_run, "applications": [_json(each) for each in planned]}
        click.echo(json_text(shown, indent=2))
    elif not planned and not project.log_contents():
        tell("nothing was committed to the log yet")
    else:
        _show(planned)
    if dry_run or not planned:
        return
    if not yes:
        click.confirm("Give this up for good?", abort=True, err=style == "json")
    project.repair_log(planned)
    if style != "json":
        dropped = sum(each.dropped for each in planned)
        tell(f"{counted(dropped, 'record')} dropped; everything that is listed now can be read")


def _show(planned: Sequence[Repair]) -> None:
    if not planned:
        tell("nothing to repair: everything that commits list can be read")
        return
    rows = [row for each in planned for row in _rows(each)]
    if rows:
        tables.show(_HEADER, rows, right=(2, 4, 5, 6))
    for each in planned:
        for copy in each.copies:
            tell(f"snapshot of store {copy.store}, partition {copy.partition}: {copy.path} is listed no more")
        missed = (f"{broken.segment.topic}: {lost}" for broken in each.segments for lost in broken.lost)
        for said in dict.fromkeys(missed):
            say(WARNING, said)


def _rows(each: Repair) -> Iterator[list[str]]:
    for broken in each.segments:
        segment = broken.segment
        counts = [f"{number:,}" for number in (segment.rows, broken.kept, broken.dropped)]
        offsets = ", ".join(f"{missing.place.start} to {missing.place.end - 1}" for missing in broken.missing)
        yield [each.application, segment.topic, str(segment.partition), offsets, *counts]


def _json(each: Repair) -> dict[str, Any]:
    """The form published as `schemas/log_repair.json`."""
    return {
        "application": each.application,
        "dropped": each.dropped,
        "segments": [
            {
                "topic": broken.segment.topic,
                "partition": broken.segment.partition,
                "path": broken.segment.path,
                "records": broken.segment.rows,
                "readable": broken.kept,
                "dropped": broken.dropped,
                "unreadable": [
                    {"start": missing.place.start, "end": missing.place.end, "records": missing.records}
                    for missing in broken.missing
                ],
                "lost": list(broken.lost),
            }
            for broken in each.segments
        ],
        "store_copies": [copy.path for copy in each.copies],
    }
