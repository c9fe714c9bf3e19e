"""Reads stores in a child process before this process opens them, because some damage kills the process that reads.

The rows of a store have checksums, but LMDB's structures between them have none. One of 3,000 flipped bits made LMDB
read unmapped memory. That ends the process, and every later one that reads the store. After such an end the stores are
not marked as closed. So if a client's stores were not closed, a child process reads all rows of all of them. A store at
which the child dies is damaged.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError
from ..chosen_plugins import ChosenPlugins, Origin
from ..dataclass_json import from_json, to_json
from ..state.store import StoreDamagedError
from ..topology import Store

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
"""Signals that end a process after an invalid read. Any other signal came from outside."""


class StoreCheckError(HeadwaterError):
    """The check itself failed: `cause`. The stores may be intact."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the stores that were not closed could not be checked: {cause}", "run again")
        self.cause = cause


@dataclass(frozen=True)
class Kept:
    """A store and its directory."""

    store: Store
    path: str


@dataclass(frozen=True)
class _Request:
    plugins: Origin
    stores: tuple[Kept, ...]


def damaged(stores: Sequence[Kept], plugins: Origin) -> dict[str, str]:
    """Read all rows of these stores. Returns the path of each damaged store with the cause. Raises StoreCheckError."""
    found: dict[str, str] = {}
    left = list(stores)
    while left:
        causes, ended = _child(_Request(plugins, tuple(left)))
        found |= {kept.path: cause for kept, cause in zip(left, causes, strict=False) if cause}
        left = left[len(causes) :]
        if ended == 0:
            break
        if -ended not in _CRASHES or not left:
            raise StoreCheckError(f"the process that read them ended with {_ending(ended)}")
        found[left.pop(0).path] = f"whoever reads its file is ended by the system ({_ending(ended)})"
    return found


def _child(request: _Request) -> tuple[list[str], int]:
    """The answers of a child process, as far as it came, and how it ended."""
    child = subprocess.run(
        [sys.executable, "-m", __name__],
        input=to_json(request).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # as Spark's workers have it, not their variable
        start_new_session=True,  # Ctrl-C is for the run
        check=False,
    )
    return [json.loads(line) for line in child.stdout.splitlines()], child.returncode


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _causes(request: _Request) -> Iterator[str]:
    """How each store is damaged; empty if it is not."""
    plugins = ChosenPlugins(request.plugins)
    for kept in request.stores:
        try:
            store = plugins.backend(kept.store).open(Path(kept.path))
            _ = store.position
            for _ in store.range(None, None):
                pass
            yield ""
        except StoreDamagedError as error:
            yield error.cause


def main() -> None:
    """In the child: answer the request on standard input with one line for each store."""
    # A crash is expected here and should leave no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a plugin may print
        for cause in _causes(from_json(_Request, sys.stdin.buffer.read())):
            print(json.dumps(cause), file=answers, flush=True)


if __name__ == "__main__":
    main()
