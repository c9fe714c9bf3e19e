"""`headwater remove`: removes applications and topics from the log that the project does not have any more."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..options import ProjectOptions, format_option, whole_project_options
from ..printing.terminal import print_line
from ..removing import confirmed, show, show_json


@click.command()
@whole_project_options
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is removed.")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, names: Sequence[str], dry_run: bool, yes: bool, style: str) -> None:
    """Remove applications and topics from the log, for good, that the project does not have any more.

    An application without a topology is removed with its output, changelogs and stores, and stops holding back records
    of other topics. A topic is removed with all of its records. Names that the project has are an error, and so are
    topics that remaining applications have read. `ls --orphans` lists such applications.
    """
    project = options.warned_project()
    planned = project.plan_remove(names)
    if style == "json":
        show_json(planned, dry_run=dry_run)
    else:
        show(planned)
    if not confirmed(dry_run, yes, "Remove this for good?", style):
        return
    project.remove(planned)
    for removal in planned if style != "json" else ():
        for name in [removal.application] if removal.whole else [topic.topic for topic in removal.topics]:
            print_line(f"{name} removed")
