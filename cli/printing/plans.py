"""A plan on a terminal, and as annotations of GitHub."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from ...compiler.diagnostics import annotation
from ...readable_text import json_text
from ...runtime.changes.model import Change, Verdict
from ...runtime.changes.plan import Plan, plan_json
from .plan_markdown import markdown
from .plan_texts import WORDS, reread_text, room_text, summary
from .plan_tree import tree_of
from .terminal import console, is_terminal

# A plan as workflow commands of GitHub: annotations on the changed lines of a pull request.

_LEVELS = {
    Verdict.NOTHING: "notice",
    Verdict.COMPATIBLE: "notice",
    Verdict.REPLACE: "warning",
    Verdict.ERROR: "error",
}


def as_annotations(plan: Plan, shown: Callable[[str], str]) -> str:
    """One line for each change, then one for the whole plan."""
    lines = [_line(change, shown) for change in plan.changes]
    whole = _LEVELS[plan.verdict]
    return "".join([*lines, annotation(whole, {"title": f"plan of {plan.project}"}, "\n".join(summary(plan)))])


def _line(change: Change, shown: Callable[[str], str]) -> str:
    file, _, line = shown(change.place).rpartition(":") if change.place else ("", "", "")
    where: dict[str, object] = {}
    if change.place:
        where = {"file": file, "line": line} if line.isdigit() else {"file": shown(change.place)}
    where["title"] = f"{change.subject} {WORDS[change.verdict]}"
    text = [change.what, *change.lines, *map(reread_text, change.reads_again), *map(str, change.ways)]
    return annotation(_LEVELS[change.verdict], where, "\n".join(text))


# Prints a plan in the requested form.

_WIDEST = 100_000
"""The width of output that is not for a terminal: no line is folded."""


def show(plan: Plan, root: Path, style: str) -> None:
    """Print to stdout, with paths from the current folder; in JSON from the project's folder."""
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
    """The plan as JSON text."""
    return json_text(plan_json(plan), indent=2) + "\n"
