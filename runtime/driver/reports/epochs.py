"""Tells and counts what each epoch has come to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from ...progress.planner import Planner
from ...tasks.outcome import TaskOutcome
from ...timed_parts import Spans, listening, now
from ..epoch_commits import EpochCommits
from ..units import OpenEpoch
from .counters import Counters, EpochTimes
from .epoch_trace import EpochTrace, thread_traces
from .events import EpochCommitted, EpochTraced, Observer

WORTH_A_SLICE = 0.001
"""Seconds: what takes the loop's thread less is not in a trace. It goes round up to fifty times a second."""

SAME_SLICE = 0.005
"""Seconds: waits with less between them are one in a trace."""


class EpochReports:
    """Used from the loop's thread only. `traced`: whether the observer is also told what each epoch did when."""

    def __init__(
        self,
        application: str,
        planner: Planner,
        commits: EpochCommits,
        counters: Counters,
        observer: Observer,
        *,
        traced: bool = False,
    ) -> None:
        self._spans = Spans(WORTH_A_SLICE, SAME_SLICE) if traced else None
        self._application = application
        self._planner = planner
        self._commits = commits
        self._counters = counters
        self._observer = observer

    def watching(self) -> AbstractContextManager[None]:
        """What the loop's thread does within, and says so (`timed`), is in the traces of epochs."""
        return listening(self._spans)

    def ended(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome], committed: int, begun: float) -> None:
        """An epoch is over. `committed`: how many tasks were committed; `begun`: when that began, in seconds."""
        unit, plan, ended = opened.unit, opened.plan, now()
        client, part = unit.member.client.name, unit.part.name
        times = EpochTimes(opened.planning, ended - begun, ended - opened.started)
        for outcome in outcomes:
            unit.member.note_sizes(outcome.partition, outcome.measured.stores)
        self._counters.epoch_ended(client, part, plan, outcomes, times)
        if committed > 0:
            commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
            advancing = {commit.partition for commit in plan.advancing(commits)}
            made = [outcome for outcome in outcomes if outcome.partition in advancing]
            self._counters.committed(client, part, made)
            last = self._commits.last
            self._observer.on(
                EpochCommitted(
                    application=self._application,
                    subtopology=part,
                    client=client,
                    commit=last.number,
                    records=last.records,
                    lag=self._planner.unread(unit.tasks),
                    seconds=times.total,
                    dropped=last.dropped,
                    bytes=sum(outcome.measured.taken for outcome in made),
                )
            )
        if self._spans is not None:
            trace = EpochTrace(
                part,
                client,
                plan.epoch,
                opened.started,
                opened.started + opened.planning,
                begun,
                ended,
                thread_traces(unit.part.number, plan, outcomes),
                self._spans.take(),
            )
            self._observer.on(EpochTraced(self._application, trace))
