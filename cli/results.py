"""Prints tables of results: of seeds and of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..runtime.driver.reports.event_texts import counted, first_of, not_carried_out, nothing_in, waiting
from . import tables
from .terminal import ERROR, WARNING, say

if TYPE_CHECKING:
    from ..runtime.driver.reports.results import RunResults
    from ..runtime.ingest.seeds import SeedResult


def show_seeds(seeded: Sequence[SeedResult]) -> None:
    """Print what was seeded, or that no topic has a seed."""
    if not seeded:
        click.echo("no topic has a seed")
        return
    rows = [(each.topic, f"{each.records:,}", each.outcome) for each in seeded]
    tables.show(("topic", "records", "seed"), rows, right=(1,))


def show_run(results: RunResults) -> None:
    """Print one row for each application, then dropped records, warnings and errors."""
    rows: list[Sequence[str]] = [
        (
            each.application,
            each.status.replace("_", " "),
            f"{each.records:,}",
            f"{each.commits:,}",
            f"{sum(each.dropped.values()):,}",
            f"{each.seconds:.1f} s",
        )
        for each in results.applications
    ]
    tables.show(("application", "status", "records", "commits", "dropped", "time"), rows, right=(2, 3, 4, 5))
    for each in results.applications:
        for reason, count in sorted(each.dropped.items()):
            click.echo(f"  {each.application}: {counted(count, 'record')} dropped, {reason}")
        if each.waiting:
            click.echo(f"  {each.application}: {waiting(each.waiting, each.waits_for)}")
        if each.empty:
            click.echo(f"  {each.application}: {nothing_in(each.empty)}")
        for sentence in _misplaced(each.placement):
            say(WARNING, f"{each.application}: {sentence}", err=True)
        for sentence in each.lost:
            say(WARNING, f"{each.application}: {sentence}", err=True)
        if each.error:
            say(ERROR, f"{each.application}: {each.error}", err=True)
    done = (each.status == "caught_up" and not each.waiting and not each.empty for each in results.applications)
    if not results.records and all(done):
        click.echo("nothing to do: every application had consumed all its input")


def _misplaced(placement: Mapping[str, Any] | None) -> Iterator[str]:
    """Warnings about the placement of tasks, see `placement` in `schemas/run_results.json`."""
    if placement is None:
        return
    if error := placement["error"]:
        yield not_carried_out(placement["assignor"], error["message"], error["entries"])
    if left := placement["unassigned"]:
        idle = "it does not run" if len(left) == 1 else "they do not run"
        yield f"assignor {placement['assignor']} gave {first_of(left)} to nobody: {idle}"
