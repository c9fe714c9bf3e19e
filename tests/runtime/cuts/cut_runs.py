"""Has runs made that are killed at any of their system calls, each in a process of its own.

The names of the calls are found by a run that is not killed: there is no list of them. Whatever is done with files is
cut as soon as it is done.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTS = range(8)
"""Parts of all the calls of a run, each for a test of its own: as a whole they take longer than a test may."""

TRIES = 5
"""How many runs may pass by a call that threads beside the loop make at some times only."""


class Program:
    """The process of `program.py`, which does what is asked in processes of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, what: str, path: Path, cut: tuple[str, int, str] | None = None) -> dict[str, Any]:
        """What became of it. `cut`: where it is killed, if it comes there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"what": what, "path": str(path), "cut": cut}), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "raised" not in answer, answer["raised"]
        return answer


class Runs:
    """Has runs made, each in a process of its own; `work` is a folder for them."""

    def __init__(self, work: Path, program: Program) -> None:
        self._work = work
        self.ask = program.ask
        self._number = 0
        self.begun = work / "begun"
        self.ask("begin", self.begun)
        undisturbed = [self.new(), self.new()]
        # What happens in both: threads beside the loop do some things at some times only.
        counts = [Counter[str](self.ask("run", path)["calls"]) for path in undisturbed]
        self.calls = counts[0] & counts[1]
        self.expected = self.ask("look", undisturbed[0])
        self.expected_restored = self.ask("restored", undisturbed[0])

    def new(self) -> Path:
        """A log with input, in a folder of its own."""
        self._number += 1
        path = self._work / f"run-{self._number}"
        shutil.copytree(self.begun, path)
        return path

    def killed(self, path: Path, cut: tuple[str, int, str]) -> bool:
        """Whether a run came to the cut, and was killed there. It has run to its end otherwise."""
        return "killed" in self.ask("run", path, cut)

    def begun_and_killed(self, name: str, numbers: Sequence[int], side: str) -> Path:
        """A folder in which a run was killed at the call, the first of these times that it has reached."""
        for number in numbers:
            path = self.new()
            if self.killed(path, (name, number, side)):
                return path
            shutil.rmtree(path)
        raise AssertionError(f"never reached: {name}, {numbers} {side}")

    def look(self, path: Path, cut: object) -> None:
        """Start again, and see that all is as it has to be."""
        assert self.ask("look", path) == self.expected, cut
        shutil.rmtree(path)

    def look_after_each_call(self, side: str, part: int, of: Sequence[str] = ("*",)) -> None:
        """Kill runs at all calls of such names, each in a run of its own, and look; then with restored stores.

        `part`: one of PARTS, which have the calls in turn.
        """
        names = [name for each in of for name in fnmatch.filter(self.calls, each)]
        cuts = [(name, number, side) for name in names for number in range(1, self.calls[name] + 1)]
        for cut in cuts[part :: len(PARTS)]:
            path = self.new()
            self.killed(path, cut)
            assert self.ask("look", path) == self.expected, cut
            assert self.ask("restored", path) == self.expected_restored, cut
            shutil.rmtree(path)


@contextmanager
def program_of(module: str) -> Iterator[Program]:
    """The program that does what a module of the tests does, see `program.py`."""
    command = [sys.executable, "-m", "headwater.tests.runtime.cuts.program", f"headwater.tests.{module}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Program(process)
        process.kill()


@contextmanager
def runs_of(module: str, work: Path) -> Iterator[Runs]:
    """Runs of what a module does."""
    with program_of(module) as program:
        yield Runs(work, program)
