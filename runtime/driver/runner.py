"""The entry of a generated `runner.py`: command-line arguments, signals, exit code."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from ...errors import INTERRUPTED, HeadwaterError, MachineError
from ..environment import EnvironmentValueError, EnvironmentVariableError
from ..topology import PluginRef, Settings, Topology


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that a run can finish its epoch, commit and close clean.

    Must be entered on the main thread after Spark has started, which installs a handler of its own. A second signal
    is not waited for: it ends the process as if this were not here.
    """
    stop = threading.Event()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def main(
    topology: Topology, settings: Settings | Callable[[], Settings], arguments: Sequence[str] | None = None
) -> int:
    """Run one topology by itself, under `python` or `spark-submit`; the exit code (0 fine, 1 failed).

    `settings`: a function where some are looked up in the environment.
    """
    from ..spark.session.gone_jvm import ignoring_a_gone_jvm
    from ..spark.session.session import start_session
    from .application import refused, run_topologies
    from .sentences import Lines

    parser = argparse.ArgumentParser(description=f"Runs {topology.application} until interrupted.")
    parser.add_argument("--until-caught-up", action="store_true", help="end once all committed input is consumed")
    parser.add_argument("--log-path", type=Path, help="folder of the embedded log")
    parser.add_argument("--state-dir", type=Path, help="folder of the clients' state")
    parser.add_argument("--clients", type=int, help="virtual clients in local mode")
    given = parser.parse_args(arguments)
    try:
        settings = settings() if callable(settings) else settings
    except (EnvironmentVariableError, EnvironmentValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if given.log_path:
        options = {**settings.log.options, "path": str(given.log_path.resolve())}
        settings = replace(settings, log=PluginRef(settings.log.name, options))
    if given.state_dir:
        settings = replace(settings, state_dir=str(given.state_dir.resolve()))
    if given.clients:
        settings = replace(settings, clients=given.clients)
    try:
        results = refused([topology], settings, Lines())
        if results is None:
            session = start_session(settings.spark, topology.application)
            with stopping() as stop:
                results = run_topologies(
                    [topology],
                    settings,
                    until_caught_up=given.until_caught_up,
                    observer=Lines(),
                    stop=stop,
                    session=session,
                )
            with ignoring_a_gone_jvm():
                session.stop()
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
