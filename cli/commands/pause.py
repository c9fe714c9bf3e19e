"""`headwater pause`: has running topologies stand still."""

from __future__ import annotations

import click

from ..options import ProjectOptions, project_options
from ..printing.findings import warn_of_call
from ..printing.tables import time_text
from ..printing.terminal import WARNING, say, tell


@click.command()
@project_options
def command(options: ProjectOptions) -> None:
    """Have topologies stand still until `headwater resume`: all of them, or the selected ones.

    What is being worked on is finished and committed. A run stays, with its claim; so no other one takes over. Results
    can be read and queried. The pause is kept in the log: a run that starts later stands still too.
    """
    project = options.project()
    warn_of_call(project)
    found = project.pause()
    for each in found:
        if not each.known:
            say(WARNING, f"{each.application} has never run on this log: there is nothing to pause", err=True)
        elif each.changed:
            tell(f"{each.application} is paused: `headwater resume` ends that")
            if each.keeps:
                tell(f"  until then the log keeps what it has not read of {', '.join(each.keeps)}")
        else:
            tell(f"{each.application} is paused already, since {time_text(each.since or 0)}")
    if not any(each.known for each in found):
        raise SystemExit(1)
