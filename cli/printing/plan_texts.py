"""The sentences of a plan, for all its forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...runtime.changes.model import Change, ReadAgain, Verdict, Way
from ...runtime.changes.plan import ApplicationPlan, Orphan, Plan, Space, Waiting
from ...runtime.driver.event_texts import counted
from .tables import size_text, time_text

WORDS = {
    Verdict.NOTHING: "no change",
    Verdict.COMPATIBLE: "goes on",
    Verdict.REPLACE: "replace",
    Verdict.ERROR: "error",
}
"""What a verdict is called where a topology or a change has it."""

_MOST_NAMED = 3
"""Of columns whose types are not known."""

UNJUDGED = "it has expressions that Spark has not judged yet; `headwater compile` has them judged"


def application_words(each: ApplicationPlan) -> str:
    """The verdict on a topology."""
    if not each.judged:
        return "not known"
    if not each.begun and each.verdict in (Verdict.NOTHING, Verdict.COMPATIBLE):
        return "new"
    return WORDS[each.verdict]


def waiting_text(waiting: Waiting) -> str:
    """`reads 1,200 records (34 kB) of flights, in about 3 s; passes over 7 records of gates, as its `start` says`.

    Empty if there is nothing of either.
    """
    said = []
    if waiting.records:
        topics = ", ".join(waiting.topics)
        time = "" if waiting.seconds is None else f", in about {seconds_text(waiting.seconds)}"
        said.append(f"reads {counted(waiting.records, 'record')} ({size_text(waiting.bytes)}) of {topics}{time}")
    if waiting.passed:
        passed = ", ".join(f"{counted(count, 'record')} of {topic}" for topic, count in waiting.passed.items())
        said.append(f"passes over {passed}, as its `start` says")
    return "; ".join(said)


def again_text(again: ReadAgain) -> str:
    """`reads flights again: 1,200 records (34 kB) from offset 0 on`."""
    starts = sorted(set(again.start.values())) or [0]
    first = f"offset {starts[0]:,}" if len(starts) == 1 else f"offsets {starts[0]:,} to {starts[-1]:,}"
    return f"reads {again.topic} again: {counted(again.records, 'record')} ({size_text(again.bytes)}) from {first} on"


def seconds_text(seconds: float) -> str:
    """`1 s`, `3 min`, `2.5 h`: two digits at most."""
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 99.5 * 60:
        return f"{round(seconds / 60)} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 9.95 else f"{hours:,.0f} h"


def unknown_text(columns: Sequence[str]) -> str:
    """Which types are not known."""
    more = f" and {len(columns) - _MOST_NAMED} more" if len(columns) > _MOST_NAMED else ""
    return f"types not known yet, which may change the answer: {', '.join(columns[:_MOST_NAMED])}{more}"


def ways_of(changes: Sequence[Change]) -> list[Way]:
    """The ways out of all these changes, each once."""
    return list(dict.fromkeys(way for change in changes for way in change.ways))


def orphan_text(orphan: Orphan) -> str:
    """What is left of a topology that is gone."""
    last, parts = orphan.committed_at, []
    if orphan.records is not None:
        parts.append(f"{counted(orphan.records, 'record')} ({size_text(orphan.bytes or 0)})")
    if last is not None:
        parts.append(f"last commit {time_text(last - last % 1000)}")
    if orphan.renamed:
        parts.append(f"is {orphan.renamed} its new name?")
    return ", ".join(parts) or "gone"


def orphans_title(plan: Plan) -> str:
    """Above the orphans."""
    where = "log" if plan.against is None else "manifest"
    return f"in the {where} only: no topology of the project owns it"


def headline(plan: Plan) -> str:
    """What is compared with what."""
    if plan.against is not None:
        return f"{plan.project}, compared with {plan.against}"
    return f"{plan.project}, on {plan.log}"


def summary(plan: Plan) -> Iterator[str]:
    """What the next run does, in a line or two."""

    def those(verdict: Verdict) -> str:
        return ", ".join(each.topology for each in plan.applications if each.judged and each.verdict is verdict)

    if plan.unjudged:
        yield f"not all is known of {', '.join(plan.unjudged)}: `headwater compile` has new expressions judged"
    if names := those(Verdict.ERROR):
        yield f"run would not start {names}"
    if names := those(Verdict.REPLACE):
        yield f"run would do more than go on with {names}"
    yield from lacking_room(plan.space)
    if refused := [each.subject.name for each in plan.seeds if each.verdict is Verdict.ERROR]:
        yield f"seed and build would refuse the seed of {', '.join(refused)}"
    if plan.verdict.rank <= Verdict.COMPATIBLE.rank and not plan.unjudged:
        yield _going_on(plan)


def _going_on(plan: Plan) -> str:
    """What a run does that has nothing to decide."""
    new = [each.topology for each in plan.applications if not each.begun]
    said = [f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    if plan.verdict is Verdict.COMPATIBLE:
        # Seeds make a plan compatible too, also where there is nothing of a topology to go on from.
        nothing_to_go_on_from = new and len(new) == len(plan.applications)
        return "; ".join(said if nothing_to_go_on_from else [*said, "run goes on from what is committed"])
    if len(new) < len(plan.applications):
        said = [f"{said[0]}, and nothing else has changed" if new else "nothing has changed"]
    waits = any(each.waiting is not None and each.waiting.records for each in plan.applications)
    return "; ".join([*(said or ["nothing has changed"]), *(["run takes up what waits"] if waits else [])])


def room_text(space: Sequence[Space]) -> str | None:
    """How much room results take that are computed again."""
    takes = " and ".join(f"{size_text(each.bytes)} in {each.place}" for each in space)
    return f"what is computed again takes about {takes}, beside the present results" if takes else None


def lacking_room(space: Sequence[Space]) -> Iterator[str]:
    """Where that much room is not left."""
    for each in space:
        if not each.enough:
            yield (
                f"{each.place} has room for {size_text(each.free or 0)} only: the run would end with a full disk, and "
                "the present results would stay"
            )


def in_a_line(plan: Plan) -> str:
    """A plan in one line, for a command that does other things."""
    return f"plan: {'; '.join(summary(plan))} (`headwater plan` tells more)"
