"""`headwater pause`: pauses running topologies."""

from __future__ import annotations

import click

from ..options import ProjectOptions, project_options
from ..printing.tables import time_text
from ..printing.terminal import WARNING, print_line, print_styled


@click.command()
@project_options
def command(options: ProjectOptions) -> None:
    """Pause topologies until `headwater resume`: all of them, or the selected ones.

    Records in progress are finished and committed. A paused run keeps its claim, so no other run takes over. Results
    can be read and queried. The pause is kept in the log: a run that starts later is paused, too.
    """
    project = options.warned_project()
    pauses = project.pause()
    for pause in pauses:
        if not pause.known:
            print_styled(WARNING, f"{pause.application} has never run on this log: nothing to pause", err=True)
        elif pause.changed:
            print_line(f"{pause.application} is paused: `headwater resume` ends the pause")
            if pause.keeps:
                print_line(f"  until then the log keeps unread records of {', '.join(pause.keeps)}")
        else:
            print_line(f"{pause.application} is paused already, since {time_text(pause.since or 0)}")
    if not any(pause.known for pause in pauses):
        raise SystemExit(1)
