"""Prints errors and warnings of the compiler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .terminal import WARNING, console, print_styled

if TYPE_CHECKING:
    from ...api.project import Project
    from ...compiler.diagnostics import Diagnostic
    from ...runtime.changes.planning import Recomputation

_UNREAD = ("HW035", "HW037", "HW038", "HW040")


def warn(project: Project) -> None:
    """Warn on stderr of problems that do not stop a command: errors in other files, and those of `warn_of_unread`.

    For commands that do not print all diagnostics. They call it after their work, which has parsed the project by then.
    """
    parsed = project.parse()
    warn_of_unread(project)
    if not parsed.ok:
        count = len(parsed.errors)
        where = os.path.normpath(os.path.join(os.path.relpath(parsed.root), str(parsed.errors[0].position)))
        errors = f"an error at {where}" if count == 1 else f"{count} errors, the first at {where}"
        print_styled(WARNING, f"the project has {errors}: see `headwater parse`", err=True)


def warn_of_unread(project: Project, *, in_files: bool = False) -> None:
    """Warn on stderr of options and environment variables of this call that nothing uses.

    `in_files`: and of what nothing uses in the project's files, for commands that use the whole project.
    """
    parsed = project.parse()
    if not parsed.target_ok:  # then the command ends with all diagnostics
        return
    unread = [diagnostic for diagnostic in parsed.diagnostics if diagnostic.code in _UNREAD]
    print_diagnostics(
        [diagnostic for diagnostic in unread if in_files or not diagnostic.position.in_file],
        parsed.sources,
        parsed.root,
        "text",
    )


def warn_of_rebuild(name: str, rebuild: Recomputation | None) -> None:
    """Warn on stderr if the shown result of a store or a topic is being rebuilt."""
    if rebuild is not None:
        text = f"{name} is shown as it is so far: a new result is being built ({rebuild_progress(rebuild)})"
        print_styled(WARNING, text, err=True)


def rebuild_progress(rebuild: Recomputation) -> str:
    """`120 of 1,000 records, 12 %`."""
    if rebuild.of is None:
        return "not begun yet"
    percent = f", {100 * rebuild.records // rebuild.of} %" if rebuild.of else ""
    return f"{rebuild.records:,} of {rebuild.of:,} records{percent}"


def print_diagnostics(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], root: Path, style: str) -> None:
    """Print diagnostics as `text` (to stderr), or as `json` or `github` (to stdout), with paths from here."""
    diagnostics = tuple(diagnostics)
    if not diagnostics and style == "text":
        return
    from ...compiler import diagnostics as printing

    base = os.path.relpath(root)
    if style == "json":
        click.echo(printing.as_json(diagnostics, base=base), nl=False)
    elif style == "github":
        click.echo(printing.as_github(diagnostics, base=base), nl=False)
    else:
        console(err=True).print(printing.styled(diagnostics, sources, base=base), soft_wrap=True, end="")
