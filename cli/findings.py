"""Prints what the compiler found wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..compiler.diagnostics import Diagnostic


def show(found: Iterable[Diagnostic], sources: Mapping[str, str], root: Path, style: str) -> None:
    """Print diagnostics as `text` (to stderr), or as `json` or `github` (to stdout), with paths from here."""
    from ..compiler import printing

    base = os.path.relpath(root)
    if style == "json":
        click.echo(printing.as_json(found, base=base), nl=False)
    elif style == "github":
        click.echo(printing.as_github(found, base=base), nl=False)
    else:
        color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        click.echo(printing.as_text(found, sources, base=base, color=color), nl=False, err=True)
