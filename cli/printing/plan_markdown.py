"""A plan as Markdown, for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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
    room_text,
    summary,
    unknown_text,
    waiting_text,
    ways_of,
)

Shown = Callable[[str], str]

_MARKS = {Verdict.NOTHING: "⚪", Verdict.COMPATIBLE: "🟢", Verdict.REPLACE: "🟡", Verdict.ERROR: "🔴"}


def markdown(plan: Plan, shown: Shown) -> str:
    """A heading, a table of topologies, and below it the changes of each topology."""
    lines = [f"### Plan of {_text(headline(plan))}", ""]
    lines += [f"**{_sentence(line)}**" for line in summary(plan)]
    lines += ["", _sentence(room)] if (room := room_text(plan.space)) else []
    if plan.applications:
        lines += ["", "| topology | next run | |", "|---|---|---|", *map(_row, plan.applications)]
    for application in plan.applications:
        if application.changes or application.undecided:
            lines += ["", f"#### {_text(application.topology)}", "", *_details(application, shown)]
    if plan.seeds:
        lines += ["", "#### Seeds", ""]
        for change in plan.seeds:
            lines += [*_change(change, shown), *_ways(change.ways)]
    if plan.orphans:
        lines += ["", f"#### {_sentence(orphans_title(plan))[:-1]}", ""]
        lines += [f"- `{orphan.application}`: {_text(orphan_text(orphan))}" for orphan in plan.orphans]
    return "\n".join(lines) + "\n"


def _row(application: ApplicationPlan) -> str:
    mark = _MARKS[application.verdict] if application.typed else "❔"
    waits = _text(waiting_text(application.waiting)) if application.waiting is not None else ""
    return f"| {_text(application.topology)} | {mark} {application_words(application)} | {waits} |"


def _details(application: ApplicationPlan, shown: Shown) -> Iterator[str]:
    if not application.typed:
        yield f"- {_text(UNJUDGED)}"
    if application.undecided and application.unknown:
        yield f"- {_text(unknown_text(application.unknown))}"
    for change in application.changes:
        yield from _change(change, shown)
    yield from _ways(ways_of(application.changes))


def _change(change: Change, shown: Shown) -> Iterator[str]:
    place = f" (`{shown(change.place)}`)" if change.place else ""
    mark = _MARKS[change.verdict]
    yield f"- {mark} **{_text(str(change.subject))}** {WORDS[change.verdict]}{place}: {_text(change.what)}"
    if change.lines:
        # GitHub colours lines that begin with + and -, and ! for those that changed.
        diff = (f"!{line[1:]}" if line.startswith("~") else line for line in change.lines)
        yield from ("", "  ```diff", *(f"  {line}" for line in diff), "  ```")
    yield from (f"  - {_text(reread_text(reread))}" for reread in change.reads_again)


def _ways(change_ways: Iterable[Way]) -> Iterator[str]:
    ways = list(change_ways)
    if ways:
        yield from ("", "Way out:" if len(ways) == 1 else "Ways out:", "")
    for way in ways:
        yield f"- {_text(way.what)}" + (f": `{way.command}`" if way.command else "")


def _sentence(text: str) -> str:
    text = _text(text)
    return f"{text[:1].upper()}{text[1:]}."


def _text(text: str) -> str:
    """The text with Markdown's special characters escaped; text between backticks stays."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "\\*_<>|[]":
            parts[number] = parts[number].replace(sign, f"\\{sign}")
    return "`".join(parts)
