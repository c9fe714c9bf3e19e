"""Counts what a run does in this process: calls on files, bytes that it reads, and what it asks of its stores.

Nothing in the product knows of it. Numbers and ids in a path become `*`, as where runs are cut (`system_calls`).
"""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from math import inf
from pathlib import Path
from typing import Any

import pytest

from headwater.plugins.registry import Registration
from headwater.runtime.driver import removal
from headwater.runtime.driver import stopping as purging
from headwater.runtime.engine.execution.keyed import groups as codes
from headwater.runtime.state.lmdb.environment import Environment
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.tests.runtime.cuts.system_calls import NUMBERS, kind_of, path_of, path_of_descriptor

UNCOUNTED = ("log/status", "log/paused")
"""Written and looked at by the clock."""


@dataclass
class Counts:
    """How often each thing was done with files below `root`: `<what> <kind of file>` -> how often."""

    root: Path
    done: Counter[str] = field(default_factory=Counter)
    _lock: Any = field(default_factory=threading.Lock)
    _others: threading.local = field(default_factory=threading.local)

    def add(self, what: str, path: str | None = None, times: int = 1) -> None:
        """Count something. `path`: of a file; nothing is counted if it lies elsewhere."""
        if getattr(self._others, "are_at_work", False):
            return
        kind = kind_of(self.root, path) if path is not None else ""
        if kind is None or kind.startswith(UNCOUNTED):
            return
        with self._lock:
            self.done[f"{what} {kind}".strip()] += times

    @contextmanager
    def of_others(self) -> Iterator[None]:
        """What this thread does in the context is not counted."""
        self._others.are_at_work = True
        try:
            yield
        finally:
            self._others.are_at_work = False


def length(text: str) -> int:
    """The bytes of a text in which each number and each id is one byte long: checksums and times differ each time."""
    return len(NUMBERS.sub("0", text).encode())


@contextmanager
def counting(root: Path) -> Iterator[Counts]:
    """Count until the end of the context. `root`: the folder of the log and of the stores."""
    counts = Counts(root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(purging, "PURGE_SECONDS", inf)  # what is done by the clock has no part in it
        patched.setattr(removal, "SEARCH_SECONDS", inf)
        _count_files(counts, patched)
        _count_stores(counts, patched)
        yield counts


@contextmanager
def counting_looks(counts: Counts) -> Iterator[None]:
    """Count the looks for files as well, whether or not they are there; for what does not hang on how long it takes."""

    def looked(path: Any, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        counts.add("look for", path_of(path, dir_fd))

    with pytest.MonkeyPatch.context() as patched:
        for call in ("stat", "listdir", "scandir", "open"):
            _before(patched, os, call, looked)
        _before(patched, builtins, "open", lambda file, *_, **__: looked(file))
        patched.setattr(io, "open", builtins.open)
        yield


def _count_files(counts: Counts, patched: pytest.MonkeyPatch) -> None:
    def synced(_: Any, handle: int) -> None:
        counts.add("fsync", path_of_descriptor(handle))

    def read(found: int, handle: int, *_: Any) -> None:
        counts.add("bytes read", path_of_descriptor(handle), found)

    def opened(_: Any, path: Any, flags: int, *__: Any, dir_fd: int | None = None) -> None:
        changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        counts.add("open to write" if changes else "open to read", path_of(path, dir_fd))

    def opened_file(_: Any, file: Any, mode: str = "r", *__: Any, opener: Any = None, **___: Any) -> None:
        if isinstance(file, str | os.PathLike) and opener is None:  # else it is `os.open` that opens it
            counts.add("open to write" if set(mode) & set("wxa+") else "open to read", path_of(file, None))

    def changed(call: str) -> Callable[..., None]:
        return lambda _, path, *__, dir_fd=None, **___: counts.add(call, path_of(path, dir_fd))

    def moved(call: str) -> Callable[..., None]:
        return lambda _, __, to, *___, dst_dir_fd=None, **____: counts.add(call, path_of(to, dst_dir_fd))

    _after(patched, os, "fsync", synced)
    _after(patched, os, "listdir", lambda _, path: counts.add("list", path_of(path, None)))
    _after(patched, os, "preadv", read)
    _after(patched, os, "open", opened)
    _after(patched, builtins, "open", opened_file)
    patched.setattr(io, "open", builtins.open)
    for call in ("unlink", "mkdir", "rmdir"):
        _after(patched, os, call, changed(call))
    for call in ("link", "rename", "replace"):
        _after(patched, os, call, moved(call))


def _count_stores(counts: Counts, patched: pytest.MonkeyPatch) -> None:
    def applied(_: Any, store: LmdbStore, changes: Any, *__: Any) -> None:
        values = [value for _, values in changes for value in values]
        counts.add("store: puts", times=sum(value is not None for value in values))
        counts.add("store: deletions", times=values.count(None))

    def got(found: Sequence[Any], *_: Any) -> None:
        counts.add("store: gets", times=len(found))

    def begun(_: Any, __: Environment, *, write: bool = False) -> None:
        counts.add("store: write transactions" if write else "store: read transactions")

    _after(patched, Registration, "create", lambda *_: counts.add("plugins: made"))
    _after(patched, LmdbStore, "apply", applied)
    _after(patched, LmdbStore, "get_many", got)
    _after(patched, Environment, "begin", begun)
    _after(patched, Environment, "__init__", lambda *_, **__: counts.add("store: opened"))
    _after(patched, Environment, "sync", lambda *_: counts.add("store: synced"))
    _before(patched, codes, "timed", lambda part: counts.add(f"rows by key: {part}"))


def _before(patched: pytest.MonkeyPatch, target: Any, name: str, note: Callable[..., None]) -> None:
    """Have `note` called with the arguments of a function."""
    original = getattr(target, name)

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return original(*args, **kwargs)

    patched.setattr(target, name, called)


def _after(patched: pytest.MonkeyPatch, target: Any, name: str, note: Callable[..., None]) -> None:
    """Have `note` called with what a function has returned, and with its arguments. One that fails did nothing."""
    original = getattr(target, name)

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        note(found, *args, **kwargs)
        return found

    patched.setattr(target, name, called)
