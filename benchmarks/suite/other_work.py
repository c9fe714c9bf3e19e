"""How busy other processes keep the machine while something is measured."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from types import TracebackType
from typing import Self

import psutil

MOST_CORES = 0.3
"""With more than so many cores used by others, a figure says too little to stand beside another one."""

LOOK_SECONDS = 2.0
INIT = 1
"""The parent of what has lost its own. Its children that have ended may have been ours, so only it itself counts."""

KERNEL = "kthreadd"
"""The parent of the kernel's threads: what they do, they do for us too, such as writing to disks."""


Known = tuple[int, float]
"""A process: its number, and when it began."""


class Watch:
    """Looks at something every so many seconds in a thread, and at the begin and end of its `with` block."""

    def __init__(self, seconds: float) -> None:
        self._seconds_between = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Look once."""
        raise NotImplementedError

    def _watch(self) -> None:
        while not self._over.wait(self._seconds_between):
            self.look()


class OtherWork(Watch):
    """Processor time of all processes but this one and those below it, for use in a `with` block.

    A process counts together with its children that have ended. So one that begins and ends between two looks is seen
    in its parent. `cores`: how many they have used, in the mean.
    """

    def __init__(self) -> None:
        super().__init__(LOOK_SECONDS)
        self.cores = 0.0
        self._seconds = 0.0
        self._ours: set[Known] = set()
        self._seen: dict[Known, float] = {}
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        self._seen = times_of_others(self._ours)
        self._begun = time.monotonic()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self.cores = self._seconds / max(time.monotonic() - self._begun, 1e-9)

    @property
    def too_many(self) -> bool:
        """Whether others have used more than MOST_CORES."""
        return self.cores > MOST_CORES

    def look(self) -> None:
        """Add up what others have done since the last look."""
        now = times_of_others(self._ours)
        # A process that has ended takes its time to its parent, which is why all differences are added up.
        self._seconds += max(0.0, sum(now.values()) - sum(self._seen.values()))
        self._seen = now


def times_of_others(ours: set[Known]) -> dict[Known, float]:
    """Process -> seconds of processor time of it and of its children that have ended.

    `ours`: processes that were seen below this one before, which may have lost their parents since; those that are
    below it now are added.
    """
    parents: dict[int, int] = {}
    left_out = {os.getpid()}
    found: dict[int, tuple[float, float]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            parents[process.pid] = process.ppid()
            if process.name() == KERNEL:
                left_out.add(process.pid)
            found[process.pid] = (process.create_time(), sum(times[:2] if process.pid == INIT else times[:4]))
    below = {pid for pid in found if left_out & set(_line(pid, parents))}
    ours |= {(pid, found[pid][0]) for pid in below}
    return {(pid, begun): seconds for pid, (begun, seconds) in found.items() if (pid, begun) not in ours}


def _line(pid: int, parents: dict[int, int]) -> list[int]:
    """A process, its parent, the parent of that, and so on."""
    line = [pid]
    while (above := parents.get(line[-1], 0)) and above not in line:
        line.append(above)
    return line
