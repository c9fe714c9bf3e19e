"""Whether topics still give all of the records that a result was made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...progress.committed import Committed
from ...topology import Topology
from ..model import Change, Subject, Verdict, Way
from ..plans.waiting import from_the_first
from ..ways import UNDO, ways_back
from .moves import Moves
from .onward import INCOMPLETE

READ_ALL = Way("take `start: latest` away: then it is computed of all records that are there")
"""The way out for a reader that began at the last record."""


def incomplete(topology: Topology, committed: Committed, group: Collection[str], moves: Moves) -> Iterator[Change]:
    """Topics that do not give all of the records any more that the present result was made of."""
    if not committed.own.tasks.consumed and topology.application not in moves.takes():
        return  # it has no result yet
    starts = {topic: start for part in topology.subtopologies for topic, start in part.starts.items()}
    for each in from_the_first(topology, committed):
        if starts.get(each.topic) == "latest":
            yield Change(
                INCOMPLETE,
                Subject("topic", each.topic, topology.application),
                Verdict.REFUSES,
                "it is read from the last record on (`start: latest`), so a result that is computed again would begin "
                "with nothing",
                ways=(UNDO, READ_ALL, *ways_back(topology.application)[1:]),
            )
            continue
        writer = topic_writer(topology, each.topic)
        if writer in group:
            continue
        state = committed.states[writer or committed.seeds]
        missing = sum(state.end(each.topic, partition) for partition in each.start) - each.records
        if missing > 0:
            yield Change(
                INCOMPLETE,
                Subject("topic", each.topic, topology.application),
                Verdict.REFUSES,
                f"{missing:,} of its records are not there any more (retention or compaction has removed them), so a "
                f"result that is computed again would lack them: {each.records:,} are left",
                ways=ways_back(topology.application),
            )


def topic_writer(topology: Topology, topic: str) -> str | None:
    """The application that writes one of the sources of a topology, None for one that is fed from outside."""
    return next((each.writer for part in topology.subtopologies for each in part.sources if each.name == topic), None)
