"""A note of where stores stood when a client closed them, so that the next run need not open them to know.

It holds for a store as long as its files are the same: their names, sizes, times and inodes. Another copy that was put
in its place, or a file that somebody has changed, is opened and looked at. Files with locks do not count: whoever only
reads a store may change them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...dataclass_json import parsed
from ...task_id import StoreId
from ..whole_files import write_whole

_NAME = ".closed.json"
_LOCKS = "lock"


def note_closed(directory: Path, positions: Mapping[StoreId, int], place: Callable[[StoreId], Path]) -> None:
    """Note these positions in an application's directory. `place`: where a store is."""
    noted = [[*_named(store), position, _files(place(store))] for store, position in positions.items()]
    write_whole(directory / _NAME, json.dumps(noted))


def closed_at(directory: Path, stores: Iterable[StoreId], place: Callable[[StoreId], Path]) -> dict[StoreId, int]:
    """The positions of those of the stores that are as they were when they were closed."""
    try:
        noted = {(name, partition): (at, files) for name, partition, at, files in parsed(_read(directory))}
    except (OSError, ValueError, TypeError):
        return {}
    found: dict[StoreId, int] = {}
    for store in stores:
        position, files = noted.get(_named(store), (None, None))
        if isinstance(position, int) and files and files == _files(place(store)):
            found[store] = position
    return found


def _read(directory: Path) -> str:
    return (directory / _NAME).read_text()


def _named(store: StoreId) -> tuple[str, int]:
    return store.store, store.partition


def _files(store: Path) -> list[list[Any]]:
    """What tells whether the files of a store are the same; empty if they cannot be looked at."""
    with suppress(OSError):
        return sorted(
            [entry.name, stat.st_size, stat.st_mtime_ns, stat.st_ino]
            for entry in os.scandir(store)
            if not entry.name.lower().startswith(_LOCKS)
            for stat in [entry.stat()]
        )
    return []
