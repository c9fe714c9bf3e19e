"""Compares the seed of a topic with the one that is committed."""

from __future__ import annotations

from pathlib import Path

from ....errors import HeadwaterError
from ...ingest.seeds import SeedSpec, other_records, seed_digest
from ...log.commit.descriptions import FedTopic
from ...log.declared_topics import check_readable
from ...log.errors import TopicChangedError
from ...log.log import Log
from ...log.state import LogState
from ...topology import Topic
from ..model import Change, Subject, Verdict, Way
from ..ways import UNDO, ways_to_declare

_REFUSED = "`seed` and `build` refuse it; `run` goes on with the records that are there"


def seed_change(log: Log, committed: LogState, topic: Topic, spec: SeedSpec, project_dir: Path) -> Change | None:
    """What `seed` and `build` would do about a seed; None if it is committed as it is.

    The file or the function's source is read to compare its hash. A file of another hash is compared with the committed
    records. No function is called.
    """
    subject = Subject("seed", topic.name, committed.application)
    try:
        digest = seed_digest(topic, spec, project_dir)
        known = committed.seeds.get(topic.name)
        if known is None:
            what = f"`seed` and `build` write {spec.source} to it, which is not committed yet"
            return Change("seed.added", subject, Verdict.COMPATIBLE, what, place=spec.path)
        if known.hash == digest:
            return None
        moves = topic.name in committed.topics and committed.topics[topic.name].can_move_to(topic)
        if not moves:
            check_readable(committed, topic)
        if spec.path is None:
            said = f"{_changed(committed, topic, moves)}. Unless {spec.source} gives the same records, {_REFUSED}"
        elif (difference := other_records(log, committed, topic, spec, project_dir)) is not None:
            said = f"it is not what was committed ({difference}): {_REFUSED}"
        else:
            what = (
                "it gives the records that were committed: a run puts them where the topic has them now"
                if moves
                else "it gives the records that were committed, with the columns of now: nothing is written again"
            )
            return Change("seed.same", subject, Verdict.COMPATIBLE, what, place=spec.path)
    except TopicChangedError as error:
        ways = ways_to_declare(error, committed, topic)
        return Change("seed.topic", subject, Verdict.REFUSES, error.message, place=spec.path, ways=ways)
    except HeadwaterError as error:
        way = Way(error.hint) if error.hint else UNDO
        return Change("seed.unreadable", subject, Verdict.REFUSES, f"it cannot be read: {error.message}", ways=(way,))
    return Change(
        "seed.changed",
        subject,
        Verdict.REFUSES,
        said,
        place=spec.path,
        ways=(
            Way("put it back as it was"),
            Way(
                "seed it again, which also starts again what has read it; records appended to it stay, behind it",
                f"headwater seed {topic.name} --full-refresh",
            ),
        ),
    )


def _changed(committed: LogState, topic: Topic, moves: bool) -> str:
    """Why records that a function gives may be others. `moves`: a run puts those that are there elsewhere."""
    if _declared_alike(committed, topic):
        return "its function changed"
    return f"its topic has {'another key or partition count' if moves else 'other columns'} now"


def _declared_alike(committed: LogState, topic: Topic) -> bool:
    """Whether a topic is declared as it was when its records were written."""
    was, now = committed.topics.get(topic.name), FedTopic.of(topic)
    return was is not None and (was.partitions, was.key, was.value) == (now.partitions, now.key, now.value)
