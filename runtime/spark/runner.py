"""The entry of a generated `runner.py`: command-line arguments and exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import INTERRUPTED, HeadwaterError, MachineError
from ..topology import PluginRef, Settings, Topology

if TYPE_CHECKING:
    from ..driver.reports.results import RunResults


def main(
    topology: Topology, settings: Settings | Callable[[], Settings], arguments: Sequence[str] | None = None
) -> int:
    """Run one topology under `python` or `spark-submit`. Returns the exit code (0 success, 1 failure).

    `settings`: a function if some of them are read from the environment.
    """
    given = _arguments(topology).parse_args(arguments)
    try:
        settings = settings() if callable(settings) else settings
        results = _run(topology, _with_arguments(settings, given), given.until_caught_up)
    except HeadwaterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, MemoryError) as failed:
        print(f"error: {MachineError.of(failed)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while Spark starts
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    for result in results.applications:
        if result.error:
            print(f"error: {result.error}", file=sys.stderr)
    return 1 if results.failed else 0


def _arguments(topology: Topology) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Runs {topology.application} until interrupted.")
    parser.add_argument("--until-caught-up", action="store_true", help="end once all committed input is consumed")
    parser.add_argument("--log-path", type=Path, help="folder of the embedded log")
    parser.add_argument("--state-dir", type=Path, help="folder of the clients' state")
    parser.add_argument("--clients", type=int, help="virtual clients in local mode")
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
    return settings


def _run(topology: Topology, settings: Settings, until_caught_up: bool) -> RunResults:
    """Start Spark and run the topology on it. If the log refuses the topology, Spark is not started."""
    from ..driver.application import run_topologies
    from ..driver.refused import refused
    from ..driver.reports.event_texts import Lines
    from ..driver.stopping import stopping
    from .clients import local_state
    from .cluster import SparkCluster
    from .session.gone_jvm import ignoring_a_gone_jvm
    from .session.session import start_session

    results = refused([topology], settings, local_state(settings), Lines(), until_caught_up=until_caught_up)
    if results is not None:
        return results
    session = start_session(settings.spark, topology.application)
    with stopping() as stop:
        results = run_topologies(
            [topology],
            settings,
            SparkCluster(session, settings.deadline_ms),
            until_caught_up=until_caught_up,
            observer=Lines(),
            stop=stop,
        )
    with ignoring_a_gone_jvm():
        session.stop()
    return results
