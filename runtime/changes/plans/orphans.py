"""Applications that are committed and that no topology of the project owns: topologies that were removed or renamed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...log.commit.descriptions import TopologyDescription
from ...log.commit.encoding import decode_commit
from ...log.declared_topics import applications_of
from ...log.log import Log
from ...log.state import LogState
from .plan import Orphan


def orphans(
    log: Log, project: str, owned: Collection[str], new: Iterable[tuple[str, TopologyDescription]] = ()
) -> tuple[Orphan, ...]:
    """The orphans of a project by name. `owned`: the applications of its topologies.

    `new`: topologies that have not committed anything, with what they are: one of them may be an orphan's new name.
    Raises LogError.
    """
    candidates = list(new)
    return tuple(_orphan(log, each, candidates) for each in applications_of(log, project) if each not in owned)


def likely_name(old: TopologyDescription, new: Iterable[tuple[str, TopologyDescription]]) -> str | None:
    """The topology that is most like an earlier one: the same inputs, and an output, a store or a step in common."""
    scores = {name: _likeness(old, each) for name, each in new}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] else None


def _orphan(log: Log, application: str, new: Collection[tuple[str, TopologyDescription]]) -> Orphan:
    state = LogState.load(log.commits(application))
    last = state.commits.read(state.number)
    segments = state.segments()
    return Orphan(
        application,
        application.partition("-")[2],
        sum(batch.rows for segment in segments for batch in segment.batches),
        sum(segment.size for segment in segments),
        None if last is None else decode_commit(last).at,
        likely_name(state.topology, new),
    )


def _likeness(old: TopologyDescription, new: TopologyDescription) -> int:
    if not old.subtopologies or _inputs(old) != _inputs(new):
        return 0
    return len(old.written & new.written) + len(old.stores.keys() & new.stores.keys()) + len(_steps(old) & _steps(new))


def _inputs(description: TopologyDescription) -> set[str]:
    return {topic for part in description.subtopologies.values() for topic in part.sources} - description.written


def _steps(description: TopologyDescription) -> set[str]:
    """Steps other than those that read and write, which are compared by their topics."""
    texts = (step.text for part in description.subtopologies.values() for step in part.steps)
    return {text for text in texts if not text.startswith(("from ", "to "))}
