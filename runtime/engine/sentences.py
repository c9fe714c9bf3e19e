"""What happens in a run, in words: one line for each event."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from . import events
from .events import Event


def counted(number: int, thing: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def waiting(records: int, writers: Sequence[str]) -> str:
    """`1 record waits for flights-fleet`."""
    return f"{counted(records, 'record')} wait{'s' if records == 1 else ''} for {', '.join(writers)}"


def sentence(event: Event) -> str:
    """An event in words."""
    match event:
        case events.ApplicationStarted():
            restored = f", {event.restored} of them with state" if event.restored else ""
            tasks = counted(event.tasks, "task")
            return f"{event.application}: started, generation {event.generation}, {tasks}{restored}"
        case events.AssignmentFailed():
            entries = "".join(f"\n    {entry}" for entry in event.entries)
            return (
                f"{event.application}: tasks stay where they were, as assignor {event.assignor} failed: "
                f"{event.message}{entries}"
            )
        case events.EpochCommitted():
            rate = event.records / event.seconds if event.seconds else 0.0
            dropped = f", {sum(event.dropped.values()):,} dropped" if event.dropped else ""
            return (
                f"{event.application}/{event.subtopology}: commit {event.commit}, {counted(event.records, 'record')} "
                f"({rate:,.0f}/s){dropped}, lag {event.lag:,}"
            )
        case events.Waiting():
            return f"{event.application}: {waiting(event.records, event.writers)}"
        case events.RecordFailed():
            return f"{event.application}/{event.subtopology}: task {event.partition} stopped: {event.message}"
        case events.ApplicationStopped():
            return (
                f"{event.application}: {event.reason.replace('_', ' ')}, {counted(event.records, 'record')} "
                f"in {counted(event.commits, 'commit')}"
            )


class Lines:
    """An observer that prints one line for each event, to stderr: what a job's log shows on a cluster."""

    def on(self, event: Event) -> None:
        """Print it."""
        print(f"{time.strftime('%H:%M:%S')} {sentence(event)}", file=sys.stderr, flush=True)
