"""`headwater log copy`: a copy of the log, while topologies run."""

from __future__ import annotations

from pathlib import Path

import click

from ....runtime.driver.event_texts import counted
from ...options import ProjectOptions, whole_project_options
from ...printing.findings import warn_of_call
from ...printing.tables import size_text
from ...printing.terminal import ERROR, say, tell
from .verify import shown_progress


@click.command(short_help="Copy the log, while topologies run.")
@whole_project_options
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def command(options: ProjectOptions, folder: Path) -> None:
    """Copy the log into FOLDER, as it is at one moment.

    Topologies may run meanwhile. If FOLDER has an earlier copy, only what is new is copied. What is copied is compared
    with its checksums; `headwater log verify` looks at a whole copy. For logs of type embedded only.
    """
    project = options.project()
    warn_of_call(project)
    with shown_progress() as progress:
        copied = project.copy_log(folder, progress)
    applications = counted(len(copied.commits), "application")
    tell(f"{applications} in {folder}: {counted(copied.files, 'file')} copied ({size_text(copied.size)})")
    if copied.removed:
        tell(f"{counted(copied.removed, 'file')} removed that no commit lists any more")
    for name in copied.dropped:
        tell(f"{name} removed, which the log has no more")
    for path in copied.damaged:
        say(ERROR, f"{path} is damaged in the log itself: `headwater log verify` says what that means", err=True)
    for path in copied.missing:
        say(ERROR, f"{path} is missing from the log itself: `headwater log verify` says what that means", err=True)
    if copied.missing or copied.damaged:
        raise SystemExit(1)
