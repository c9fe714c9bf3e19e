"""Tells and counts what each epoch has come to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...progress.planner import Planner
from ...tasks.outcome import TaskOutcome
from ..epoch_commits import EpochCommits
from ..units import OpenEpoch
from .counters import Counters, EpochTimes
from .events import EpochCommitted, Observer


class EpochReports:
    """Used from the loop's thread only."""

    def __init__(
        self, application: str, planner: Planner, commits: EpochCommits, counters: Counters, observer: Observer
    ) -> None:
        self._application = application
        self._planner = planner
        self._commits = commits
        self._counters = counters
        self._observer = observer

    def ended(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome], committed: int, begun: float) -> None:
        """An epoch is over. `committed`: how many tasks were committed; `begun`: when that began, in seconds."""
        unit, plan, now = opened.unit, opened.plan, time.monotonic()
        client, part = unit.member.client.name, unit.part.name
        times = EpochTimes(opened.planning, now - begun, now - opened.started)
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
                )
            )
