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
    from ...runtime.changes.plans.recomputation import Recomputation

_UNUSED_VARIABLE = "HW035"


def warn(project: Project) -> None:
    """Warn on stderr of what does not stop a command: errors in other files, variables that nothing uses.

    For commands that do not show all diagnostics. They call it after their work, which has then parsed the project.
    """
    parsed = project.parse()
    show([each for each in parsed.diagnostics if each.code == _UNUSED_VARIABLE], parsed.sources, parsed.root, "text")
    if not parsed.ok:
        count = len(parsed.errors)
        where = os.path.normpath(os.path.join(os.path.relpath(parsed.root), str(parsed.errors[0].position)))
        errors = f"an error at {where}" if count == 1 else f"{count} errors, the first at {where}"
        say(WARNING, f"the project has {errors}; `headwater parse` tells more", err=True)


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
    from ...compiler import printing

    base = os.path.relpath(root)
    if style == "json":
        click.echo(printing.as_json(found, base=base), nl=False)
    elif style == "github":
        click.echo(printing.as_github(found, base=base), nl=False)
    else:
        console(err=True).print(printing.styled(found, sources, base=base), soft_wrap=True, end="")
