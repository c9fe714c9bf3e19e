"""Digests of what decides a result, and topics that have lost records of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..dataclass_json import to_plain
from ..ir.topology import StepText, Topology
from ..log.commit.descriptions import StoreDescription, SubtopologyDescription, TopologyDescription, UsedTopic
from ..log.places import Places
from ..log.state import LogState
from ..progress.committed import Committed
from ..records.types import split_columns
from .model import UNDO, Change, ReadAgain, Subject, Verdict, Way, ways_back
from .moves import INCOMPLETE, Moves
from .rebuild_groups import from_the_first, writers_of
from .repartition import external_topics

# A rebuild resumes only if everything that decides its result is the same. It may have taken hours so far, so it must
# not restart because a step is in another line, or for a setting of its runs.

_DECISIVE = {"flow": frozenset({"on_error", "emit"}), "topic": frozenset({"on_error"}), "store": frozenset({"topic"})}
"""Kind of a part with settings (see `settings_of`) -> the settings that decide a result. `store`: of a global table, as
others have no such setting.
"""


_HARD_TO_READ = ("\\", "--", "/*")
_WORDS = re.compile(r"""(?:'[^']*')+|(?:"[^"]*")+|(?:`[^`]*`)+|\w+|[(),\[\]]|[^\w\s'"`(),\[\]]+|['"`]""")


def contents_of(group: Sequence[Topology], places: Places, seeds: LogState) -> dict[str, str]:
    """Application -> a digest of everything that decides its result: its steps, those of all rebuilt applications that
    it reads, and the places in the log of all others that it reads.

    A rebuild with another digest cannot resume: its positions count other records. `seeds`: of external topics.
    """
    own = {topology.application: content_of(topology, seeds) for topology in group}
    writers = {topology.application: writers_of(topology) for topology in group}
    digests: dict[str, str] = {}
    for name in own:
        above = {name}
        while more := {writer for member in above & own.keys() for writer in writers[member]} - above:
            above |= more
        made_of = {member: own.get(member) or places.of(member) for member in above}
        digests[name] = _digest([own[name], made_of])
    return digests


def content_of(topology: Topology, seeds: LogState) -> str:
    """A digest of everything that decides what a topology computes, and of repartitioned topics.

    Between two topologies with equal digests every difference is compatible (see `Comparison`), and none applies to new
    records only.
    """
    fed = [seeds.topics[name] for name in sorted(external_topics(topology)) if name in seeds.topics]
    begun = {topic.name: topic.since for topic in fed if topic.moved and topic.since is not None}
    described, own = TopologyDescription.from_topology(topology, begun), topology.application
    return _digest(
        {
            "subtopologies": {name: _part(part) for name, part in described.subtopologies.items()},
            "flows": {name: [_words(step) for step in steps] for name, steps in described.flows.items()},
            "topics": {name: _topic(topic, own) for name, topic in described.topics.items()},
            "stores": {name: _store(store) for name, store in described.stores.items()},
            "settings": _decisive(described.settings),
        }
    )


def _words(step: StepText) -> list[str]:
    """The tokens of a step, in the form of all earlier digests: a finer form would restart unfinished rebuilds."""
    return [step.text] if any(sign in step.text for sign in _HARD_TO_READ) else _WORDS.findall(step.text)


def _part(part: SubtopologyDescription) -> dict[str, Any]:
    """The sources, sinks and stores of a subtopology. The order of its flows in the file has no effect."""
    plain = to_plain(part)
    named = {field: sorted(plain[field]) for field in ("sources", "sinks", "stores")}
    listed = {field: sorted(map(json.dumps, plain.get(field, ()))) for field in ("starts", "fillers")}
    return {"partitions": part.partitions, **named, **listed}


def _topic(topic: UsedTopic, application: str) -> dict[str, Any]:
    """The partitioning of a topic, and the columns of one that the application writes. Records of other topics keep the
    columns with which they were written, whatever is declared.
    """
    columns = sorted(split_columns(topic.value)) if topic.writer == application else []
    return {**to_plain(topic), "value": columns, "earlier": []}


def _store(store: StoreDescription) -> dict[str, Any]:
    """The rows of a store, and how they are computed. With a changelog it can be restored in any backend."""
    settings = {name: value for name, value in store.settings.items() if name != "backend" or not store.changelog}
    return {**to_plain(store), "settings": settings}


def _decisive(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    decisive_settings = {}
    for name, values in settings.items():
        decisive = _DECISIVE.get(name.partition(" ")[0], frozenset())
        decisive_settings[name] = {setting: value for setting, value in values.items() if setting in decisive}
    return {name: values for name, values in decisive_settings.items() if values}


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


READ_ALL = Way("remove `start: latest`: then it is computed from all records")
"""The way out for a reader that started at the last record."""


def incomplete(topology: Topology, committed: Committed, group: Collection[str], moves: Moves) -> Iterator[Change]:
    """The topics that have lost records from which the present result was computed."""
    if topology.is_mirror or (not committed.own.tasks.consumed and topology.application not in moves.takes()):
        return  # it has no result
    starts = {topic: start for part in topology.subtopologies for topic, start in part.starts.items()}
    raw = {topic.name for topic in topology.read if topic.kafka is not None}
    for read in from_the_first(topology, committed):
        if starts.get(read.topic) == "latest":
            yield Change(
                INCOMPLETE,
                Subject("topic", read.topic, topology.application),
                Verdict.ERROR,
                "it is read from the last record on (`start: latest`), so a rebuilt result would start empty",
                ways=(UNDO, READ_ALL, *ways_back(topology.application)[1:]),
            )
            continue
        writer = topic_writer(topology, read.topic)
        if writer in group:
            continue
        if read.topic in raw and read.topic not in committed.kafka:
            continue  # a plan does not ask Kafka what it still has; the run does
        if read.topic in raw:
            copied = committed.own.topology.topics.get(read.topic)  # the copied topic may have another name now
            what, lines = ("", ()) if copied is None else _deleted_in_kafka(read, copied.first)
        else:
            state, lines = committed.states[writer or committed.seeds], ()
            missing = sum(state.end(read.topic, partition) for partition in read.start) - read.records
            what = (
                f"{missing:,} of its records are not there any more (retention or compaction has removed them), so a "
                f"rebuilt result would lack them: {read.records:,} are left"
            )
            what = what if missing > 0 else ""
        if what:
            subject = Subject("topic", read.topic, topology.application)
            yield Change(INCOMPLETE, subject, Verdict.ERROR, what, lines, ways=ways_back(topology.application))


def _deleted_in_kafka(read: ReadAgain, first: Sequence[int]) -> tuple[str, tuple[str, ...]]:
    """What Kafka lacks of the records of which the present result was made, and where; empty if nothing. `first`: see
    `UsedTopic`. Records that compaction has removed in between are not noticed: offsets have holes anyway.
    """
    gone = {partition: (first[partition], low) for partition, low in read.start.items() if partition < len(first)}
    gone = {partition: (begin, low) for partition, (begin, low) in gone.items() if begin < low}
    missing = sum(low - begin for begin, low in gone.values())
    lines = tuple(f"partition {at}: offsets {begin:,} to {low - 1:,}" for at, (begin, low) in gone.items())
    what = (
        f"Kafka has deleted up to {missing:,} of the records that were copied, so a rebuilt result would lack them: up "
        f"to {read.records:,} are left"
    )
    return (what, lines) if gone else ("", ())


def topic_writer(topology: Topology, topic: str) -> str | None:
    """The application that writes a source topic of a topology; None for an external topic."""
    sources = (source for part in topology.subtopologies for source in part.sources)
    return next((source.writer for source in sources if source.name == topic), None)
