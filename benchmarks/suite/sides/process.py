"""The two sides of a measurement are processes. Each works only when it is told to, so that they can take turns.

A line on its stdin has the numbers of epochs; the answer is a line `@` with the seconds that these took. It says `@`
when it is ready, and ends with its stdin.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

ROOT = Path(__file__).parents[3]

ENDING_SECONDS = 20.0
"""How long a side waits at its end for what it has begun."""

MOST_BYTES = 20_000
"""How much is told of what a side said that has ended by itself."""

MOST_SECONDS = 300.0
"""A side that answers no sooner is ended, so that the measurements behind it have their turn."""


@dataclass(frozen=True)
class Turn:
    """One epoch of a side. `seconds`: what it says itself. `waited`: from when it was told until it had answered.

    `cpu`: seconds of processor time of all its processes.
    """

    seconds: float
    waited: float
    cpu: float


class SideError(Exception):
    """A side has ended by itself. Its message has what that said."""


class Worker(Protocol):
    """What a side does."""

    def take(self, epochs: Sequence[int]) -> float:
        """Seconds for the records of some epochs."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def serve(start: Callable[[], Worker]) -> None:
    """Of a side's process: start, and work off what comes on stdin. What others print is told if it fails."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = start()
    print("@", file=answers, flush=True)
    try:
        for line in sys.stdin:
            print("@", worker.take([int(number) for number in line.split()]), file=answers, flush=True)
    finally:
        worker.close()
        end_all_below()


def end_all_below() -> None:
    """End Spark's JVM and all else that this process has begun, and wait: as orphans nobody knows whose they were."""
    below = psutil.Process().children(recursive=True)
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(below, ENDING_SECONDS)


class Side:
    """A process that takes turns, for use in a `with` block. `module` calls `serve`."""

    def __init__(self, module: str, *arguments: str, most_seconds: float = MOST_SECONDS) -> None:
        self._most_seconds = most_seconds
        self._killed = False
        self._command = [sys.executable, "-m", module, *arguments]
        # Spark warns of much at each start, and py4j of a JVM that has ended first: that matters where a side fails.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - `__exit__` closes it
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            bufsize=1,
        )
        self._tree = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        self._answer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(self._most_seconds)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._said.close()

    @property
    def pid(self) -> int:
        """Of the process above all others of this side."""
        return self._process.pid

    def take(self, *epochs: int) -> Turn:
        """Have it take an epoch, or several that are there at once. Raises SideError."""
        before = processor_seconds(self._tree)
        assert self._process.stdin is not None
        begun = time.perf_counter()
        print(*epochs, file=self._process.stdin, flush=True)
        seconds = float(self._answer())
        waited = time.perf_counter() - begun
        return Turn(seconds, waited, processor_seconds(self._tree) - before)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        deadline = threading.Timer(self._most_seconds, self._kill)
        deadline.start()
        try:
            for line in self._process.stdout:
                if line.startswith("@"):
                    return line[1:].strip()
        finally:
            deadline.cancel()
        command, code = " ".join(self._command), self._process.wait()
        if self._killed:
            raise SideError(f"{command} had no answer within {self._most_seconds:g} s, and was ended{self._words()}")
        raise SideError(f"{command} has ended with {code}{self._words()}")

    def _words(self) -> str:
        """The end of what it said."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - MOST_BYTES))
        return f":\n{self._said.read().decode(errors='replace').rstrip()}" if size else ""

    def _kill(self) -> None:
        """End the process and all below it, such as Spark's JVM, which would hold the answers open."""
        self._killed = True
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*self._tree.children(recursive=True), self._tree]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def processor_seconds(root: psutil.Process) -> float:
    """Processor time of a process and all below it, also of those that have ended."""
    return sum(_times([root, *root.children(recursive=True)]))


def _times(processes: Sequence[psutil.Process]) -> list[float]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(sum(process.cpu_times()[:4]))
    return found
