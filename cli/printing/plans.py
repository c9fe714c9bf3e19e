"""Prints a plan: as a tree on a terminal, as Markdown, as annotations of GitHub, or as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import click
from rich.text import Text
from rich.tree import Tree

from ...compiler.diagnostics import annotation
from ...readable_text import json_text, visible
from ...runtime.changes.model import Change, Verdict, Way
from ...runtime.changes.plan import ApplicationPlan, Plan, plan_json
from .plan_texts import (
    UNJUDGED,
    WORDS,
    application_words,
    headline,
    orphan_text,
    orphans_title,
    reread_text,
    room_text,
    summary,
    unknown_text,
    waiting_text,
    ways_of,
)
from .terminal import console, is_terminal

Shown = Callable[[str], str]
"""Turns a position in the project into the path shown from the current folder."""

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


# A plan as a tree.

_STYLES = {
    Verdict.NOTHING: "dim",
    Verdict.COMPATIBLE: "green",
    Verdict.REPLACE: "bold yellow",
    Verdict.ERROR: "bold red",
}
_DIFF = {"+": "green", "-": "red", "~": "yellow"}


def tree_of(plan: Plan, shown: Shown) -> Tree:
    """The tree: topologies with their changes, seeds, and applications that only the log has."""
    tree = Tree(Text(visible(headline(plan)), "bold"), guide_style="dim")
    for application in plan.applications:
        _application_node(tree, application, shown)
    if plan.seeds:
        seeds = tree.add(Text("seeds", "bold"))
        for change in plan.seeds:
            _way_nodes(_change_node(seeds, change, shown), change.ways)
    if plan.orphans:
        orphans = tree.add(Text(orphans_title(plan), "bold"))
        for orphan in plan.orphans:
            orphans.add(Text.assemble((visible(orphan.application), "bold"), "  ", visible(orphan_text(orphan))))
    return tree


def _application_node(tree: Tree, application: ApplicationPlan, shown: Shown) -> None:
    style = _STYLES[application.verdict] if application.typed else "bold yellow"
    place = (
        f"  {shown(application.place)}" if application.place and (application.changes or application.undecided) else ""
    )
    node = tree.add(
        Text.assemble(
            (application.topology, "bold"), "  ", (application_words(application), style), (visible(place), "dim")
        )
    )
    if not application.typed:
        node.add(Text(UNJUDGED))
    if application.undecided and application.unknown:
        node.add(Text(visible(unknown_text(application.unknown)), "yellow"))
    if application.waiting is not None and (waits := waiting_text(application.waiting)):
        node.add(Text(visible(waits)))
    for _, changes in groupby(application.changes, key=lambda change: change.subject):
        for change in changes:
            _change_node(node, change, shown)
    _way_nodes(node, ways_of(application.changes))


def _change_node(tree: Tree, change: Change, shown: Shown) -> Tree:
    place = f"  {shown(change.place)}" if change.place else ""
    head = Text.assemble(
        (visible(str(change.subject)), "bold"),
        "  ",
        (WORDS[change.verdict], _STYLES[change.verdict]),
        (visible(place), "dim"),
    )
    lines = [Text(visible(change.what)), *map(_diff, change.lines)]
    lines += [Text(visible(reread_text(reread))) for reread in change.reads_again]
    return tree.add(Text("\n").join([head, *lines]))


def _diff(line: str) -> Text:
    return Text(visible(line), _DIFF.get(line[:1], ""))


def _way_nodes(node: Tree, change_ways: Iterable[Way]) -> None:
    ways = list(change_ways)
    if not ways:
        return
    out = node.add(Text("way out" if len(ways) == 1 else "ways out", "bold"))
    for way in ways:
        if way.command is None:
            out.add(Text(visible(way.what)))
        else:
            out.add(Text.assemble(visible(f"{way.what}:"), "\n", (visible(way.command), "cyan")))


# A plan as Markdown, for a comment on a pull request.

_MARKS = {Verdict.NOTHING: "⚪", Verdict.COMPATIBLE: "🟢", Verdict.REPLACE: "🟡", Verdict.ERROR: "🔴"}


def markdown(plan: Plan, shown: Shown) -> str:
    """A heading, a table of topologies, and below it the changes of each topology."""
    lines = [f"### Plan of {_escaped(headline(plan))}", ""]
    lines += [f"**{_sentence(line)}**" for line in summary(plan)]
    lines += ["", _sentence(room)] if (room := room_text(plan.space)) else []
    if plan.applications:
        lines += ["", "| topology | next run | |", "|---|---|---|", *map(_row, plan.applications)]
    for application in plan.applications:
        if application.changes or application.undecided:
            lines += ["", f"#### {_escaped(application.topology)}", "", *_details(application, shown)]
    if plan.seeds:
        lines += ["", "#### Seeds", ""]
        for change in plan.seeds:
            lines += [*_change_lines(change, shown), *_way_lines(change.ways)]
    if plan.orphans:
        lines += ["", f"#### {_sentence(orphans_title(plan))[:-1]}", ""]
        lines += [f"- `{orphan.application}`: {_escaped(orphan_text(orphan))}" for orphan in plan.orphans]
    return "\n".join(lines) + "\n"


def _row(application: ApplicationPlan) -> str:
    mark = _MARKS[application.verdict] if application.typed else "❔"
    waits = _escaped(waiting_text(application.waiting)) if application.waiting is not None else ""
    return f"| {_escaped(application.topology)} | {mark} {application_words(application)} | {waits} |"


def _details(application: ApplicationPlan, shown: Shown) -> Iterator[str]:
    if not application.typed:
        yield f"- {_escaped(UNJUDGED)}"
    if application.undecided and application.unknown:
        yield f"- {_escaped(unknown_text(application.unknown))}"
    for change in application.changes:
        yield from _change_lines(change, shown)
    yield from _way_lines(ways_of(application.changes))


def _change_lines(change: Change, shown: Shown) -> Iterator[str]:
    place = f" (`{shown(change.place)}`)" if change.place else ""
    mark = _MARKS[change.verdict]
    yield f"- {mark} **{_escaped(str(change.subject))}** {WORDS[change.verdict]}{place}: {_escaped(change.what)}"
    if change.lines:
        # GitHub colours lines that begin with + and -, and ! for those that changed.
        diff = (f"!{line[1:]}" if line.startswith("~") else line for line in change.lines)
        yield from ("", "  ```diff", *(f"  {line}" for line in diff), "  ```")
    yield from (f"  - {_escaped(reread_text(reread))}" for reread in change.reads_again)


def _way_lines(change_ways: Iterable[Way]) -> Iterator[str]:
    ways = list(change_ways)
    if ways:
        yield from ("", "Way out:" if len(ways) == 1 else "Ways out:", "")
    for way in ways:
        yield f"- {_escaped(way.what)}" + (f": `{way.command}`" if way.command else "")


def _sentence(text: str) -> str:
    text = _escaped(text)
    return f"{text[:1].upper()}{text[1:]}."


def _escaped(text: str) -> str:
    """The text with Markdown's special characters escaped; text between backticks stays."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "\\*_<>|[]":
            parts[number] = parts[number].replace(sign, f"\\{sign}")
    return "`".join(parts)


# A plan as workflow commands of GitHub: annotations on the changed lines of a pull request.

_LEVELS = {
    Verdict.NOTHING: "notice",
    Verdict.COMPATIBLE: "notice",
    Verdict.REPLACE: "warning",
    Verdict.ERROR: "error",
}


def as_annotations(plan: Plan, shown: Shown) -> str:
    """One line for each change, then one for the whole plan."""
    lines = [_annotation(change, shown) for change in plan.changes]
    whole = _LEVELS[plan.verdict]
    return "".join([*lines, annotation(whole, {"title": f"plan of {plan.project}"}, "\n".join(summary(plan)))])


def _annotation(change: Change, shown: Shown) -> str:
    file, _, line = shown(change.place).rpartition(":") if change.place else ("", "", "")
    where: dict[str, object] = {}
    if change.place:
        where = {"file": file, "line": line} if line.isdigit() else {"file": shown(change.place)}
    where["title"] = f"{change.subject} {WORDS[change.verdict]}"
    text = [change.what, *change.lines, *map(reread_text, change.reads_again), *map(str, change.ways)]
    return annotation(_LEVELS[change.verdict], where, "\n".join(text))
