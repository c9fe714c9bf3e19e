"""What a rebuild does to records that Kafka has of a result: nobody can take them back there."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..ir.topology import Produced, Subtopology, Topology
from ..log.state import LogState
from .contents import topic_writer
from .model import CONTINUE, UNDO, Change, Subject, Verdict, Way
from .moves import IN_KAFKA
from .rebuild_groups import RECOMPUTED


def refused(
    mirror: Topology, own: LogState, rebuilt: Collection[str], application: str, *, may_continue: bool = False
) -> Iterator[Change]:
    """The topics whose records in Kafka prevent that these applications are rebuilt (`recomputed: refuse`).

    `own`: the state of what writes to Kafka. `application`: whose changes they become. `may_continue`: its changes may
    apply from the next record on instead.
    """
    for part in mirror.subtopologies:
        for topic, produced in part.produced.items():
            if (
                produced.recomputed == "refuse"
                and topic_writer(mirror, topic) in rebuilt
                and _is_written(part, topic, own)
            ):
                what = f"{produced.kafka.name} in Kafka has records of the present result, which it cannot take back"
                ways = (UNDO, *((CONTINUE,) if may_continue else ()), *_ways(topic, produced))
                yield Change(IN_KAFKA, Subject("topic", topic, application), Verdict.ERROR, what, ways=ways)


def _is_written(part: Subtopology, topic: str, own: LogState) -> bool:
    """Whether records of a topic were written to the topic in Kafka that it has now."""
    committed = own.topology.subtopologies.get(part.name)
    texts = {step.text for step in committed.steps} if committed is not None else set()
    same = any(step.text in texts for step in part.steps if step.text.startswith("to "))
    tasks = (task for task in own.tasks.all() if task.subtopology == part.name)
    return same and any(any(task.positions.get(topic, {}).values()) for task in tasks)


def _ways(topic: str, produced: Produced) -> Iterator[Way]:
    target = produced.kafka.name
    append = f"write `recomputed: append` under `kafka` of {topic}"
    yield Way(f"{append}: all records of the new result follow those that {target} has")
    if produced.is_table:
        yield Way(
            f"write `recomputed: changes` there: {target} gets what differs, and tombstones for keys that are gone"
        )
    yield Way("write another `topic` there: it gets the new result")


def mirror_change(mirror: Topology, rebuilt: Collection[str]) -> Change:
    """The change of what writes to Kafka, when these applications are rebuilt, or it has changed itself."""
    told = []
    for part in mirror.subtopologies:
        for topic, produced in part.produced.items():
            if topic_writer(mirror, topic) in rebuilt:
                records = "all records of" if produced.recomputed == "append" else "what differs in"
                told.append(f"{produced.kafka.name} gets {records} the new {topic}")
    what = "it restarts, and Kafka gets no record twice"
    if told:
        what = f"once the results are rebuilt, {', '.join(told)}; other topics get no record twice"
    return Change(RECOMPUTED, Subject.of_topology(mirror.application), Verdict.REPLACE, what, ways=(UNDO,))
