"""Reading stores in a process of its own, before this one opens them: damage of some kinds kills whoever reads it.

A store's rows have checksums, but what lies between the rows has none: of 3,000 flipped bits one made LMDB read where
there is no memory, which ends the process, and each one after it. So when a client's stores were not closed by whoever
had them last, which is how such an end looks from here, all rows of all of them are read in a child. A store at which
it dies is damaged.
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
"""How a process ends that has read what it should not. Any other signal was sent by somebody."""


class StoreCheckError(HeadwaterError):
    """Stores could not be checked: `cause`. It says nothing of the stores."""

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
    """Read these stores, all of each; the paths of those that are damaged, and how. Raises StoreCheckError."""
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
    """What a child process says of the stores, one after the other as far as it came, and how it ended."""
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
    """Of each store how it is damaged, empty where it is not."""
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
    """In the child: answer the request on standard input with a line for each store."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a plugin may print
        for cause in _causes(from_json(_Request, sys.stdin.buffer.read())):
            print(json.dumps(cause), file=answers, flush=True)


if __name__ == "__main__":
    main()
