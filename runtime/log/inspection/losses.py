"""Says who misses records of a log that cannot be read: a topic's readers, or the copies of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from ...records.schema import changelog_topic
from ..errors import ways_out_of_lost_records
from ..state import LogState
from .pieces import Unreadable

NO_READERS: Mapping[str, Collection[str]] = MappingProxyType({})
"""For a log that is looked at without its project."""


class Losses:
    """`states`: of all applications whose commits can be read, by name.

    `readers`: topic -> the applications that read it in the project, whether they have run or not. `unknown`: those
    whose commits cannot be read.
    """

    def __init__(
        self,
        states: Mapping[str, LogState],
        readers: Mapping[str, Collection[str]],
        unknown: Collection[str] = (),
    ) -> None:
        self._states = states
        self._readers = readers
        self._unknown = unknown

    def told(self, application: str, missing: Unreadable) -> str:
        """What is lost with records of this application, in a sentence."""
        state, topic = self._states[application], missing.segment.topic
        for store in state.topology.stores:
            if topic == changelog_topic(application, store):
                return _of_store(state, store, missing)
        said = list(self._of_readers(application, missing))
        return "; ".join(said) or "no topology reads them"

    def way_out(self, application: str, missing: Unreadable) -> str:
        """What to do."""
        if not missing.lost:
            return "have the system let this user read the file; nothing of it is known to be lost"
        topic = missing.segment.topic
        return ways_out_of_lost_records(application, topic, topic in self._states[application].seeds)

    def _of_readers(self, application: str, missing: Unreadable) -> Iterator[str]:
        topic = missing.segment.topic
        read = set()
        for reader, state in self._states.items():
            used = state.topology.topics.get(topic)
            if used is None or (used.writer or application) != application:
                continue
            parts = state.topology.subtopologies.values()
            if used.global_:
                read.add(reader)
                yield f"clients of {reader} that load the topic as a global table cannot do so"
            elif any(topic in part.sources for part in parts):
                read.add(reader)
                yield f"{reader} has consumed them" if _consumed(state, missing) else f"{reader} has not consumed them"
        for reader in sorted({*self._readers.get(topic, ())} - read):
            if reader in self._unknown:
                yield f"whether {reader} has consumed them is not known: its commits cannot be read"
            else:
                yield f"{reader} has not consumed them"


def _consumed(state: LogState, missing: Unreadable) -> bool:
    """Whether all tasks that read the partition have read on from behind the records."""
    topic, lane = missing.segment.topic, missing.segment.lane
    found = [
        task.positions.get(topic, {}).get(lane, 0)
        for task in state.tasks.all()
        if task.partition == missing.segment.partition and topic in task.positions
    ]
    readers = sum(topic in part.sources for part in state.topology.subtopologies.values())
    return len(found) >= readers and all(position >= missing.end for position in found)


def _of_store(state: LogState, store: str, missing: Unreadable) -> str:
    partition = missing.segment.partition
    lacks = f"changes of store {store}, partition {partition}: a copy that is restored from the changelog lacks them"
    usable = max(missing.end, state.horizon(changelog_topic(state.application, store), partition, partition))
    later = [each.position for each in state.store_snapshots.of(store, partition) if each.position >= usable]
    if later:
        lacks += f", one that is restored from the snapshot at position {max(later)} has them"
    return lacks
