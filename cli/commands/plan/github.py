"""A plan as workflow commands of GitHub: annotations at the changed lines of a pull request."""

from __future__ import annotations

from collections.abc import Callable

from ....compiler.printing import annotation
from ....runtime.changes.model import Change, Verdict
from ....runtime.changes.plans.plan import Plan
from .texts import WORDS, again_text, summary

_LEVELS = {
    Verdict.NOTHING: "notice",
    Verdict.COMPATIBLE: "notice",
    Verdict.EVOLVES: "warning",
    Verdict.REFUSES: "error",
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
    text = [change.what, *change.lines, *map(again_text, change.reads_again), *map(str, change.ways)]
    return annotation(_LEVELS[change.verdict], where, "\n".join(text))
