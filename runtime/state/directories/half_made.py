"""Folders beside a store in which it is made or removed: `.<folder of the store>_<what>-<process id>`.

A store comes and goes by a rename, so that a crash leaves all of it or nothing. It leaves such a folder, which is
removed once its process is gone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .machine import started_at

_NAME = re.compile(r"\.\w+-(?P<pid>\d{1,9})")

_NOBODY = 0
"""Instead of a process id: no process has it."""


def beside(store: Path, what: str = "") -> Path:
    """This process's own folder beside a store.

    It may be there, left by a killed process with the same id, which is common in containers.
    """
    return _folder(store, what, os.getpid())


def shared_beside(store: Path, what: str) -> Path:
    """A folder beside a store that one process after the other works on, until the client takes its directory again."""
    return _folder(store, what, _NOBODY)


def remove_shared(store: Path) -> None:
    """Remove what several processes have begun to make of a store."""
    for path in store.parent.glob(f".{store.name}_*-{_NOBODY}"):
        shutil.rmtree(path, ignore_errors=True)


def wipe(store: Path) -> None:
    """Remove the folder of a store, if it is there. Only one of two processes does it."""
    doomed = beside(store)
    shutil.rmtree(doomed, ignore_errors=True)
    with suppress(FileNotFoundError):
        store.rename(doomed)
        shutil.rmtree(doomed)


def abandoned(stores: Path) -> Iterator[Path]:
    """The folders that nobody works on, beside all stores below a directory."""
    for path in stores.glob("*/.*-*"):
        found = _NAME.fullmatch(path.name)
        if found is not None and started_at(int(found["pid"])) is None:
            yield path


def _folder(store: Path, what: str, number: int) -> Path:
    return store.with_name(f".{store.name}{what and '_'}{what}-{number}")
