"""Ends this process at one of its system calls on files: just before it, or just after.

Nothing in the product knows of it. The functions of `os` that change files are replaced in this process, and so is
`open` for writing. Each call has a name that says what it does to which kind of file: `link commits/test-app/*.json`.
Numbers and ids in a path become `*`, so that the names of two runs are the same.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from headwater.runtime.state.lmdb.store import LmdbStore

BEFORE, AFTER = "before", "after"
ANY = "*"

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{6,}|\d+")
"""Numbers and ids."""


@dataclass(frozen=True)
class Cut:
    """Where to end: `before` or `after` the call with this name (`ANY`), when it comes the so-many-th time (from 1)."""

    name: str
    number: int
    side: str

    def is_here(self, made: Sequence[str], counts: Counter[str]) -> bool:
        """Whether the last of the calls that were made is the one."""
        if self.name == ANY:
            return len(made) == self.number
        return made[-1] == self.name and counts[self.name] == self.number


@dataclass
class Calls:
    """The calls of this process on files under `root`, in their order. `cut`: where the process ends."""

    root: Path
    cut: Cut | None = None
    made: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _lock: Any = field(default_factory=threading.RLock)

    def around(self, call: str, path: str | None, original: Callable[[], Any]) -> Any:
        """Make a call of the system, unless the process ends before it or after it."""
        name = self._name(call, path)
        if name is None:
            return original()
        with self._lock:
            self.made.append(name)
            self.counts[name] += 1
            here = self.cut is not None and self.cut.is_here(self.made, self.counts)
        if here and self.cut is not None and self.cut.side == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return original()
        finally:  # a call that fails is one too
            if here:
                os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, call: str, path: str | None) -> str | None:
        kind = None if path is None else kind_of(self.root, path)
        return None if kind is None else f"{call} {kind}"


def kind_of(root: Path, path: str) -> str | None:
    """The path of a file from `root` on, with `*` for numbers and ids; None if it does not lie there."""
    if not path.startswith(f"{root}/"):
        return None
    return re.sub(r"[*-]*[*]", "*", NUMBERS.sub("*", path.removeprefix(f"{root}/")))


def watch(calls: Calls) -> None:
    """Have all calls of this process go through `calls`, from now on and until it ends."""
    for call in ("fsync", "fdatasync", "ftruncate", "fchmod", "pwrite"):
        _replace(call, calls, lambda args, _: path_of_descriptor(args[0]))
    for call in ("unlink", "remove", "rmdir", "mkdir", "truncate"):
        _replace(call, calls, lambda args, kwargs: path_of(args[0], kwargs.get("dir_fd")))
    for call in ("link", "rename", "replace"):
        _replace(call, calls, lambda args, kwargs: path_of(args[1], kwargs.get("dst_dir_fd")))
    _replace("open", calls, lambda args, kwargs: path_of(args[0], kwargs.get("dir_fd")) if args[1] & _WRITES else None)
    plain_open = builtins.open

    @wraps(plain_open)
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        path = path_of(file, None) if set(mode) & set("wxa+") and isinstance(file, str | os.PathLike) else None
        # With an opener it is `os.open` that makes the file.
        path = None if kwargs.get("opener") else path
        return calls.around("open", path, lambda: plain_open(file, mode, *args, **kwargs))

    builtins.open = io.open = opened  # type: ignore[assignment]
    _watch_stores(calls)


def _watch_stores(calls: Calls) -> None:
    """LMDB writes its files itself, and its transactions are whole or did not happen: so each counts as one call."""
    apply = LmdbStore.apply

    @wraps(apply)
    def applied(store: LmdbStore, *args: Any, **kwargs: Any) -> None:
        calls.around("apply", str(store._directory), lambda: apply(store, *args, **kwargs))

    LmdbStore.apply = applied  # type: ignore[method-assign]


def _replace(call: str, calls: Calls, where: Callable[[Any, Any], str | None]) -> None:
    original = getattr(os, call)

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        return calls.around(call, where(args, kwargs), lambda: original(*args, **kwargs))

    setattr(os, call, called)


def path_of(path: Any, directory: int | None) -> str | None:
    """The whole path of what a call of the system is given. `directory`: the descriptor that it is relative to."""
    if isinstance(path, int):
        return path_of_descriptor(path)
    text = os.fsdecode(path)
    if directory is not None and not os.path.isabs(text):
        text = f"{path_of_descriptor(directory)}/{text}"
    return os.path.abspath(text)


def path_of_descriptor(descriptor: int) -> str | None:
    """The path of an open file; None if the system does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
