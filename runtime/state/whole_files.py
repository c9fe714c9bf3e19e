"""Replaces small files as a whole, and removes temporary files of writers that were killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...private_files import opener, path_told
from .directories.machine import started_at


def write_whole(path: Path, text: str, *, durably: bool = False, tidily: bool = True) -> None:
    """Replace a file, so that readers find the old text or the new one. `durably`: the text reaches the disk first.

    Removes temporary files of other processes, which were killed. A process id does not show whether its process still
    runs, because containers that share a folder have their own ids. So a process whose file was removed writes again.
    `tidily`: not for a file that is written all the time beside many others, as this looks at all names of the folder;
    then whoever owns the folder removes what `half_written` finds. Raises OSError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    while True:
        with path_told(temporary), open(temporary, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        try:
            temporary.replace(path)
            break
        except FileNotFoundError:
            continue  # another writer has removed the file; if the whole folder is gone, `open` raises
    for name in os.listdir(path.parent) if tidily else ():
        if name.startswith(f"{path.name}.") and name.rpartition(".")[2].isdecimal():
            (path.parent / name).unlink(missing_ok=True)


def half_written(folder: Path, names: str) -> Iterator[Path]:
    """Files that `write_whole` has left behind because its process was killed. `names`: a pattern of `Path.glob`, of
    the files that were to be replaced.
    """
    for path in folder.glob(f"{names}.*"):
        pid = path.suffix[1:]
        if pid.isdecimal() and started_at(int(pid)) is None:
            yield path
