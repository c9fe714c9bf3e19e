"""Contents of stores, and those that are incomplete."""

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
from .model import UNDO, Change, Subject, Verdict, Way, ways_back
from .moves import INCOMPLETE, Moves
from .rebuild_groups import from_the_first, writers_of
from .repartition import fed_topics

# What decides a result that is computed again, so that one which was begun on something else is not gone on with.
#
# Only that counts. A result may have taken hours so far, and must not begin again because a step is in another line
# now, or because of a setting of its runs.

_DECISIVE = {"flow": frozenset({"on_error", "emit"}), "topic": frozenset({"on_error"}), "store": frozenset({"topic"})}
"""Of what has settings (see `settings_of`) those that decide a result. The `store` is that of a global table: others
have no such setting.
"""


_HARD_TO_READ = ("\\", "--", "/*")
_WORDS = re.compile(r"""(?:'[^']*')+|(?:"[^"]*")+|(?:`[^`]*`)+|\w+|[(),\[\]]|[^\w\s'"`(),\[\]]+|['"`]""")


def contents_of(group: Sequence[Topology], places: Places, seeds: LogState) -> dict[str, str]:
    """Application -> a digest of all that decides its result: what it computes, what those compute whose results it
    reads, as far as they are computed again with it, and in which places all others are that it reads.

    A result that was begun on other input than this is worth nothing: its positions count other records. `seeds`: of
    what is fed from outside.
    """
    own = {each.application: content_of(each, seeds) for each in group}
    writers = {each.application: writers_of(each) for each in group}
    found: dict[str, str] = {}
    for name in own:
        above = {name}
        while more := {writer for each in above & own.keys() for writer in writers[each]} - above:
            above |= more
        made_of = {each: own.get(each) or places.of(each) for each in above}
        found[name] = _digest([own[name], made_of])
    return found


def content_of(topology: Topology, seeds: LogState) -> str:
    """A digest of all that decides what a topology computes, and of where records are that were put elsewhere.

    Two topologies with the same have no differences because of which a run would not go on from what is committed
    (see `Comparison`), and none that would count for new records only.
    """
    fed = [seeds.topics[name] for name in sorted(fed_topics(topology)) if name in seeds.topics]
    begun = {each.name: each.since for each in fed if each.moved and each.since is not None}
    described, own = TopologyDescription.of(topology, begun), topology.application
    return _digest(
        {
            "subtopologies": {name: _part(each) for name, each in described.subtopologies.items()},
            "flows": {name: [_words(step) for step in steps] for name, steps in described.flows.items()},
            "topics": {name: _topic(each, own) for name, each in described.topics.items()},
            "stores": {name: _store(each) for name, each in described.stores.items()},
            "settings": _decisive(described.settings),
        }
    )


def _words(step: StepText) -> list[str]:
    """The words of a step as digests have always had them: a finer form would begin what is being rebuilt again."""
    return [step.text] if any(each in step.text for each in _HARD_TO_READ) else _WORDS.findall(step.text)


def _part(part: SubtopologyDescription) -> dict[str, Any]:
    """What a subtopology reads, writes and keeps. The order of its flows in the file decides nothing."""
    plain = to_plain(part)
    named = {field: sorted(plain[field]) for field in ("sources", "sinks", "stores")}
    listed = {field: sorted(map(json.dumps, plain.get(field, ()))) for field in ("starts", "fillers")}
    return {"partitions": part.partitions, **named, **listed}


def _topic(topic: UsedTopic, application: str) -> dict[str, Any]:
    """How its records lie, and the columns of those that the application writes. Those of other topics have the columns
    with which they came, whatever is declared.
    """
    columns = sorted(split_columns(topic.value)) if topic.writer == application else []
    return {**to_plain(topic), "value": columns, "earlier": []}


def _store(store: StoreDescription) -> dict[str, Any]:
    """Its rows, and how they come. A store that has a changelog can be made again, whatever its backend is."""
    settings = {name: each for name, each in store.settings.items() if name != "backend" or not store.changelog}
    return {**to_plain(store), "settings": settings}


def _decisive(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    found = {}
    for name, each in settings.items():
        decisive = _DECISIVE.get(name.partition(" ")[0], frozenset())
        found[name] = {setting: value for setting, value in each.items() if setting in decisive}
    return {name: each for name, each in found.items() if each}


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


# Whether topics still give all of the records that a result was made of.

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
                Verdict.ERROR,
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
                Verdict.ERROR,
                f"{missing:,} of its records are not there any more (retention or compaction has removed them), so a "
                f"result that is computed again would lack them: {each.records:,} are left",
                ways=ways_back(topology.application),
            )


def topic_writer(topology: Topology, topic: str) -> str | None:
    """The application that writes one of the sources of a topology, None for one that is fed from outside."""
    return next((each.writer for part in topology.subtopologies for each in part.sources if each.name == topic), None)
