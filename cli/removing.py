"""Questions before data is removed or rebuilt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from ..readable_text import counted, json_text
from .printing import tables
from .printing.tables import size_text
from .printing.terminal import WARNING, is_terminal, print_line, print_styled, with_name

if TYPE_CHECKING:
    from ..runtime.ingest.append import SeedReplacement
    from ..runtime.progress.resets import Removal


# The preview of `reset` and `remove`, and the question that they ask.

_HEADER = ("application", "topic", "", "records", "size")


def show_json(planned: Sequence[Removal], *, dry_run: bool) -> None:
    """Print what would be removed, in the form published as `schemas/removal.json`."""
    shown = {"dry_run": dry_run, "applications": [_json(removal) for removal in planned]}
    click.echo(json_text(shown, indent=2))


def show(planned: Sequence[Removal]) -> None:
    """List what would be removed: each topic with its records, and for each application its stores and its readers."""
    # Here: help does not load the compiler.
    from ..compiler.model.project import TO_KAFKA

    rows = [row for removal in planned for row in _rows(removal)]
    if rows:
        tables.show(_HEADER, rows, right=(3, 4))
    for removal in planned:
        if removal.error is not None:
            print_styled(
                WARNING,
                with_name(removal.application, f"all of it is removed, but its size is unknown: {removal.error}"),
            )
        elif removal.whole:
            print_line(
                f"{removal.application}: all of its {counted(removal.commits, 'commit')} and {size_text(removal.size)}"
            )
            if removal.stores:
                print_line(f"  with {counted(len(removal.stores), 'store')}: {', '.join(removal.stores)}")
            if removal.readers:
                print_line(f"  read by {', '.join(removal.readers)}, which is removed too")
            if removal.application.endswith(f"-{TO_KAFKA}"):
                print_line(
                    "  with its positions in Kafka: the next run writes all records again, behind those that are"
                )
                print_line("  there; where `recomputed: changes` is declared, it writes what differs")


def confirmed(dry_run: bool, yes: bool, question: str, style: str = "table") -> bool:
    """Whether to do it: never in a dry run. Without `--yes` the user is asked; a no ends the command."""
    if dry_run:
        if style != "json":
            print_line("a dry run: nothing was changed")
        return False
    if not yes:
        click.confirm(question, abort=True, err=style == "json")
    return True


def _json(removal: Removal) -> dict[str, Any]:
    return {
        "application": removal.application,
        "whole": removal.whole,
        "commits": removal.commits,
        "bytes": removal.size,
        "topics": [{"topic": topic.topic, "records": topic.records, "bytes": topic.size} for topic in removal.topics],
        "stores": list(removal.stores),
        "read_by": list(removal.readers),
        "error": removal.error,
    }


def _rows(removal: Removal) -> Iterator[list[str]]:
    changelogs = {f"{removal.application}-{store}-changelog": store for store in removal.stores}
    for topic in removal.topics:
        store = changelogs.get(topic.topic)
        what = f"of store {store}" if store else "between subtopologies" if _inner(removal, topic.topic) else ""
        yield [removal.application, topic.topic, what, f"{topic.records:,}", size_text(topic.size)]


def _inner(removal: Removal, topic: str) -> bool:
    return topic.startswith(f"{removal.application}-")


# The preview of `--full-refresh`, and its question.

yes_option: Callable[..., Any] = click.option(
    "--yes", is_flag=True, help="Do not ask before --full-refresh removes anything."
)


def check_going_on(go_on: bool, full_refresh: bool) -> None:
    """Raise click.UsageError if a run is asked both to continue and to start again."""
    if go_on and full_refresh:
        raise click.UsageError("--continue keeps what is committed, which --full-refresh forgets: choose one")


def confirm_full_refresh(
    removals: Sequence[Removal], seeds: Sequence[SeedReplacement], *, yes: bool, drop_appended: bool = False
) -> None:
    """Show on stderr what would be removed, and ask on a terminal. A no ends the command.

    A script is not asked: removed data is computed or seeded again, and appended records stay. With `drop_appended`
    they are lost, so a script must pass `yes`.
    """
    if not removals and not seeds:
        return
    with redirect_stdout(sys.stderr):
        show(removals)
        for seed in seeds:
            print_line(_seed_text(seed, drop_appended))
    lost = drop_appended and any(seed.appended != 0 for seed in seeds)
    if not yes and (lost or (is_terminal(err=True) and sys.stdin is not None and sys.stdin.isatty())):
        click.confirm("Remove this for good, and start again?", abort=True, err=True)


def _seed_text(seed: SeedReplacement, drop_appended: bool) -> str:
    starts = f"topic {seed.topic} starts again with its seed"
    if seed.appended is None:
        return f"{starts}: which of its {counted(seed.records, 'record')} were appended is not known"
    goes = f"{starts}: in place of {counted(seed.records - seed.appended, 'record')} of before"
    appended = counted(seed.appended, "appended record")
    fate = f"; it loses {appended}" if drop_appended else f"; it keeps {appended}, behind it"
    return f"{goes}{fate}" if seed.appended else goes
