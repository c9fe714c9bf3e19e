"""Events of a run as sentences, one line per event."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from ...readable_text import entry, readable
from ..placing.assigned import Move
from . import events
from .events import Event
from .restoring import Restoring
from .wait_texts import listed, subject_of, waiting_sentence

MOST_SAID = 10
"""The most moving or unassigned tasks in a line. The results of the run list all."""


RESTORING_SECONDS = 10.0
"""The interval of lines about stores that are being restored."""

WORTH_A_LINE = 100_000
"""The fewest changelog records of a finished restore that has a line of its own: less takes a moment."""


UNFINISHED = "its rebuild is not complete, and the old result stays"
"""Of a rebuild that a run has not finished."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """`1 record`, `2,000 records`. `plural`: None if it is the singular with an s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def waiting(records: int, writers: Sequence[str], application: str) -> str:
    """`1 record waits for flights-fleet`.

    The application itself among the writers: it waits for its stopped tasks. No writers: for tasks that no client runs.
    """
    names = ("tasks that have stopped" if writer == application else writer for writer in writers)
    causes = ", ".join(names) or "tasks that no client runs"
    return f"{counted(records, 'record')} wait{'s' if records == 1 else ''} for {causes}"


def nothing_in(topics: Sequence[str]) -> str:
    """Topics that have never had a record, and how to fill them."""
    one = len(topics) == 1
    return (
        f"there are no records in {first_of(topics)} yet: `headwater seed` fills {'it' if one else 'them'} from "
        f"{'its seed' if one else 'their seeds'} (so does `headwater build`), `headwater seed --append` from elsewhere"
    )


def _read_again(records: Mapping[str, int]) -> str:
    counts = ", ".join(f"{counted(count, 'record')} of {topic}" for topic, count in records.items())
    return f": {counts}" if counts else ""


def not_carried_out(assignor: str, message: str, entries: Sequence[str]) -> str:
    """Why an assignment cannot be used, and where the tasks stay."""
    return (
        f"tasks stay where they were, and new ones are spread evenly, as assignor {assignor} failed: {message}"
        + "".join(f"\n    {entry}" for entry in entries)
    )


def lost(store: str, partition: int, client: str) -> str:
    """`store orders, partition 2, has lost its rows and starts empty on client-1: ...`."""
    return (
        f"store {store}, partition {partition}, has lost its rows and starts empty on {client}: "
        "it has no changelog to be restored from"
    )


_LEFT = {
    "fold": "old commits stay in the log for now, as their removal failed",
    "remove": "unused files stay in the log for now, as their removal failed",
    "clean": "the log takes more space than it needs for now, as its cleaning failed",
}


def held_back(reader: str, since: int | None) -> str:
    """The reader that records wait for, and what to do. `since`: its last commit, ms since 1970; None: it has none."""
    ran = "has never run" if since is None else f"committed last at {moment(since)}"
    return (
        f"{reader} has not read them yet, and {ran}: run it, or, if its topology is not in the project any more, "
        f"`headwater remove {reader}`"
    )


StoreEvent = (
    events.StoreRestoring
    | events.StoreRestored
    | events.StoreDamaged
    | events.StoreOutdated
    | events.SnapshotUnusable
    | events.SnapshotNotSaved
    | events.ForeignStoresWiped
    | events.CopiesRemoved
    | events.StoreLost
)


def sentence(event: Event) -> str:
    """An event as a sentence."""
    match event:
        case events.ApplicationStarted():
            restored = f", {event.restored} of them with state" if event.restored else ""
            tasks = counted(event.tasks, "task")
            return f"{event.application}: started, generation {event.generation}, {tasks}{restored}"
        case events.TasksPlaced():
            return f"{event.application}: {_placed(event)}"
        case events.AssignmentFailed():
            return f"{event.application}: {not_carried_out(event.assignor, event.message, event.entries)}"
        case events.ClientLost():
            gone = "is gone" if event.silent is None else f"has been silent for {event.silent:.0f} s: it counts as lost"
            return f"{event.application}: {event.client} {gone}; its tasks go to other clients"
        case events.ClientJoined():
            return f"{event.application}: {event.client} has joined"
        case events.ClientRefused():
            return f"{event.application}: {event.client} cannot join, and gets no tasks: {event.cause}"
        case events.ApplicationPaused():
            return f"{event.application}: paused at {moment(event.since)}; `headwater resume` ends the pause"
        case events.ApplicationResumed():
            return f"{event.application}: resumed"
        case events.ApplicationStopping():
            open_epochs = "the open epoch is" if event.epochs == 1 else f"{event.epochs:,} open epochs are"
            return f"{event.application}: ends, once {open_epochs} finished and committed"
        case events.TopicRepartitioned():
            instead = f" instead of {event.was}" if event.was != event.partitions else ""
            by = f", by the key {event.key or '(none)'}" if event.key != event.old_key else ""
            return (
                f"{event.topic}: {counted(event.records, 'record')} put into {counted(event.partitions, 'partition')}"
                f"{instead}{by}, in {event.seconds:.1f} s"
            )
        case events.RecomputationBegun():
            name = event.application.partition("-")[2]
            return f"{event.application}: rebuilding {name}, while the present result stays{_read_again(event.records)}"
        case events.ResultSwitched():
            return f"{event.application}: switched to the rebuilt result; the old one is dropped"
        case events.RecomputationUnfinished():
            return f"{event.application}: {UNFINISHED}: {event.cause}"
        case events.NothingToRead():
            return f"{event.application}: {nothing_in(event.topics)}"
        case events.EpochCommitted():
            rate = event.records / event.seconds if event.seconds else 0.0
            dropped = f", {sum(event.dropped.values()):,} dropped" if event.dropped else ""
            return (
                f"{event.application}/{event.subtopology}: commit {event.commit}, {counted(event.records, 'record')} "
                f"({rate:,.0f}/s){dropped}, lag {event.lag:,}"
            )
        case events.Waiting():
            return f"{event.application}: {waiting(event.records, event.writers, event.application)}"
        case events.TasksWait():
            return f"{event.application}: {waiting_sentence(event.tasks, event.waits_for, event.application)}"
        case events.WaitEnded():
            return f"{event.application}: {_wait_ended(event)}"
        case events.TaskFailed():
            way_out = "" if event.hint is None else f"\n    hint: {event.hint}"
            stopped = f"task {event.partition} stopped: {event.message}{way_out}"
            return f"{event.application}/{event.subtopology}: {stopped}"
        case events.TaskBeginsAgain():
            task = f"{event.application}/{event.subtopology}: task {event.partition}"
            return f"{task} restarts on {event.client}, while the others continue: {event.cause}"
        case events.UpkeepFailed():
            return f"{event.application}: {_LEFT[event.work]}: {event.cause}"
        case events.StatusTaken():
            clients = event.status.clients
            copies = counted(sum(len(client.tasks) for client in clients), "task")
            done = counted(event.status.records, "record")
            return f"{event.application}: {copies} on {counted(len(clients), 'client')}, {done} so far"
        case events.EpochTraced():
            trace = event.trace
            return f"{event.application}/{trace.subtopology}: epoch {trace.epoch} took {trace.seconds:.3f} s"
        case events.LogCleaned():
            before = counted(event.before, "segment")
            return f"{event.application}: log cleaned, {before} became {event.after:,} ({event.seconds:.1f} s)"
        case events.ClusterEnded():
            return (
                f"{event.application}: ends without a commit of its open epochs, as {event.cause}; no record is lost: "
                "the next run processes them again"
            )
        case events.RecordsHeldBack():
            stays = f"{counted(event.records, 'record')} of {event.topic} cannot be cleaned"
            return f"{event.application}: {stays}: {held_back(event.reader, event.since)}"
        case events.LineageNotSent():
            return f"OpenLineage events cannot be sent to {event.target}; the run continues without: {event.cause}"
        case events.TraceNotWritten():
            return f"the trace in {event.path} ends here; the run continues without it: {event.cause}"
        case events.ApplicationStopped():
            return (
                f"{event.application}: {event.reason.replace('_', ' ')}, {counted(event.records, 'record')} "
                f"in {counted(event.commits, 'commit')}"
            )
        case _:
            return f"{event.application}: {_of_store(event)}"


def _wait_ended(event: events.WaitEnded) -> str:
    subject = subject_of(event.waits_for, event.application)
    return f"{listed(event.tasks)} {'does' if len(event.tasks) == 1 else 'do'} not wait for {subject} any more"


def _of_store(event: StoreEvent) -> str:
    match event:
        case events.ForeignStoresWiped():
            return _foreign(event)
        case events.CopiesRemoved():
            return _removed(event)
        case events.StoreLost():
            return lost(event.store, event.partition, event.client)
    store = f"store {event.store}, partition {event.partition}," if event.partition >= 0 else f"table {event.store}"
    match event:
        case events.StoreRestoring():
            done = f"{event.position:,} of {counted(event.end, 'record')}"
            return f"{store} is restored on {event.client}: {done}"
        case events.StoreRestored():
            return f"{store} is restored on {event.client} by {counted(event.records, 'record')}"
        case events.StoreDamaged():
            return f"{store} was damaged on {event.client} and is wiped: {event.cause}"
        case events.StoreOutdated():
            return (
                f"{store} is restored from scratch on {event.client}: it was at position {event.position:,} of its "
                f"changelog, and deletions before {event.horizon:,} are dropped by now"
            )
        case events.SnapshotUnusable():
            return f"{store} is restored on {event.client} without a snapshot that cannot be loaded: {event.cause}"
        case events.SnapshotNotSaved():
            return (
                f"{store} could not be saved as a snapshot on {event.client}; it is tried again when the next one is "
                f"due: {event.cause}"
            )


def _foreign(event: events.ForeignStoresWiped) -> str:
    stores = tuple(f"{store} up to commit {number}" for store, number in sorted(event.stores.items()))
    return (
        f"{counted(len(stores), 'store')} on {event.client} had changes of commits that this log does not have, "
        f"and {'is' if len(stores) == 1 else 'are'} wiped: {first_of(stores)}; the log may be a copy, or restored from "
        "a copy"
    )


def _removed(event: events.CopiesRemoved) -> str:
    if event.cause:
        return f"{event.client} cannot remove copies of stores of which it has no task: {event.cause}"
    copies = "copy of a store" if len(event.stores) == 1 else "copies of stores"
    return (
        f"{event.client} has removed {len(event.stores):,} {copies} of which it has no task: {first_of(event.stores)}"
    )


def _placed(event: events.TasksPlaced) -> str:
    """The numbers of kept, moved and new tasks. For the first moved ones: the clients with copies of their state."""
    counts = f"{event.kept:,} kept, {len(event.moves):,} moved, {event.new:,} new"
    said = f"{event.assignor} has placed the tasks on {counted(event.clients, 'client')}: {counts}"
    if event.unassigned:
        said += f", {len(event.unassigned):,} unassigned ({first_of(tuple(map(str, event.unassigned)))})"
    if event.followup_deadline is not None:
        said += f"; it asks for another assignment at {moment(event.followup_deadline)}"
    if event.moves:
        said += "\n    " + first_of(tuple(map(_moved, event.moves)), "\n    ")
    return said


def _moved(move: Move) -> str:
    copies = ", ".join(f"{client} {lag:,}" for client, lag in move.lags.items())
    behind = f" (records behind: {copies})" if copies else ""
    emptied = f"{move.emptied}, which has lost its state," if move.emptied else None
    return f"{move.task} from {move.source or emptied or 'a client that is gone'} to {move.target}{behind}"


def moment(ms: int) -> str:
    """`2026-03-01 12:00:00 UTC`. `ms`: since 1970."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # an assignor may give any number
        return f"{ms:,} ms since 1970"


def first_of(items: Sequence[str], between: str = ", ") -> str:
    """The first MOST_SAID items, and the number of the others."""
    more = len(items) - MOST_SAID
    return between.join([*items[:MOST_SAID], *([f"and {more:,} more"] if more > 0 else [])])


class Lines:
    """An observer that prints one line per event to stderr, for the log of a job on a cluster.

    A line that cannot be written is dropped: a closed stderr does not end a run. `seconds`: a monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._restoring: dict[str, Restoring] = {}
        self._printed_at: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Print the event.

        Not printed are statuses and traces, which are for programs. Stores that are being restored have one line for
        all every RESTORING_SECONDS, and long restores one at their end.
        """
        if isinstance(event, events.StatusTaken | events.EpochTraced):
            return
        restoring = self._restoring.setdefault(event.application, Restoring(self._seconds))
        restoring.on(event)
        if isinstance(event, events.StoreRestoring):
            now = self._seconds()
            if now - self._printed_at.setdefault(event.application, now) >= RESTORING_SECONDS:
                self._printed_at[event.application] = now
                self._print(f"{event.application}: {restoring.summary()}")
            return
        if not restoring.stores:
            self._printed_at.pop(event.application, None)
        if isinstance(event, events.StoreRestored) and event.records < WORTH_A_LINE:
            return
        self._print(sentence(event))

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: stderr is closed
            print(f"{time.strftime('%H:%M:%S')} {entry(readable(line))}", file=sys.stderr, flush=True)
