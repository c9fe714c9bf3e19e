"""Small files that are replaced as a whole, and what killed writers have left of them."""

from __future__ import annotations

import os
from pathlib import Path

from ...private_files import opener


def write_whole(path: Path, text: str, *, durably: bool = False) -> None:
    """Replace a file, so that readers find the old text or the new one. `durably`: the text is on the disk before.

    Removes what processes that were killed meanwhile have left. A process id does not tell those from others, as
    containers that share a folder have ids of their own: so a process whose file was taken for a left one writes again.
    Raises OSError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    while True:
        with open(temporary, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        try:
            temporary.replace(path)
            break
        except FileNotFoundError:
            continue  # where the folder is gone, the file cannot be made again
    for name in os.listdir(path.parent):
        if name.startswith(f"{path.name}.") and name.rpartition(".")[2].isdecimal():
            (path.parent / name).unlink(missing_ok=True)
