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
    again_text,
    application_words,
    headline,
    orphan_text,
    orphans_title,
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
"""A place in the project, as it is shown from the current folder."""


def tree_of(plan: Plan, shown: Shown) -> Tree:
    """The tree: topologies with what has changed about them, seeds, and what the log has besides."""
    tree = Tree(Text(visible(headline(plan)), "bold"), guide_style="dim")
    for each in plan.applications:
        _application(tree, each, shown)
    if plan.seeds:
        seeds = tree.add(Text("seeds", "bold"))
        for change in plan.seeds:
            _ways(_change(seeds, change, shown), change.ways)
    if plan.orphans:
        left = tree.add(Text(orphans_title(plan), "bold"))
        for orphan in plan.orphans:
            left.add(Text.assemble((visible(orphan.application), "bold"), "  ", visible(orphan_text(orphan))))
    return tree


def _application(tree: Tree, each: ApplicationPlan, shown: Shown) -> None:
    style = _STYLES[each.verdict] if each.judged else "bold yellow"
    place = f"  {shown(each.place)}" if each.place and (each.changes or each.undecided) else ""
    node = tree.add(
        Text.assemble((each.topology, "bold"), "  ", (application_words(each), style), (visible(place), "dim"))
    )
    if not each.judged:
        node.add(Text(UNJUDGED))
    if each.undecided and each.unknown:
        node.add(Text(visible(unknown_text(each.unknown)), "yellow"))
    if each.waiting is not None and (waits := waiting_text(each.waiting)):
        node.add(Text(visible(waits)))
    for _, changes in groupby(each.changes, key=lambda change: change.subject):
        for change in changes:
            _change(node, change, shown)
    _ways(node, ways_of(each.changes))


def _change(tree: Tree, change: Change, shown: Shown) -> Tree:
    place = f"  {shown(change.place)}" if change.place else ""
    head = Text.assemble(
        (visible(str(change.subject)), "bold"),
        "  ",
        (WORDS[change.verdict], _STYLES[change.verdict]),
        (visible(place), "dim"),
    )
    lines = [Text(visible(change.what)), *map(_diff, change.lines)]
    lines += [Text(visible(again_text(again))) for again in change.reads_again]
    return tree.add(Text("\n").join([head, *lines]))


def _diff(line: str) -> Text:
    return Text(visible(line), _DIFF.get(line[:1], ""))


def _ways(node: Tree, ways: Iterable[Way]) -> None:
    found = list(ways)
    if not found:
        return
    out = node.add(Text("way out" if len(found) == 1 else "ways out", "bold"))
    for way in found:
        if way.command is None:
            out.add(Text(visible(way.what)))
        else:
            out.add(Text.assemble(visible(f"{way.what}:"), "\n", (visible(way.command), "cyan")))
