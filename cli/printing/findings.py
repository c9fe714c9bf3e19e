"""Prints the errors and warnings that the compiler found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .terminal import WARNING, console, say

if TYPE_CHECKING:
    from ...api.project import Project
    from ...compiler.diagnostics import Diagnostic
    from ...runtime.changes.planning import Recomputation

_UNREAD = ("HW035", "HW037", "HW038", "HW040")


def warn(project: Project) -> None:
    """Warn on stderr of what does not stop a command: errors in other files, and what `warn_of_call` warns of.

    For commands that do not show all diagnostics. They call it after their work, which has then parsed the project.
    """
    parsed = project.parse()
    warn_of_call(project)
    if not parsed.ok:
        count = len(parsed.errors)
        where = os.path.normpath(os.path.join(os.path.relpath(parsed.root), str(parsed.errors[0].position)))
        errors = f"an error at {where}" if count == 1 else f"{count} errors, the first at {where}"
        say(WARNING, f"the project has {errors}; `headwater parse` tells more", err=True)


def warn_of_call(project: Project) -> None:
    """Warn on stderr of options and environment variables of this call that nothing reads."""
    _warn_of_unread(project, in_files=False)


def warn_of_unread(project: Project) -> None:
    """Warn on stderr of all that nothing reads, files of the project too. For commands that work with all of it."""
    _warn_of_unread(project, in_files=True)


def _warn_of_unread(project: Project, *, in_files: bool) -> None:
    parsed = project.parse()
    if not parsed.target_ok:  # then the command ends with all that was found
        return
    unread = [each for each in parsed.diagnostics if each.code in _UNREAD]
    show([each for each in unread if in_files or not each.position.in_file], parsed.sources, parsed.root, "text")


def tell_recomputed(name: str, found: Recomputation | None) -> None:
    """Tell on stderr if what is shown of a store or a topic is to be replaced by a result that is computed again."""
    if found is not None:
        told = f"{name} is shown as it is so far: a new result is computed beside it ({progress_of(found)})"
        say(WARNING, told, err=True)


def progress_of(found: Recomputation) -> str:
    """How far a result is that is computed again."""
    if found.of is None:
        return "not begun yet"
    percent = f", {100 * found.records // found.of} %" if found.of else ""
    return f"{found.records:,} of {found.of:,} records{percent}"


def show(found: Iterable[Diagnostic], sources: Mapping[str, str], root: Path, style: str) -> None:
    """Print diagnostics as `text` (to stderr), or as `json` or `github` (to stdout), with paths from here."""
    found = tuple(found)
    if not found and style == "text":
        return
    from ...compiler import diagnostics as printing

    base = os.path.relpath(root)
    if style == "json":
        click.echo(printing.as_json(found, base=base), nl=False)
    elif style == "github":
        click.echo(printing.as_github(found, base=base), nl=False)
    else:
        console(err=True).print(printing.styled(found, sources, base=base), soft_wrap=True, end="")
