"""`headwater remove`: removes what the log has of things that the project does not have any more."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..options import ProjectOptions, format_option, whole_project_options
from ..printing.findings import warn_of_call
from ..printing.terminal import tell
from ..removing import confirmed, show, show_json


@click.command()
@whole_project_options
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is removed.")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, names: Sequence[str], dry_run: bool, yes: bool, style: str) -> None:
    """Remove from the log, for good, what the project does not have any more: applications and topics.

    An application whose topology was removed goes with its output, changelogs and stores, and records of other topics
    do not wait for it any longer. A topic goes with all of its records. What the project has is refused, and so is what
    others have read that stay. `ls --orphans` lists such applications.
    """
    project = options.project()
    warn_of_call(project)
    planned = project.plan_remove(names)
    if style == "json":
        show_json(planned, dry_run=dry_run)
    else:
        show(planned)
    if not confirmed(dry_run, yes, "Remove this for good?", style):
        return
    project.remove(planned)
    for each in planned if style != "json" else ():
        for name in [each.application] if each.whole else [topic.topic for topic in each.topics]:
            tell(f"{name} removed")
