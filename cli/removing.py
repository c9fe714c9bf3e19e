"""What `reset` and `remove` say before they remove anything, and the question that they ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..readable_text import json_text
from ..runtime.driver.reports.event_texts import counted
from .printing import tables
from .printing.cells import size_text
from .printing.terminal import WARNING, named, say, tell

if TYPE_CHECKING:
    from ..runtime.progress.resets.removal import Removal

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
