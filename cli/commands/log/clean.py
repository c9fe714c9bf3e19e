"""`headwater log clean`: merges, compacts and expires what stopped topologies have in the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import json_text
from ....runtime.driver.event_texts import counted
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.findings import warn_of_call
from ...printing.tables import size_text
from ...printing.terminal import ERROR, WARNING, say, tell

if TYPE_CHECKING:
    from ....runtime.log.cleaning.cleaner import CleanedApplication, Sizes

_HEADER = ("application", "segments before", "after", "size before", "after", "files removed", "waiting")


@click.command(short_help="Merge, compact and expire at once.")
@whole_project_options
@click.argument("applications", metavar="[APPLICATION]...", nargs=-1)
@format_option("table", "json", default="table")
def command(options: ProjectOptions, applications: Sequence[str], style: str) -> None:
    """Merge, compact and expire what the log has, until there is nothing more to do.

    Runs do the same in the background. This is for topologies that do not run: one that does is refused. Without
    APPLICATION, all that the project has in the log are cleaned. Files that others have taken the place of are
    removed by a later call or run, once the delay of the profile is over.
    """
    project = options.project()
    cleaned = project.clean_log(applications)
    warn_of_call(project)
    if style == "json":
        click.echo(json_text({"applications": [_json(each) for each in cleaned]}, indent=2))
    elif not cleaned:
        tell("the project has committed nothing to the log yet")
    else:
        tables.show(_HEADER, [_row(each) for each in cleaned], right=(1, 2, 3, 4, 5, 6))
    for each in cleaned:
        for held in each.held:
            waits = f"{counted(held.records, 'record')} of {held.topic} cannot be cleaned away"
            say(WARNING, f"{each.application}: {waits}: {held.reader} has still to read them", err=True)
    damaged = [(each.application, damage) for each in cleaned for damage in each.damage]
    for application, damage in damaged:
        say(ERROR, f"{application}: left as it is: {damage.message}", err=True)
    if damaged:
        say(("  hint: ", "bold"), "`headwater log verify` says what is lost, and what to do", err=True)
        raise SystemExit(1)


def _row(each: CleanedApplication) -> list[str]:
    segments = [f"{sizes.segments:,}" for sizes in (each.before, each.after)]
    bytes_ = [size_text(sizes.size) for sizes in (each.before, each.after)]
    return [each.application, *segments, *bytes_, f"{each.removed:,}", f"{each.waiting:,}"]


def _json(each: CleanedApplication) -> dict[str, Any]:
    """The form published as `schemas/log_cleaning.json`."""
    return {
        "application": each.application,
        "before": _sizes(each.before),
        "after": _sizes(each.after),
        "files_removed": each.removed,
        "files_waiting": each.waiting,
        "damage": [damage.message for damage in each.damage],
    }


def _sizes(sizes: Sizes) -> dict[str, int]:
    return {"segments": sizes.segments, "bytes": sizes.size}
