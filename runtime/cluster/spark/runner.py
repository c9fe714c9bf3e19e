"""The entry of generated runners."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ....errors import INTERRUPTED, HeadwaterError, MachineError
from ....readable_text import readable_traceback, visible
from ...ir.topology import ExpressionEngine, PluginRef, Settings, Topology

if TYPE_CHECKING:
    from ...driver.event_lines import JsonLines
    from ...driver.events import Observer
    from ...driver.results import RunResults


# The entry of a generated `runner.py`: command-line arguments and exit code.


def main(
    topology: Topology, settings: Settings | Callable[[], Settings], arguments: Sequence[str] | None = None
) -> int:
    """Run one topology under `python` or `spark-submit`. Returns the exit code (0 success, 1 failure).

    `settings`: a function if some of them are read from the environment.
    """
    given = _arguments(topology).parse_args(arguments)
    with _log(given.log_format) as log:
        return _main(topology, settings, given, log)


def _main(
    topology: Topology,
    settings: Settings | Callable[[], Settings],
    given: argparse.Namespace,
    log: JsonLines | None,
) -> int:
    from ...observe.tracing import recording_trace

    try:
        with _observer(given.metrics_port, log) as observer:
            if log is not None:
                log.run_started()
            chosen = _with_arguments(settings() if callable(settings) else settings, given)
            with recording_trace(given.trace, chosen, observer) as (settings, watched):
                results = _run(topology, settings, given.until_caught_up, watched)
    except (HeadwaterError, OSError, MemoryError, KeyboardInterrupt) as failed:
        return _report(failed, log)
    except Exception:
        sys.excepthook = readable_traceback
        raise
    if log is not None:
        log.ended(results)
    for result in results.applications:
        if result.error:
            _print_error(result.error)
    return 1 if results.failed else 0


def _report(failed: BaseException, log: JsonLines | None) -> int:
    """Report the error that has ended the run. Returns the exit code."""
    if isinstance(failed, OSError | MemoryError):
        failed = MachineError.from_error(failed)
    if log is not None:
        log.failed(failed)
    if isinstance(failed, KeyboardInterrupt):  # while Spark starts
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    _print_error(failed)
    return failed.exit_code if isinstance(failed, HeadwaterError) else 1


def _print_error(error: object) -> None:
    print(visible(f"error: {error}", lines=True), file=sys.stderr)


@contextmanager
def _log(log_format: str) -> Iterator[JsonLines | None]:
    """The JSON log on stdout, on which nothing else is printed until the block ends; None for text."""
    from ...driver.event_lines import JsonLines

    if log_format == "text":
        yield None
        return
    lines = JsonLines(sys.stdout)
    with redirect_stdout(sys.stderr):
        yield lines


@contextmanager
def _observer(metrics_port: int | None, log: JsonLines | None) -> Iterator[Observer]:
    """The observer of the run. Raises PortTakenError."""
    from ...driver.event_lines import Lines
    from ...driver.events import Observers
    from ...observe.metrics import serving

    observer = log or Lines()
    if metrics_port is None:
        yield observer
        return
    with serving(metrics_port) as (statuses, url):
        if log is None:
            print(f"metrics are at {url}", file=sys.stderr)
        else:
            log.metrics_served(url)
        yield Observers(observer, statuses)


def _arguments(topology: Topology) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Runs {topology.application} until interrupted.")
    parser.add_argument("--until-caught-up", action="store_true", help="end once all committed input is consumed")
    parser.add_argument("--continue", action="store_true", dest="go_on", help="rebuild no result that may continue")
    parser.add_argument("--log-path", type=Path, help="directory of the embedded log")
    parser.add_argument("--state-dir", type=Path, help="directory of the clients' state")
    parser.add_argument("--clients", type=int, help="virtual clients in local mode")
    parser.add_argument("--engine", choices=get_args(ExpressionEngine), help="what computes expressions")
    parser.add_argument("--metrics-port", type=int, help="serve metrics for Prometheus on this port of 127.0.0.1")
    parser.add_argument("--trace", type=Path, help="write a trace of all epochs, for viewers of traces")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="of the events of the run")
    return parser


def _with_arguments(settings: Settings, given: argparse.Namespace) -> Settings:
    """The settings of the profile, overridden by the command line."""
    if given.log_path:
        options = {**settings.log.options, "path": str(given.log_path.resolve())}
        settings = replace(settings, log=PluginRef(settings.log.name, options))
    if given.state_dir:
        settings = replace(settings, state_dir=str(given.state_dir.resolve()))
    if given.clients:
        settings = replace(settings, clients=given.clients)
    if given.engine:
        settings = replace(settings, engine=given.engine)
    if given.go_on:
        settings = replace(settings, go_on=True)
    return settings


def _run(topology: Topology, settings: Settings, until_caught_up: bool, observer: Observer) -> RunResults:
    """Start Spark and run the topology on it. Spark is not started if the topology cannot start."""
    from ...driver.runs import failed_start, run_topologies
    from ...driver.stopping import stopping
    from ...observe.lineage import reporting_lineage
    from .cluster import SparkCluster
    from .job import local_state
    from .jvm import ignoring_a_gone_jvm
    from .session import start_session

    with reporting_lineage(settings.lineage, [topology], observer, until_caught_up=until_caught_up) as watched:
        results = failed_start([topology], settings, local_state(settings), watched, until_caught_up=until_caught_up)
        if results is not None:
            return results
        session = start_session(settings.spark, topology.application)
        with stopping() as stop:
            results = run_topologies(
                [topology],
                settings,
                SparkCluster(session, settings.deadline_ms, in_tasks=settings.engine == "task"),
                until_caught_up=until_caught_up,
                observer=watched,
                stop=stop,
            )
        with ignoring_a_gone_jvm():
            session.stop()
        return results


_ADVICE = re.compile(r'\s*If (?:necessary|you want)\b[^\n]*?\bset "?spark\.[\w.]+"? to [^\n]*?\.(?=\s|$)')


def without_advice(message: str) -> str:
    """A message of Spark without advice to change settings, which Headwater pins: `If necessary set
    "spark.sql.ansi.enabled" to "false" to bypass this error.` Other advice (`Use try_divide ...`) stays.
    """
    return _ADVICE.sub("", message)
