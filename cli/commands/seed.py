"""`headwater seed`: fills topics from the files and functions that their `seed:` names."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...runtime.driver.event_texts import counted
from ..given_files import GivenLines, records_of
from ..options import ProjectOptions, project_options
from ..printing.findings import warn
from ..printing.results import show_refused, show_seeds
from ..printing.terminal import tell
from ..removing import agreed, yes_option

_LINES = GivenLines()


@click.command()
@project_options
@click.option("--append", is_flag=True, help="Append records to one TOPIC: JSON lines from --file or standard input.")
@click.option("--file", "source", type=_LINES, help="Records for --append.")
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Seed the topics again. Appended records stay. Topologies that read them start again from the beginning.",
)
@click.option("--drop-appended", is_flag=True, help="With --full-refresh: do not keep what was appended to the topics.")
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

    All, the selected, or those named; each in one commit. A seed whose content has not changed is left alone
    without --full-refresh.
    """
    project = options.project()
    if topics and options.select:
        raise click.UsageError("name topics or select them; both together would leave open which are meant")
    if drop_appended and not full_refresh:
        raise click.UsageError("--drop-appended goes with --full-refresh")
    if source is not None and not append:
        raise click.UsageError("--file is for --append; add it to append the records of the file to TOPIC")
    if not append:
        if full_refresh:
            replaced, removals = project.plan_seed(topics, drop_appended=drop_appended)
            agreed(removals, replaced, yes=yes, drop_appended=drop_appended)
        show_seeds(project.seed(topics, full_refresh=full_refresh, drop_appended=drop_appended))
        warn(project)
        return
    if len(topics) != 1 or full_refresh:
        raise click.UsageError("--append takes one TOPIC, and no --full-refresh")
    if source is None and sys.stdin is None:  # the calling program has closed it
        raise click.UsageError("there is no standard input; --file names a file")
    source = source or _LINES.convert("-", None, None)
    appended = project.append(topics[0], records_of(source), as_json=True)
    tell(f"appended {counted(appended.records, 'record')} to {topics[0]}")
    show_refused(topics[0], appended.refused)
