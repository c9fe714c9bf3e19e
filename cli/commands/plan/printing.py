"""Prints a plan in the form that was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ....readable_text import json_text
from ....runtime.changes.plans.plan import Plan
from ....runtime.changes.plans.plan_json import plan_json
from ...printing.terminal import console, is_terminal
from .github import as_annotations
from .markdown import markdown
from .texts import room_text, summary
from .tree import tree_of

_WIDEST = 100_000
"""So wide is output that is not for a terminal: nothing is folded."""


def show(plan: Plan, root: Path, style: str) -> None:
    """Print to stdout, with places as they are from here; in JSON from the project's folder."""
    base = os.path.relpath(root)

    def shown(place: str) -> str:
        return os.path.normpath(os.path.join(base, place))

    match style:
        case "json":
            click.echo(as_json(plan), nl=False)
        case "github":
            click.echo(as_annotations(plan, shown), nl=False)
        case "markdown":
            click.echo(markdown(plan, shown), nl=False)
        case _:
            screen = console()
            if not is_terminal():
                screen.width = _WIDEST
            screen.print(tree_of(plan, shown))
            for line in filter(None, (room_text(plan.space), *summary(plan))):
                screen.print(line)


def as_json(plan: Plan) -> str:
    """The text of a plan as JSON."""
    return json_text(plan_json(plan), indent=2) + "\n"
