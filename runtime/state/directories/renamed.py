"""The stores of an application that was renamed: their directories get its new name, so nothing is restored."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path

from ....private_files import make_folder
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
    `client`: whose, or a pattern. `of_the_gone`: only those whose owners are gone, for a choice among all that are
    free; else the caller waits for them. Each is one rename. Raises LockError where one is in use.
    """
    for name in sorted(former) if incarnation else ():
        for path in sorted(state_dir.glob(f"{client}/{name}")):
            found, target = ProcessFile.read(path), path.with_name(application)
            if found is None or found.incarnation != incarnation:
                continue
            if of_the_gone and found.owner.is_alive():
                continue
            if target.exists():
                if not of_the_gone:
                    continue
                # Its owner lived longer than the run that has renamed it. Nobody would ever look there again.
                target = new_folder(state_dir, application) / application
            with StateDirectory(state_dir, path.parent.name, name).locked():
                make_folder(target.parent)
                path.rename(target)
            with suppress(OSError):  # it has other applications, or is a link
                path.parent.rmdir()


def new_folder(state_dir: Path, application: str) -> Path:
    """The first folder `client-<number>` in which an application has nothing."""
    folders = (state_dir / f"client-{number}" for number in count(1))
    return next(each for each in folders if not (each / application).exists())
