"""A plan as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from ...readable_text import visible
from ...runtime.changes.model import Change, Verdict, Way
from ...runtime.changes.plan import ApplicationPlan, Plan
from .plan_texts import (
    UNJUDGED,
    WORDS,
    application_words,
    headline,
    orphan_text,
    orphans_title,
    reread_text,
    unknown_text,
    waiting_text,
    ways_of,
)

_STYLES = {
    Verdict.NOTHING: "dim",
    Verdict.COMPATIBLE: "green",
    Verdict.REPLACE: "bold yellow",
    Verdict.ERROR: "bold red",
}
_DIFF = {"+": "green", "-": "red", "~": "yellow"}

Shown = Callable[[str], str]
"""Turns a position in the project into the path shown from the current folder."""


def tree_of(plan: Plan, shown: Shown) -> Tree:
    """The tree: topologies with their changes, seeds, and applications that only the log has."""
    tree = Tree(Text(visible(headline(plan)), "bold"), guide_style="dim")
    for application in plan.applications:
        _application(tree, application, shown)
    if plan.seeds:
        seeds = tree.add(Text("seeds", "bold"))
        for change in plan.seeds:
            _ways(_change(seeds, change, shown), change.ways)
    if plan.orphans:
        orphans = tree.add(Text(orphans_title(plan), "bold"))
        for orphan in plan.orphans:
            orphans.add(Text.assemble((visible(orphan.application), "bold"), "  ", visible(orphan_text(orphan))))
    return tree


def _application(tree: Tree, application: ApplicationPlan, shown: Shown) -> None:
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
            _change(node, change, shown)
    _ways(node, ways_of(application.changes))


def _change(tree: Tree, change: Change, shown: Shown) -> Tree:
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


def _ways(node: Tree, change_ways: Iterable[Way]) -> None:
    ways = list(change_ways)
    if not ways:
        return
    out = node.add(Text("way out" if len(ways) == 1 else "ways out", "bold"))
    for way in ways:
        if way.command is None:
            out.add(Text(visible(way.what)))
        else:
            out.add(Text.assemble(visible(f"{way.what}:"), "\n", (visible(way.command), "cyan")))
