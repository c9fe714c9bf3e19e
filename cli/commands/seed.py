"""`headwater seed`: fills topics from the files and functions named in their `seed:`."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...readable_text import counted
from ..given_files import InputLines, read_json_records
from ..options import ProjectOptions, project_options
from ..printing.findings import warn
from ..printing.results import show_seeds, show_skipped
from ..printing.terminal import print_line
from ..removing import confirm_full_refresh, yes_option

_LINES = InputLines()


@click.command()
@project_options
@click.option("--append", is_flag=True, help="Append records to one TOPIC: JSON lines from --file or standard input.")
@click.option("--file", "source", type=_LINES, help="Records for --append.")
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Seed the topics again. Appended records stay. Topologies that read them start again.",
)
@click.option("--drop-appended", is_flag=True, help="With --full-refresh: remove appended records, too.")
@yes_option
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
def command(
    options: ProjectOptions,
    append: bool,
    source: Any,
    full_refresh: bool,
    drop_appended: bool,
    yes: bool,
    topics: tuple[str, ...],
) -> None:
    """Fill topics from their seeds.

    All, the selected, or the named topics; a topic in one commit. Without --full-refresh, an unchanged seed is skipped.
    """
    project = options.project()
    if topics and options.select:
        raise click.UsageError("name topics or select them, not both")
    if drop_appended and not full_refresh:
        raise click.UsageError("--drop-appended goes with --full-refresh")
    if source is not None and not append:
        raise click.UsageError("--file needs --append, which appends the file's records to TOPIC")
    if not append:
        if full_refresh:
            replaced, removals = project.plan_seed(topics, drop_appended=drop_appended)
            confirm_full_refresh(removals, replaced, yes=yes, drop_appended=drop_appended)
        show_seeds(project.seed(topics, full_refresh=full_refresh, drop_appended=drop_appended))
        warn(project)
        return
    if len(topics) != 1 or full_refresh:
        raise click.UsageError("--append takes one TOPIC, and no --full-refresh")
    if source is None and sys.stdin is None:  # closed by the calling program
        raise click.UsageError("there is no standard input; --file names a file")
    source = source or _LINES.convert("-", None, None)
    appended = project.append(topics[0], read_json_records(source), as_json=True)
    print_line(f"appended {counted(appended.records, 'record')} to {topics[0]}")
    show_skipped(topics[0], appended.refused)
