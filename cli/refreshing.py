"""What `--full-refresh` says before it removes anything, and whether it asks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from ..runtime.driver.reports.event_texts import counted
from .printing.terminal import is_terminal, tell
from .removing import show

if TYPE_CHECKING:
    from ..runtime.ingest.appended import SeedReplacement
    from ..runtime.progress.resets.removal import Removal

yes_option: Callable[..., Any] = click.option(
    "--yes", is_flag=True, help="Do not ask before --full-refresh removes anything."
)


def check_going_on(go_on: bool, full_refresh: bool) -> None:
    """Raises click.UsageError if a run is to go on and to start again."""
    if go_on and full_refresh:
        raise click.UsageError("--continue goes on from what is committed, which --full-refresh forgets")


def agreed(
    removals: Sequence[Removal], seeds: Sequence[SeedReplacement], *, yes: bool, drop_appended: bool = False
) -> None:
    """Say on stderr what goes, and ask on a terminal. A no ends the command.

    A script is not asked: what goes is computed or seeded again, and appended records stay. With `drop_appended` they
    do not, so then it has to say `yes`.
    """
    if not removals and not seeds:
        return
    with redirect_stdout(sys.stderr):
        show(removals)
        for each in seeds:
            tell(_said(each, drop_appended))
    lost = drop_appended and any(each.appended != 0 for each in seeds)
    if not yes and (lost or (is_terminal(err=True) and sys.stdin is not None and sys.stdin.isatty())):
        click.confirm("Remove this for good, and start again?", abort=True, err=True)


def _said(seed: SeedReplacement, drop_appended: bool) -> str:
    starts = f"topic {seed.topic} starts again with its seed"
    if seed.appended is None:
        return f"{starts}: which of its {counted(seed.records, 'record')} were appended is not known"
    goes = f"{starts}: in place of {counted(seed.records - seed.appended, 'record')} of before"
    appended = counted(seed.appended, "appended record")
    fate = f"; it loses {appended}" if drop_appended else f"; it keeps {appended}, behind it"
    return f"{goes}{fate}" if seed.appended else goes
