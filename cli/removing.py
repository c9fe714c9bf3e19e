"""Questions before something is removed or rebuilt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from ..readable_text import json_text
from ..runtime.driver.event_texts import counted
from .printing import tables
from .printing.tables import size_text
from .printing.terminal import WARNING, is_terminal, named, say, tell

if TYPE_CHECKING:
    from ..runtime.ingest.append import SeedReplacement
    from ..runtime.progress.resets import Removal


# What `reset` and `remove` say before they remove anything, and the question that they ask.

_HEADER = ("application", "topic", "", "records", "size")


def show_json(planned: Sequence[Removal], *, dry_run: bool) -> None:
    """Print what goes in the form published as `schemas/removal.json`."""
    shown = {"dry_run": dry_run, "applications": [_json(each) for each in planned]}
    click.echo(json_text(shown, indent=2))


def show(planned: Sequence[Removal]) -> None:
    """List what goes: each topic with its records, and for each application what else it has and who has read it."""
    rows = [row for each in planned for row in _rows(each)]
    if rows:
        tables.show(_HEADER, rows, right=(3, 4))
    for each in planned:
        if each.error is not None:
            say(WARNING, named(each.application, f"all of it goes, but what that is cannot be said: {each.error}"))
        elif each.whole:
            tell(f"{each.application}: all of its {counted(each.commits, 'commit')} and {size_text(each.size)}")
            if each.stores:
                tell(f"  with {counted(len(each.stores), 'store')}: {', '.join(each.stores)}")
            if each.readers:
                tell(f"  read by {', '.join(each.readers)}, which goes too")


def confirmed(dry_run: bool, yes: bool, question: str, style: str = "table") -> bool:
    """Whether to do it: never in a dry run. Without `--yes` the user is asked, and a no ends the command."""
    if dry_run:
        if style != "json":
            tell("a dry run: nothing was changed")
        return False
    if not yes:
        click.confirm(question, abort=True, err=style == "json")
    return True


def _json(each: Removal) -> dict[str, Any]:
    return {
        "application": each.application,
        "whole": each.whole,
        "commits": each.commits,
        "bytes": each.size,
        "topics": [{"topic": one.topic, "records": one.records, "bytes": one.size} for one in each.topics],
        "stores": list(each.stores),
        "read_by": list(each.readers),
        "error": each.error,
    }


def _rows(each: Removal) -> Iterator[list[str]]:
    changelogs = {f"{each.application}-{store}-changelog": store for store in each.stores}
    for topic in each.topics:
        store = changelogs.get(topic.topic)
        what = f"of store {store}" if store else "between subtopologies" if _inner(each, topic.topic) else ""
        yield [each.application, topic.topic, what, f"{topic.records:,}", size_text(topic.size)]


def _inner(each: Removal, topic: str) -> bool:
    return topic.startswith(f"{each.application}-")


# What `--full-refresh` says before it removes anything, and whether it asks.

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
