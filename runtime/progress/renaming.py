"""Which parts of an application have another name than when it was committed last, as the project says by `was`.

Subtopologies, stores and repartition topics are named after flows, tables and steps. So a former name of one of these
gives theirs. It counts only where the log has what was called so, the project has not, and the log has nothing of the
new name: so `was` says nothing any more once the application has run under the new names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..log.commit.descriptions import TopologyDescription
from ..log.commit.renames import DEAD_LETTERS, Renames
from ..log.state import LogState
from ..task_id import global_task
from ..topology import Topology

_REPARTITION = "-repartition"


def renames_of(topology: Topology, own: LogState) -> Renames:
    """What is to be renamed of the application, apart from itself. `own`: its state."""
    seen = {name.partition(":")[0] for name in own.tasks.of(global_task(own.application)).globals_}
    counted = {counter.rpartition(":")[0] for task in own.tasks.all() for counter in task.dropped}
    return renames_between(topology, own.topology, seen, counted)


def renames_between(
    topology: Topology, committed: TopologyDescription, seen: Collection[str] = (), counted: Collection[str] = ()
) -> Renames:
    """The same, of what an application has said of itself. `seen`: global tables that it has read, `counted`: flows and
    steps by which it has counted records.
    """
    application = topology.application
    if not topology.was or not committed.subtopologies:
        return Renames()
    parts = topology.subtopologies
    prefix = f"{application}-"
    topics = {name for part in parts for name in part.repartition_topics}
    known = {name for name in committed.topics if name.startswith(prefix) and name.endswith(_REPARTITION)}
    tables = {table.name for table in topology.global_tables}
    flows = {
        flow
        for part in committed.subtopologies.values()
        for flow in (*(each.flow for each in part.steps), *(each.flow for each in part.fillers))
    }
    inner = _found(topology.was, _owners(topics, prefix), _owners(known, prefix))
    return Renames(
        subtopologies=_found(topology.was, [part.name for part in parts], committed.subtopologies),
        stores=_found(topology.was, [store.name for part in parts for store in part.stores], committed.stores),
        topics={
            f"{before}{old}{after}": f"{before}{new}{after}"
            for old, new in inner.items()
            for before, after in ((prefix, _REPARTITION), (f"{topology.name}_", f"{_REPARTITION}{DEAD_LETTERS}"))
        },
        tables=_found(topology.was, tables, seen),
        steps=_found(topology.was, topology.was.keys() - tables, {*counted, *flows}),
    ).with_changelogs(application)


def _found(was: Mapping[str, tuple[str, ...]], now: Collection[str], committed: Collection[str]) -> dict[str, str]:
    """Old name -> new name of what is there under its old name only."""
    found: dict[str, str] = {}
    for name in now:
        if name in committed:
            continue
        old = next((old for old in former_names(was, name) if old in committed and old not in now), None)
        if old is not None and old not in found:
            found[old] = name
    return found


def former_names(was: Mapping[str, tuple[str, ...]], name: str) -> Iterator[str]:
    """What `name` was called before, also if it is named after something that was renamed."""
    for now, former in was.items():
        for old in former:
            if name == now:
                yield old
            elif name.startswith((f"{now}_", f"{now}-")):
                yield f"{old}{name.removeprefix(now)}"


def _owners(topics: Collection[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix).removesuffix(_REPARTITION) for name in sorted(topics)]
