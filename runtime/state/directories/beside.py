"""The stores of results that are computed beside those of applications, in a folder of their own.

They are laid out as the others are. Once such a result has taken the place of the old one, its directories do too, with
one rename for each. Whoever ends in between, the next run goes on with it; if it cannot, the stores are restored.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ....private_files import make_folder
from ...tasks.errors import LockError
from .directory import StateDirectory
from .process_file import ProcessFile

_FOLDER = "~beside"


def beside(state_dir: Path) -> Path:
    """The folder below a state directory. No client has this name."""
    return state_dir / _FOLDER


def take_over_beside(
    state_dir: Path, application: str, incarnation: str, client: str = "*", *, of_the_gone: bool = False
) -> None:
    """Give an application the stores of the result that was computed beside it, if it has taken that over.

    `incarnation`: that of the application now; so its own stores of another one count for nothing any more. `client`:
    whose, or a pattern. `of_the_gone`: only those whose owners are gone; they are removed where the application has got
    other stores meanwhile. Raises LockError where one is in use.
    """
    for path in sorted(beside(state_dir).glob(f"{client}/{application}")) if incarnation else ():
        found, target = ProcessFile.read(path), state_dir / path.parent.name / application
        if found is None or found.incarnation != incarnation:
            continue
        there = ProcessFile.read(target)
        if there is not None and there.incarnation == incarnation:
            if of_the_gone and not found.owner.is_alive():  # it lived longer than the run, which has restored them
                with suppress(LockError):  # another client of this machine is just removing them
                    _forget(StateDirectory(beside(state_dir), path.parent.name, application))
            continue
        if of_the_gone and any(each is not None and each.owner.is_alive() for each in (found, there)):
            continue
        client_folder = path.parent.name
        with StateDirectory(beside(state_dir), client_folder, application).locked():
            if target.exists():
                _forget(StateDirectory(state_dir, client_folder, application))
            make_folder(target.parent)
            if not target.exists():  # else it is a link that somebody has made
                path.rename(target)


def found_with_beside(state_dir: Path, application: str) -> list[StateDirectory]:
    """The directories of an application, or of a pattern, with those of a result that is computed beside it."""
    return [each for where in (state_dir, beside(state_dir)) for each in StateDirectory.found(where, application)]


def forget_beside(state_dir: Path, application: str) -> None:
    """Remove the stores of a result that nobody wants any more. Raises LockError while they are in use."""
    for directory in StateDirectory.found(beside(state_dir), application):
        _forget(directory)


def _forget(directory: StateDirectory) -> None:
    with directory.locked():
        directory.forget()
