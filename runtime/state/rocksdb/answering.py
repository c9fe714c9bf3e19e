"""The thread that answers other processes which need a store that this one writes."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

IDLE_S = 1.0
"""After which a store that is not used is brought to the disk, in seconds."""


class Open(Protocol):
    """What is open in this process."""

    def listened_to(self) -> Mapping[int, Path] | None:
        """The stores that others may ask for, by the files that can be read then; None if nothing is open."""
        ...

    def let_go(self, directory: Path) -> None:
        """Close a store for others."""
        ...

    def rest(self) -> None:
        """Bring to the disk what has not been used for a moment."""
        ...


class Answering:
    """Runs as long as something is open. `lock` protects what is open."""

    def __init__(self, what: Open, lock: threading.RLock) -> None:
        self._open = what
        self._lock = lock
        self._thread: threading.Thread | None = None
        self._woken = (-1, -1)

    def opened(self) -> None:
        """Something was opened. Call it with the lock held."""
        if self._thread is None:
            self._woken = os.pipe()
            self._thread = threading.Thread(target=self._run, name="headwater-rocksdb", daemon=True)
            self._thread.start()
        else:
            os.write(self._woken[1], b"!")

    def forget(self) -> None:
        """In a forked process: there is no thread, whatever there was before."""
        if self._thread is not None:
            self._end()

    def _end(self) -> None:
        self._thread = None
        for end in self._woken:
            os.close(end)

    def _run(self) -> None:
        while True:
            with self._lock:
                stores = self._open.listened_to()
                if stores is None:
                    if self._thread is threading.current_thread():
                        self._end()
                    return
                woken = self._woken[0]
            poll = select.poll()
            for file in (woken, *stores):
                poll.register(file, select.POLLIN)
            for file, _ in poll.poll(IDLE_S * 1000):
                if file == woken:
                    os.read(woken, 4096)
                elif file in stores:
                    self._open.let_go(stores[file])
            self._open.rest()
