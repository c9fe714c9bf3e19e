"""`headwater log copy`: copies the log, while topologies run."""

from __future__ import annotations

from pathlib import Path

import click

from ....readable_text import counted
from ...options import ProjectOptions, whole_project_options
from ...printing.tables import size_text
from ...printing.terminal import ERROR, print_line, print_styled
from .verify import shown_progress


@click.command(short_help="Copy the log, while topologies run.")
@whole_project_options
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def command(options: ProjectOptions, folder: Path) -> None:
    """Copy the log into FOLDER, as it is at one moment.

    Topologies may run meanwhile. If FOLDER has an earlier copy, only new files are copied. They are compared with their
    checksums; `headwater log verify` checks a whole copy. For logs of type embedded only.
    """
    project = options.warned_project()
    with shown_progress() as progress:
        copied = project.copy_log(folder, progress)
    applications = counted(len(copied.commits), "application")
    print_line(f"{applications} in {folder}: {counted(copied.files, 'file')} copied ({size_text(copied.size)})")
    if copied.removed:
        print_line(f"{counted(copied.removed, 'file')} removed that no commit lists any more")
    for name in copied.dropped:
        print_line(f"{name} removed: the log does not have it any more")
    for path in copied.damaged:
        print_styled(
            ERROR, f"{path} is damaged in the log itself: `headwater log verify` says what that means", err=True
        )
    for path in copied.missing:
        print_styled(
            ERROR, f"{path} is missing from the log itself: `headwater log verify` says what that means", err=True
        )
    if copied.missing or copied.damaged:
        raise SystemExit(1)
