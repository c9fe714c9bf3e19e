"""How a run is watched: on the terminal, and by programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from .options import WholeNumber
from .outputs import JsonOutput, Output, TextOutput

if TYPE_CHECKING:
    from ..runtime.driver.reports.events import Observer

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


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of what watches its run: the arguments of `watching`."""
    return _METRICS_PORT(_LOG_FORMAT(command))


class Watching:
    """What a command tells: an Output, whose observer also hands each event to what serves metrics."""

    def __init__(self, output: Output, programs: tuple[Observer, ...]) -> None:
        self.compiling = output.compiling
        self.findings = output.findings
        self.plan = output.plan
        self.seeds = output.seeds
        self.results = output.results
        self._output = output
        self._programs = programs

    @contextmanager
    def shown(self) -> Iterator[Observer]:
        """An observer of the run, until the block ends."""
        from ..runtime.driver.reports.observers import Observers

        with self._output.shown() as observer:
            yield Observers(observer, *self._programs)


@contextmanager
def watching(metrics_port: int | None, log_format: str) -> Iterator[Watching]:
    """Until the block ends, metrics are served and events are logged, as asked for. Raises PortTakenError."""
    with _output(log_format) as output:
        try:
            with _served(metrics_port, output) as programs:
                yield Watching(output, programs)
        except (Exception, KeyboardInterrupt) as error:  # it goes on to `main`, which knows what to print
            output.failed(error)
            raise


@contextmanager
def _output(log_format: str) -> Iterator[Output]:
    if log_format == "text":
        yield TextOutput()
        return
    from ..runtime.driver.reports.json_lines import JsonLines

    output = JsonOutput(JsonLines(sys.stdout))
    with redirect_stdout(sys.stderr):  # whatever a function of the project prints is no event
        yield output


@contextmanager
def _served(port: int | None, output: Output) -> Iterator[tuple[Observer, ...]]:
    if port is None:
        yield ()
        return
    from ..runtime.metrics.endpoint import served

    with served(port) as (statuses, url):
        output.metrics(url)
        yield (statuses,)
