"""How a run is watched: on the terminal, and by programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import WholeNumber
from .outputs import JsonOutput, Output, TextOutput

if TYPE_CHECKING:
    from ...runtime.driver.reports.events import Observer
    from ...runtime.driver.reports.results import RunResults
    from ...runtime.tracing.trace import Trace

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
        from ...runtime.driver.reports.observers import Observers

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
    from ...runtime.driver.reports.json_lines import JsonLines

    output = JsonOutput(JsonLines(sys.stdout))
    with redirect_stdout(sys.stderr):  # whatever a function of the project prints is no event
        yield output


@contextmanager
def _served(port: int | None, output: Output) -> Iterator[tuple[Observer, ...]]:
    if port is None:
        yield ()
        return
    from ...runtime.metrics.endpoint import served

    with served(port) as (statuses, url):
        output.metrics(url)
        yield (statuses,)


@contextmanager
def _traced(path: Path | None) -> Iterator[Trace | None]:
    if path is None:
        yield None
        return
    from ...runtime.tracing.trace import Trace

    with Trace(path) as trace:
        yield trace
