"""Prints tables of results: of seeds and of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...runtime.driver.reports.event_texts import UNFINISHED, counted, first_of, not_carried_out, nothing_in, waiting
from . import tables
from .numbers import RUN_HEADER, RUN_RIGHT, SHARE_HEADER, SHARE_RIGHT, run_cells, share_cells
from .terminal import ERROR, WARNING, named, say, tell

if TYPE_CHECKING:
    from ...runtime.driver.reports.results import RunResults
    from ...runtime.ingest.seeds import SeedResult
    from ...runtime.ingest.sieve import RefusedRows
    from ...runtime.tracing.trace import Trace


_RECOMPUTED = {
    "switched": "its result was computed again, and has taken the place of the old one",
    "unfinished": f"{UNFINISHED}; the next run goes on with it",
}


def show_seeds(seeded: Sequence[SeedResult]) -> None:
    """Print what was seeded, or that no topic has a seed."""
    if not seeded:
        tell("no topic has a seed")
        return
    rows = [(each.topic, f"{each.records:,}", _outcome(each)) for each in seeded]
    tables.show(("topic", "records", "seed"), rows, right=(1,))
    for each in seeded:
        show_refused(each.topic, each.refused)


def show_refused(topic: str, refused: RefusedRows) -> None:
    """Print the rows that were left out, as a warning. Nothing if there are none."""
    if not refused.count:
        return
    say(WARNING, f"{counted(refused.count, 'row')} left out, because {topic} cannot hold them:", err=True)
    for row in refused.first:
        say(f"  {row.text}", err=True)
    if refused.count > len(refused.first):
        say(f"  and {refused.count - len(refused.first):,} more", err=True)


def _outcome(seeded: SeedResult) -> str:
    kept = f"; {counted(seeded.appended, 'appended record')} kept" if seeded.appended else ""
    return f"{seeded.outcome}{kept}"


def show_run(results: RunResults) -> None:
    """Print one row for each application with what was dropped, then where the time of epochs went, and errors."""
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
    tables.show(("application", "status", "records", "commits", "dropped", "run time"), rows, right=(2, 3, 4, 5))
    for each in results.applications:
        for reason, count in sorted(each.dropped.items()):
            kept = f"; see {' or '.join(each.dead_letters)}" if reason.endswith(":dead_letter") else ""
            tell(f"  {each.application}: {counted(count, 'record')} dropped, {reason}{kept}")
        if each.recomputation is not None:
            tell(f"  {each.application}: {_RECOMPUTED[each.recomputation]}")
        if each.waiting:
            tell(f"  {each.application}: {waiting(each.waiting, each.waits_for, each.application)}")
        if each.empty:
            tell(f"  {each.application}: {nothing_in(each.empty)}")
        for sentence in _misplaced(each.placement):
            say(WARNING, f"{each.application}: {sentence}", err=True)
        for sentence in each.lost:
            say(WARNING, f"{each.application}: {sentence}", err=True)
    if spent := list(filter(None, map(run_cells, results.applications))):
        click.echo()
        tables.show(RUN_HEADER, spent, RUN_RIGHT)
    for each in results.applications:
        if each.error:
            raised = each.raised
            say(ERROR, named(each.application, each.error if raised is None else raised.message), err=True)
            if raised is not None and raised.hint is not None:
                say(("  hint: ", "bold"), raised.hint, err=True)
    done = (each.status == "caught_up" and not each.waiting and not each.empty for each in results.applications)
    if not results.records and all(done):
        tell("nothing to do: every application had consumed all its input")


def show_trace(trace: Trace) -> None:
    """Print the parts of each application's epochs with what they took, and where the trace is."""
    for application, shares in trace.shares().items():
        click.echo()
        tell(f"{application}: where the time of its epochs went")
        tables.show(SHARE_HEADER, list(share_cells(shares)), SHARE_RIGHT)
    if trace.failed is None:
        left_out = f", without the oldest {trace.left_out:,}" if trace.left_out else ""
        said = f"{counted(trace.epochs, 'epoch')}{left_out}: open it in https://ui.perfetto.dev"
        tell(f"the trace is in {trace.path}, {said}", err=True)


def _misplaced(placement: Mapping[str, Any] | None) -> Iterator[str]:
    """Warnings about the placement of tasks, see `placement` in `schemas/run_results.json`."""
    if placement is None:
        return
    if error := placement["error"]:
        yield not_carried_out(placement["assignor"], error["message"], error["entries"])
    if left := placement["unassigned"]:
        idle = "it does not run" if len(left) == 1 else "they do not run"
        yield f"assignor {placement['assignor']} gave {first_of(left)} to nobody: {idle}"
