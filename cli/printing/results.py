"""What a run prints at its end, and the topics that it writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from ...runtime.driver.event_texts import UNFINISHED, counted, first_of, not_carried_out, nothing_in, waiting
from ..options import WholeNumber
from . import tables
from .findings import show
from .progress import shown
from .tables import RUN_HEADER, RUN_RIGHT, SHARE_HEADER, SHARE_RIGHT, run_cells, share_cells
from .terminal import ERROR, WARNING, named, say, tell

if TYPE_CHECKING:
    from ...compiler.diagnostics import Diagnostic
    from ...compiler.outcomes import Compiled
    from ...runtime.changes.plan import Plan
    from ...runtime.driver.events import Observer
    from ...runtime.driver.json_lines import JsonLines
    from ...runtime.driver.results import RunResults
    from ...runtime.ingest.record_form import RefusedRows
    from ...runtime.ingest.seeds import SeedResult
    from ...runtime.observe.tracing import Trace


# Prints tables of results: of seeds and of runs.

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


# What a command that runs topologies prints, as text or as lines of JSON.


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

            from .plan_texts import in_a_line

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
            from .plan_texts import in_a_line

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


# How a run is watched: on the terminal, and by programs.

_METRICS_PORT = click.option(
    "--metrics-port",
    type=WholeNumber(0, 65_535),
    metavar="PORT",
    help="Serve metrics for Prometheus on this port of 127.0.0.1 while it runs; 0: any free one.",
)
_LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="json: one object a line for each event on stdout, and nothing else there.",
)
_TRACE = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what each epoch did when, for Perfetto or chrome://tracing, and print the shares of its parts.",
)


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of what watches its run: the arguments of `watching`."""
    return _TRACE(_METRICS_PORT(_LOG_FORMAT(command)))


class Watching:
    """What a command tells: an Output, whose observer also hands each event to what serves metrics. `trace`: of the
    run, if there is to be one.
    """

    def __init__(self, output: Output, programs: tuple[Observer, ...], trace: Trace | None) -> None:
        self.trace = trace
        self.compiling = output.compiling
        self.findings = output.findings
        self.plan = output.plan
        self.seeds = output.seeds
        self._output = output
        self._programs = programs

    @contextmanager
    def shown(self) -> Iterator[Observer]:
        """An observer of the run, until the block ends."""
        from ...runtime.driver.counters import Observers

        with self._output.shown() as observer:
            yield Observers(observer, *self._programs)

    def results(self, results: RunResults) -> None:
        """How the run has ended, and where its time went if there is a trace."""
        self._output.results(results)
        if self.trace is not None:
            self._output.traced(self.trace)


@contextmanager
def watching(metrics_port: int | None, log_format: str, trace: Path | None) -> Iterator[Watching]:
    """Until the block ends, metrics are served, events logged and epochs traced, as asked for.

    Raises PortTakenError, TraceFileError.
    """
    with _output(log_format) as output:
        try:
            with _served(metrics_port, output) as programs, _traced(trace) as begun:
                yield Watching(output, programs, begun)
        except (Exception, KeyboardInterrupt) as error:  # it goes on to `main`, which knows what to print
            output.failed(error)
            raise


@contextmanager
def _output(log_format: str) -> Iterator[Output]:
    if log_format == "text":
        yield TextOutput()
        return
    from ...runtime.driver.json_lines import JsonLines

    output = JsonOutput(JsonLines(sys.stdout))
    with redirect_stdout(sys.stderr):  # whatever a function of the project prints is no event
        yield output


@contextmanager
def _served(port: int | None, output: Output) -> Iterator[tuple[Observer, ...]]:
    if port is None:
        yield ()
        return
    from ...runtime.observe.metrics import served

    with served(port) as (statuses, url):
        output.metrics(url)
        yield (statuses,)


@contextmanager
def _traced(path: Path | None) -> Iterator[Trace | None]:
    if path is None:
        yield None
        return
    from ...runtime.observe.tracing import Trace

    with Trace(path) as trace:
        yield trace
