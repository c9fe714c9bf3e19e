"""Tables of results: of seeds, of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from . import tables

if TYPE_CHECKING:
    from ..project import Ran, Seeded


def show_seeds(seeded: Seeded) -> None:
    """What was seeded; a line where nothing had to be."""
    if not seeded.topics:
        click.echo("no topic has a seed")
        return
    rows = [(each.topic, f"{each.records:,}", each.status) for each in seeded.topics]
    click.echo(tables.text(("topic", "records", "seed"), rows, right=(1,)))


def show_run(ran: Ran) -> None:
    """One row for each application, then what went wrong or was dropped."""
    rows: list[Sequence[str]] = [
        (
            each.application,
            each.status.replace("_", " "),
            f"{each.records:,}",
            f"{each.commits:,}",
            f"{sum(each.dropped.values()):,}",
            f"{each.seconds:.1f} s",
        )
        for each in ran.results.applications
    ]
    click.echo(
        tables.text(("application", "status", "records", "commits", "dropped", "time"), rows, right=(2, 3, 4, 5))
    )
    for each in ran.results.applications:
        for reason, count in sorted(each.dropped.items()):
            click.echo(f"  {each.application}: {count:,} records dropped, {reason}")
        if each.waiting:
            click.echo(f"  {each.application}: {each.waiting:,} records wait for {', '.join(each.waits_for)}")
        if each.error:
            click.secho("error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(f"{each.application}: {each.error}", err=True)
    if (
        not ran.results.failed
        and not ran.results.records
        and not any(each.waiting for each in ran.results.applications)
    ):
        click.echo("nothing to do: every application had consumed all its input")
