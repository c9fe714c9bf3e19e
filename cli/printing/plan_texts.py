"""The sentences of a plan, shared by all its forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...readable_text import counted
from ...runtime.changes.model import Change, ReadAgain, Verdict, Way
from ...runtime.changes.plan import ApplicationPlan, Orphan, Plan, Space, Waiting
from .tables import size_text, time_text

WORDS = {
    Verdict.NOTHING: "no change",
    Verdict.COMPATIBLE: "compatible",
    Verdict.REPLACE: "replace",
    Verdict.ERROR: "error",
}
"""The text for a verdict on a topology or a change."""

_MOST_NAMED = 3
"""The most columns of unknown type that are listed."""

UNJUDGED = "the types of some expressions are not known yet; `headwater compile` finds them with Spark"


def application_words(application: ApplicationPlan) -> str:
    """The verdict on a topology, in a word."""
    if not application.typed:
        return "unknown"
    if not application.begun and application.verdict in (Verdict.NOTHING, Verdict.COMPATIBLE):
        return "new"
    return WORDS[application.verdict]


def waiting_text(waiting: Waiting) -> str:
    """`reads 1,200 records (34 kB) of flights, in about 3 s; skips 7 records of gates, because of its `start``.

    Empty if it does neither.
    """
    parts = []
    if waiting.records:
        topics = ", ".join(waiting.topics)
        time = "" if waiting.seconds is None else f", in about {seconds_text(waiting.seconds)}"
        parts.append(f"reads {counted(waiting.records, 'record')} ({size_text(waiting.bytes)}) of {topics}{time}")
    if waiting.passed:
        passed = ", ".join(f"{counted(count, 'record')} of {topic}" for topic, count in waiting.passed.items())
        parts.append(f"passes over {passed}, as its `start` says")
    return "; ".join(parts)


def reread_text(reread: ReadAgain) -> str:
    """`reads flights again: 1,200 records (34 kB) from offset 0 on`."""
    if ":" in reread.topic:  # no topic of a project has a name with colons
        return f"copies all of {reread.topic} again; an error if Kafka has no longer all of it"
    starts = sorted(set(reread.start.values())) or [0]
    first = f"offset {starts[0]:,}" if len(starts) == 1 else f"offsets {starts[0]:,} to {starts[-1]:,}"
    return (
        f"reads {reread.topic} again: {counted(reread.records, 'record')} ({size_text(reread.bytes)}) from {first} on"
    )


def seconds_text(seconds: float) -> str:
    """`1 s`, `3 min`, `2.5 h`: two digits at most."""
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 99.5 * 60:
        return f"{round(seconds / 60)} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 9.95 else f"{hours:,.0f} h"


def unknown_text(columns: Sequence[str]) -> str:
    """Columns whose types are not known."""
    more = f" and {len(columns) - _MOST_NAMED} more" if len(columns) > _MOST_NAMED else ""
    return f"types not known yet, which may change the result: {', '.join(columns[:_MOST_NAMED])}{more}"


def ways_of(changes: Sequence[Change]) -> list[Way]:
    """The ways out of all these changes, each once."""
    return list(dict.fromkeys(way for change in changes for way in change.ways))


def orphan_text(orphan: Orphan) -> str:
    """What is left in the log of a topology that was removed from the project."""
    last, parts = orphan.committed_at, []
    if orphan.records is not None:
        parts.append(f"{counted(orphan.records, 'record')} ({size_text(orphan.bytes or 0)})")
    if last is not None:
        parts.append(f"last commit {time_text(last - last % 1000)}")
    if orphan.renamed:
        parts.append(f"is {orphan.renamed} its new name?")
    return ", ".join(parts) or "gone"


def orphans_title(plan: Plan) -> str:
    """The title of the list of orphans."""
    where = "log" if plan.against is None else "manifest"
    return f"in the {where} only: no topology of the project owns it"


def headline(plan: Plan) -> str:
    """What the plan compares: the project with the log, or with a manifest."""
    if plan.against is not None:
        return f"{plan.project}, compared with {plan.against}"
    return f"{plan.project}, on {plan.log}"


def summary(plan: Plan) -> Iterator[str]:
    """What the next run does, in a line or two."""

    def named(verdict: Verdict) -> str:
        applications = (plan_ for plan_ in plan.applications if plan_.typed and plan_.verdict is verdict)
        return ", ".join(application.topology for application in applications)

    if plan.untyped:
        yield f"some types in {', '.join(plan.untyped)} are not known yet: `headwater compile` finds them with Spark"
    if names := named(Verdict.ERROR):
        yield f"run would not start {names}"
    if names := named(Verdict.REPLACE):
        yield f"run would do more than resume {names}"
    yield from lacking_room(plan.space)
    if rejected := [change.subject.name for change in plan.seeds if change.verdict is Verdict.ERROR]:
        yield f"seed and build would reject the seed of {', '.join(rejected)}"
    if plan.verdict.rank <= Verdict.COMPATIBLE.rank and not plan.untyped:
        yield _going_on(plan)


def _going_on(plan: Plan) -> str:
    """What a run does if nothing needs a decision."""
    new = [application.topology for application in plan.applications if not application.begun]
    parts = [f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    if plan.verdict is Verdict.COMPATIBLE:
        # Changed seeds make a plan compatible too, even if no topology has committed anything.
        nothing_committed = new and len(new) == len(plan.applications)
        return "; ".join(parts if nothing_committed else [*parts, "run resumes from what is committed"])
    if len(new) < len(plan.applications):
        parts = [f"{parts[0]}, and nothing else has changed" if new else "nothing has changed"]
    waits = any(application.waiting is not None and application.waiting.records for application in plan.applications)
    return "; ".join([*(parts or ["nothing has changed"]), *(["run reads waiting records"] if waits else [])])


def room_text(space: Sequence[Space]) -> str | None:
    """The disk space that rebuilt results take beside the present ones; None if nothing is rebuilt."""
    takes = " and ".join(f"{size_text(disk.bytes)} in {disk.place}" for disk in space)
    return f"rebuilt results take about {takes}, in addition to the present ones" if takes else None


def lacking_room(space: Sequence[Space]) -> Iterator[str]:
    """A warning for each place without that much free space."""
    for disk in space:
        if not disk.enough:
            yield (
                f"{disk.place} has {size_text(disk.free or 0)} free only: the run would end with a full disk, and "
                "the present results would stay"
            )


def in_a_line(plan: Plan) -> str:
    """A plan in one line, for a command that does something else."""
    return f"plan: {'; '.join(summary(plan))} (details: `headwater plan`)"
