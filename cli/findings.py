"""Prints what the compiler found wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .terminal import WARNING, console, say

if TYPE_CHECKING:
    from ..compiler.diagnostics import Diagnostic
    from ..project import Project


def warn(project: Project) -> None:
    """A line on stderr where the project has errors that do not keep a command from its work."""
    parsed = project.parse()
    if not parsed.ok:
        count = len(parsed.errors)
        where = os.path.normpath(os.path.join(os.path.relpath(parsed.root), str(parsed.errors[0].position)))
        errors = f"an error at {where}" if count == 1 else f"{count} errors, the first at {where}"
        say(WARNING, f"the project has {errors}; `headwater parse` tells more", err=True)


def show(found: Iterable[Diagnostic], sources: Mapping[str, str], root: Path, style: str) -> None:
    """Print diagnostics as `text` (to stderr), or as `json` or `github` (to stdout), with paths from here."""
    found = tuple(found)
    if not found and style == "text":
        return
    from ..compiler import printing

    base = os.path.relpath(root)
    if style == "json":
        click.echo(printing.as_json(found, base=base), nl=False)
    elif style == "github":
        click.echo(printing.as_github(found, base=base), nl=False)
    else:
        console(err=True).print(printing.styled(found, sources, base=base), soft_wrap=True, end="")
