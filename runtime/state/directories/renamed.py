"""The stores of an application that was renamed: their directories get its new name, so nothing is restored."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from .directory import StateDirectory
from .process_file import ProcessFile


def take_over_renamed(
    state_dir: Path,
    application: str,
    former: Collection[str],
    incarnation: str,
    client: str = "*",
    *,
    of_the_gone: bool = False,
) -> None:
    """Give an application the directories that it had on this machine under `former` names.

    `incarnation`: its own. Another application may have taken a former name since: its directories have another one.
    `client`: whose, or a pattern. `of_the_gone`: only those whose owners are gone; else the caller waits for them.
    Each is one rename. Raises LockError where one is in use.
    """
    for name in sorted(former) if incarnation else ():
        for path in sorted(state_dir.glob(f"{client}/{name}")):
            found, target = ProcessFile.read(path), path.with_name(application)
            if found is None or found.incarnation != incarnation or target.exists():
                continue
            if of_the_gone and found.owner.is_alive():
                continue
            with StateDirectory(state_dir, path.parent.name, name).locked():
                path.rename(target)
