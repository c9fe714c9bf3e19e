"""What a command that runs topologies prints, as text or as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from ...runtime.driver.reports.event_texts import counted
from .findings import show
from .progress import shown
from .results import show_run, show_seeds, show_trace
from .terminal import tell

if TYPE_CHECKING:
    from ...compiler.diagnostics import Diagnostic
    from ...compiler.outcomes import Compiled
    from ...runtime.changes.plans.plan import Plan
    from ...runtime.driver.reports.events import Observer
    from ...runtime.driver.reports.json_lines import JsonLines
    from ...runtime.driver.reports.results import RunResults
    from ...runtime.ingest.seeds import SeedResult
    from ...runtime.tracing.trace import Trace


class Output(Protocol):
    """Where a command tells what it does, in the order of the methods."""

    def metrics(self, url: str) -> None:
        """Metrics are served there from now on."""

    def compiling(self) -> None:
        """The project is about to be compiled."""

    def findings(self, compiled: Compiled) -> None:
        """What the compiler has found."""

    def plan(self, plan: Plan | None) -> None:
        """What the run will do about what has changed; None if nothing has."""

    def seeds(self, seeded: Sequence[SeedResult]) -> None:
        """What was seeded."""

    def shown(self) -> AbstractContextManager[Observer]:
        """An observer of the run, until the block ends."""

    def results(self, results: RunResults) -> None:
        """How the run has ended."""

    def traced(self, trace: Trace) -> None:
        """Where the time of its epochs went, and that this is in a file."""

    def failed(self, error: Exception | KeyboardInterrupt) -> None:
        """The command ends with an error, which is also printed on stderr."""


class TextOutput:
    """For people."""

    def metrics(self, url: str) -> None:
        """On stderr."""
        tell(f"metrics are at {url}", err=True)

    def compiling(self) -> None:
        """Nothing: a command that does nothing else says nothing of it either."""

    def findings(self, compiled: Compiled) -> None:
        """On stderr, with their lines."""
        show(compiled.diagnostics, compiled.sources, compiled.root, "text")

    def plan(self, plan: Plan | None) -> None:
        """A line on stderr."""
        if plan is not None:
            import click

            from ..commands.plan.texts import in_a_line

            click.echo(in_a_line(plan), err=True)

    def seeds(self, seeded: Sequence[SeedResult]) -> None:
        """As a table."""
        show_seeds(seeded)

    def shown(self) -> AbstractContextManager[Observer]:
        """Live on a terminal, as lines elsewhere."""
        return shown()

    def results(self, results: RunResults) -> None:
        """As tables."""
        show_run(results)

    def traced(self, trace: Trace) -> None:
        """As a table, and a line on stderr."""
        show_trace(trace)

    def failed(self, error: Exception | KeyboardInterrupt) -> None:
        """Nothing more than what is printed on stderr."""


class JsonOutput:
    """For programs: a line for each event, see `docs/json-log.md`."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def metrics(self, url: str) -> None:
        """`metrics_served`."""
        self._lines.metrics_served(url)

    def compiling(self) -> None:
        """`compile_started`."""
        self._lines.compile_started()

    def findings(self, compiled: Compiled) -> None:
        """`finding`, for each."""
        for each in compiled.diagnostics:
            self._finding(each)

    def plan(self, plan: Plan | None) -> None:
        """`planned`."""
        if plan is not None:
            from ..commands.plan.texts import in_a_line

            changes = [
                {"kind": each.kind, "subject": str(each.subject), "verdict": each.verdict.value, "place": each.place}
                for each in plan.changes
            ]
            self._lines.write("info", "planned", in_a_line(plan), {"verdict": plan.verdict.value, "changes": changes})

    def seeds(self, seeded: Sequence[SeedResult]) -> None:
        """`topic_seeded`, for each topic."""
        for each in seeded:
            refused = each.refused.count
            left_out = f", {counted(refused, 'row')} left out" if refused else ""
            message = f"{each.topic}: {each.outcome}, {each.records:,} records{left_out}"
            found = {"topic": each.topic, "records": each.records, "outcome": each.outcome, "refused": refused}
            self._lines.write("warning" if refused else "info", "topic_seeded", message, found)

    @contextmanager
    def shown(self) -> Iterator[Observer]:
        """`run_started`, and the events of the run."""
        self._lines.run_started()
        yield self._lines

    def results(self, results: RunResults) -> None:
        """`application_ended`, for each, and `run_ended`."""
        self._lines.ended(results)

    def traced(self, trace: Trace) -> None:
        """`trace_written`, if it is whole."""
        if trace.failed is None:
            self._lines.trace_written(str(trace.path), trace.epochs, trace.left_out)

    def failed(self, error: Exception | KeyboardInterrupt) -> None:
        """`error`; of an invalid project a `finding` for each."""
        from ...compiler.outcomes import InvalidProjectError

        if isinstance(error, InvalidProjectError):
            for each in error.found.diagnostics:
                self._finding(each)
        self._lines.failed(error)

    def _finding(self, found: Diagnostic) -> None:
        position = {name: value for name, value in asdict(found.position).items() if name != "end_column"}
        facts = {"code": found.code, **position, "hint": found.hint}
        message = f"{found.position}: {found.message}"
        self._lines.write("error" if found.severity.value == "error" else "warning", "finding", message, facts)
