"""`headwater log clean`: merges, compacts and expires the log of stopped topologies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import counted, json_text
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.findings import warn_of_unread
from ...printing.tables import size_text
from ...printing.terminal import ERROR, WARNING, print_line, print_styled

if TYPE_CHECKING:
    from ....runtime.log.cleaning.cleaner import CleanedApplication, Sizes

_HEADER = ("application", "segments before", "after", "size before", "after", "files removed", "waiting")


@click.command(short_help="Merge, compact and expire at once.")
@whole_project_options
@click.argument("applications", metavar="[APPLICATION]...", nargs=-1)
@format_option("table", "json", default="table")
def command(options: ProjectOptions, applications: Sequence[str], style: str) -> None:
    """Merge, compact and expire the log, until nothing is left to do.

    Runs do the same in the background. This command is for stopped topologies; a running one is an error. Without
    APPLICATION, all of the project's applications are cleaned. Replaced files are removed by a later call or run, after
    the delay of the profile.
    """
    project = options.project()
    cleaned = project.clean_log(applications)
    warn_of_unread(project)
    if style == "json":
        click.echo(json_text({"applications": [_json(application) for application in cleaned]}, indent=2))
    elif not cleaned:
        print_line("the project has committed nothing to the log yet")
    else:
        tables.show(_HEADER, [_row(application) for application in cleaned], right=(1, 2, 3, 4, 5, 6))
    for application in cleaned:
        for held in application.held:
            records = f"{counted(held.records, 'record')} of {held.topic} cannot be removed"
            print_styled(
                WARNING, f"{application.application}: {records}: {held.reader} has still to read them", err=True
            )
    damaged = [(application.application, damage) for application in cleaned for damage in application.damage]
    for name, damage in damaged:
        print_styled(ERROR, f"{name}: not cleaned: {damage.message}", err=True)
    if damaged:
        print_styled(("  hint: ", "bold"), "`headwater log verify` shows what is lost, and what to do", err=True)
        raise SystemExit(1)


def _row(application: CleanedApplication) -> list[str]:
    segments = [f"{sizes.segments:,}" for sizes in (application.before, application.after)]
    bytes_ = [size_text(sizes.size) for sizes in (application.before, application.after)]
    return [application.application, *segments, *bytes_, f"{application.removed:,}", f"{application.waiting:,}"]


def _json(application: CleanedApplication) -> dict[str, Any]:
    """The form published as `schemas/log_cleaning.json`."""
    return {
        "application": application.application,
        "before": _sizes(application.before),
        "after": _sizes(application.after),
        "files_removed": application.removed,
        "files_waiting": application.waiting,
        "damage": [damage.message for damage in application.damage],
    }


def _sizes(sizes: Sizes) -> dict[str, int]:
    return {"segments": sizes.segments, "bytes": sizes.size}
