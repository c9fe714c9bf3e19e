"""`headwater log repair`: drops records that cannot be read, so that everything else can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import counted, json_text
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.terminal import WARNING, print_line, print_styled
from .verify import shown_progress

if TYPE_CHECKING:
    from ....runtime.log.inspection.repair import Repair

_HEADER = ("application", "topic", "partition", "offsets", "records", "readable", "dropped")


@click.command(short_help="Drop what is missing or damaged.")
@whole_project_options
@click.option("--drop-unreadable", is_flag=True, help="Drop unreadable records, for good.")
@click.option("--dry-run", is_flag=True, help="Only show what would be dropped.")
@click.option("--yes", is_flag=True, help="Do not ask before records are dropped.")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, drop_unreadable: bool, dry_run: bool, yes: bool, style: str) -> None:
    """Drop what is missing or damaged, so that everything else can be read again.

    It lists topic, partition, range of offsets, and the numbers of lost and readable records, then asks. Offsets do not
    change. A running topology is an error: stop it first.
    """
    if not (drop_unreadable or dry_run):
        raise click.UsageError("Say what to do: --drop-unreadable, or --dry-run to see what that would drop.")
    project = options.warned_project()
    with shown_progress() as progress:
        planned = project.plan_repair(progress)
    if style == "json":
        shown = {"dry_run": dry_run, "applications": [_json(repair) for repair in planned]}
        click.echo(json_text(shown, indent=2))
    elif not planned and not project.log_contents():
        print_line("nothing was committed to the log yet")
    else:
        _show(planned)
    if dry_run or not planned:
        return
    if not yes:
        click.confirm("Drop this for good?", abort=True, err=style == "json")
    project.repair_log(planned)
    if style != "json":
        dropped = sum(repair.dropped for repair in planned)
        print_line(f"{counted(dropped, 'record')} dropped; everything that is listed now can be read")


def _show(planned: Sequence[Repair]) -> None:
    if not planned:
        print_line("nothing to repair: everything that commits list can be read")
        return
    rows = [row for repair in planned for row in _rows(repair)]
    if rows:
        tables.show(_HEADER, rows, right=(2, 4, 5, 6))
    for repair in planned:
        for copy in repair.copies:
            print_line(
                f"snapshot of store {copy.store}, partition {copy.partition}: {copy.path} is not listed any more"
            )
        missed = (f"{broken.segment.topic}: {lost}" for broken in repair.segments for lost in broken.lost)
        for line in dict.fromkeys(missed):
            print_styled(WARNING, line)


def _rows(repair: Repair) -> Iterator[list[str]]:
    for broken in repair.segments:
        segment = broken.segment
        counts = [f"{number:,}" for number in (segment.rows, broken.kept, broken.dropped)]
        offsets = ", ".join(f"{missing.place.start} to {missing.place.end - 1}" for missing in broken.missing)
        yield [repair.application, segment.topic, str(segment.partition), offsets, *counts]


def _json(repair: Repair) -> dict[str, Any]:
    """The form published as `schemas/log_repair.json`."""
    return {
        "application": repair.application,
        "dropped": repair.dropped,
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
            for broken in repair.segments
        ],
        "store_copies": [copy.path for copy in repair.copies],
    }
