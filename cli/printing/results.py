"""Prints the result of a run and the topics that it has written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...readable_text import counted, first_of
from ...runtime.driver.client_events import AssignmentFailed
from ...runtime.driver.events import UNFINISHED, NothingToRead, Observers, Waiting
from ..options import WholeNumber
from . import tables
from .findings import print_diagnostics
from .progress import shown
from .tables import RUN_HEADER, RUN_RIGHT, SHARE_HEADER, SHARE_RIGHT, run_cells, share_cells
from .terminal import ERROR, WARNING, print_line, print_styled, with_name

if TYPE_CHECKING:
    from ...api.project import Project
    from ...compiler.diagnostics import Diagnostic
    from ...compiler.outcomes import Compiled
    from ...runtime.changes.plan import Plan
    from ...runtime.driver.event_lines import JsonLines
    from ...runtime.driver.events import Observer
    from ...runtime.driver.results import ApplicationResult, RunResults
    from ...runtime.ingest.record_form import RefusedRows
    from ...runtime.ingest.seeds import SeedResult
    from ...runtime.observe.tracing import Trace


# Tables of the results of seeds and runs.

_RECOMPUTED = {
    "switched": "its result was rebuilt, and has replaced the old one",
    "unfinished": f"{UNFINISHED}; the next run resumes it",
}


def show_seeds(seeded: Sequence[SeedResult]) -> None:
    """Print what was seeded, or that no topic has a seed."""
    if not seeded:
        print_line("no topic has a seed")
        return
    rows = [(seed.topic, f"{seed.records:,}", _outcome(seed)) for seed in seeded]
    tables.show(("topic", "records", "seed"), rows, right=(1,))
    for seed in seeded:
        show_skipped(seed.topic, seed.refused)


def show_skipped(topic: str, refused: RefusedRows) -> None:
    """Print skipped rows as a warning; nothing if no row was skipped."""
    if not refused.count:
        return
    print_styled(WARNING, f"{counted(refused.count, 'row')} skipped: {topic} cannot hold them:", err=True)
    for row in refused.first:
        print_styled(f"  {row.text}", err=True)
    if refused.count > len(refused.first):
        print_styled(f"  and {refused.count - len(refused.first):,} more", err=True)


def _outcome(seeded: SeedResult) -> str:
    kept = f"; {counted(seeded.appended, 'appended record')} kept" if seeded.appended else ""
    return f"{seeded.outcome}{kept}"


def show_run(results: RunResults) -> None:
    """Print a row for each application, its dropped records, where the time of its epochs went, and its errors."""
    rows: list[Sequence[str]] = [
        (
            result.application,
            result.status.replace("_", " "),
            f"{result.records:,}",
            f"{result.commits:,}",
            f"{sum(result.dropped.values()):,}",
            f"{result.seconds:.1f} s",
        )
        for result in results.applications
    ]
    tables.show(("application", "status", "records", "commits", "dropped", "run time"), rows, right=(2, 3, 4, 5))
    for result in results.applications:
        for reason, count in sorted(result.dropped.items()):
            kept = f"; see {' or '.join(result.dead_letters)}" if reason.endswith(":dead_letter") else ""
            print_line(f"  {result.application}: {counted(count, 'record')} dropped, {reason}{kept}")
        if result.recomputation is not None:
            print_line(f"  {result.application}: {_RECOMPUTED[result.recomputation]}")
        if result.waiting:
            print_line(f"  {Waiting(result.application, result.waiting, result.waits_for).text}")
        if result.empty:
            print_line(f"  {NothingToRead(result.application, result.empty).text}")
        for sentence in (*_misplaced(result), *result.lost):
            print_styled(WARNING, f"{result.application}: {sentence}", err=True)
    if spent := list(filter(None, map(run_cells, results.applications))):
        click.echo()
        tables.show(RUN_HEADER, spent, RUN_RIGHT)
    for result in results.applications:
        if result.error:
            raised = result.raised
            message = result.error if raised is None else raised.message
            print_styled(ERROR, with_name(result.application, message), err=True)
            if raised is not None and raised.hint is not None:
                print_styled(("  hint: ", "bold"), raised.hint, err=True)
    done = (result.status == "caught_up" and not result.waiting and not result.empty for result in results.applications)
    if not results.records and all(done):
        print_line("nothing to do: every application has consumed all its input")


def show_trace(trace: Trace) -> None:
    """Print the time that the parts of each application's epochs took, and the path of the trace."""
    for application, shares in trace.shares().items():
        click.echo()
        print_line(f"{application}: where the time of its epochs went")
        tables.show(SHARE_HEADER, list(share_cells(shares)), SHARE_RIGHT)
    if trace.failed is None:
        left_out = f", without the oldest {trace.left_out:,}" if trace.left_out else ""
        details = f"{counted(trace.epochs, 'epoch')}{left_out}: open it in https://ui.perfetto.dev"
        print_line(f"the trace is in {trace.path}, {details}", err=True)


def _misplaced(result: ApplicationResult) -> Iterator[str]:
    """Warnings about the placement of tasks: `placement` in `schemas/run_results.json`."""
    placement = result.placement
    if placement is None:
        return
    if error := placement["error"]:
        yield AssignmentFailed(result.application, placement["assignor"], error["message"], error["entries"]).said
    if unassigned := placement["unassigned"]:
        idle = "it does not run" if len(unassigned) == 1 else "they do not run"
        yield f"assignor {placement['assignor']} gave {first_of(unassigned)} to no client: {idle}"


# The output of a command that runs topologies, as text or as lines of JSON.


class Output:
    """Prints what a command does, as text for people. The methods are called in this order.

    `observers`: further observers of the run. `trace`: of the run; None without one.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.trace: Trace | None = None

    def metrics(self, url: str) -> None:
        """Metrics are now served at this URL."""
        print_line(f"metrics are at {url}", err=True)

    def compiled(self, project: Project) -> None:
        """Compile the project and print its diagnostics. An error in its files ends the command."""
        compiled = project.compile(check=False)
        self.findings(compiled)
        if not compiled.ok:
            raise SystemExit(1)

    def findings(self, compiled: Compiled) -> None:
        """The diagnostics of the compiler."""
        print_diagnostics(compiled.diagnostics, compiled.sources, compiled.root, "text")

    def plan(self, plan: Plan | None) -> None:
        """What the run will do about changes; None if nothing has changed."""
        if plan is not None:
            from .plan_texts import in_a_line

            click.echo(in_a_line(plan), err=True)

    def seeds(self, seeded: Sequence[SeedResult]) -> None:
        """The seeded topics."""
        show_seeds(seeded)

    @contextmanager
    def shown(self) -> Iterator[Observer]:
        """An observer of the run, until the block ends."""
        with self._observer() as observer:
            yield Observers(observer, *self.observers)

    def _observer(self) -> AbstractContextManager[Observer]:
        return shown()

    def results(self, results: RunResults) -> None:
        """The results of the run; with a trace, where the time of its epochs went, and the path of the trace."""
        show_run(results)
        if self.trace is not None:
            show_trace(self.trace)

    def failed(self, error: Exception | KeyboardInterrupt) -> None:
        """The command ends with an error, which `main` prints on stderr."""


class JsonOutput(Output):
    """A line of JSON for each event, for programs: see `docs/json-log.md`."""

    def __init__(self, lines: JsonLines) -> None:
        super().__init__()
        self._lines = lines

    def metrics(self, url: str) -> None:
        """`metrics_served`."""
        self._lines.metrics_served(url)

    def compiled(self, project: Project) -> None:
        """`compile_started`, then `finding` for each diagnostic."""
        self._lines.write("info", "compile_started", "compiling the project", {})
        super().compiled(project)

    def findings(self, compiled: Compiled) -> None:
        """`finding`, for each diagnostic."""
        for diagnostic in compiled.diagnostics:
            self._finding(diagnostic)

    def plan(self, plan: Plan | None) -> None:
        """`planned`."""
        if plan is not None:
            from .plan_texts import in_a_line

            changes = [
                {
                    "kind": change.kind,
                    "subject": str(change.subject),
                    "verdict": change.verdict.value,
                    "place": change.place,
                }
                for change in plan.changes
            ]
            self._lines.write("info", "planned", in_a_line(plan), {"verdict": plan.verdict.value, "changes": changes})

    def seeds(self, seeded: Sequence[SeedResult]) -> None:
        """`topic_seeded`, for each topic."""
        for seed in seeded:
            refused = seed.refused.count
            skipped = f", {counted(refused, 'row')} skipped" if refused else ""
            message = f"{seed.topic}: {seed.outcome}, {seed.records:,} records{skipped}"
            fields = {"topic": seed.topic, "records": seed.records, "outcome": seed.outcome, "refused": refused}
            self._lines.write("warning" if refused else "info", "topic_seeded", message, fields)

    @contextmanager
    def _observer(self) -> Iterator[Observer]:
        """`run_started`, then the events of the run."""
        self._lines.run_started()
        yield self._lines

    def results(self, results: RunResults) -> None:
        """`application_ended` for each application, `run_ended`, and `trace_written` if there is a complete trace."""
        self._lines.ended(results)
        trace = self.trace
        if trace is not None and trace.failed is None:
            values = {"path": str(trace.path), "epochs": trace.epochs, "left_out": trace.left_out}
            self._lines.write("info", "trace_written", f"the trace is in {trace.path}", values)

    def failed(self, error: Exception | KeyboardInterrupt) -> None:
        """`error`; for an invalid project, a `finding` for each diagnostic first."""
        from ...compiler.outcomes import InvalidProjectError

        if isinstance(error, InvalidProjectError):
            for diagnostic in error.found.diagnostics:
                self._finding(diagnostic)
        self._lines.failed(error)

    def _finding(self, diagnostic: Diagnostic) -> None:
        position = {name: value for name, value in asdict(diagnostic.position).items() if name != "end_column"}
        fields = {"code": diagnostic.code, **position, "hint": diagnostic.hint}
        message = f"{diagnostic.position}: {diagnostic.message}"
        self._lines.write("error" if diagnostic.severity.value == "error" else "warning", "finding", message, fields)


# Options that let people and programs watch a run.

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
    """Give a command the options for watching its run: the arguments of `watching`."""
    return _TRACE(_METRICS_PORT(_LOG_FORMAT(command)))


@contextmanager
def watching(metrics_port: int | None, log_format: str, trace: Path | None) -> Iterator[Output]:
    """Until the block ends, serve metrics, log events and trace epochs, as requested.

    Raises PortTakenError, TraceFileError.
    """
    with ExitStack() as stack:
        output = Output()
        if log_format == "json":
            from ...runtime.driver.event_lines import JsonLines

            output = JsonOutput(JsonLines(sys.stdout))
            stack.enter_context(redirect_stdout(sys.stderr))  # output of a project's functions is no event
        try:
            with ExitStack() as served:
                if metrics_port is not None:
                    from ...runtime.observe.metrics import serving

                    statuses, url = served.enter_context(serving(metrics_port))
                    output.metrics(url)
                    output.observers = (statuses,)
                if trace is not None:
                    from ...runtime.observe.tracing import Trace

                    output.trace = served.enter_context(Trace(trace))
                yield output
        except (Exception, KeyboardInterrupt) as error:  # `main` prints it
            output.failed(error)
            raise
