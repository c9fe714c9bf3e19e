"""What a full refresh comes to: whether applications could begin again with nothing, and where they would begin.

It removes results for good. So it is refused, and not offered as a way out, where the run after it would not begin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import HeadwaterError
from ..log.placed.log import PlacedLog
from ..progress.committed import Committed
from ..topology import Topology
from .found import changes_of
from .inputs import OTHER_WRITER
from .model import Change, Verdict, Way
from .ways import FROM_THE_FIRST, RUN_AGAIN


class RefreshRefusedError(HeadwaterError):
    """A run would refuse to begin after a full refresh too: `changes` are why. Nothing was removed."""

    def __init__(self, changes: Sequence[Change]) -> None:
        names = ", ".join(sorted({each.subject.application for each in changes}))
        listed = "".join(f"\n  - {change}" for change in dict.fromkeys(changes))
        ways = dict.fromkeys(way for change in changes for way in change.ways)
        out = "".join(f"\n  - {way}" for way in ways)
        super().__init__(
            f"nothing was removed, as {names} could not begin again from nothing:{listed}"
            + (f"\n  ways out:{out}" if out else "")
        )
        self.changes = tuple(changes)


def as_if_begun_again(log: PlacedLog, applications: Collection[str]) -> PlacedLog:
    """The log as it would be if these applications had committed nothing; to read only."""
    return log.beside({each: f"{each}~0" for each in applications})


def check_refresh(
    log: PlacedLog,
    topologies: Sequence[Topology],
    applications: Collection[str],
    owned: Collection[str] | None = None,
    restarted: Collection[str] = (),
) -> None:
    """Check that topologies could begin again, once all that `applications` have committed is removed.

    `owned`: the applications of the project's topologies. `restarted`: topics that start again with their seeds then.
    Raises RefreshRefusedError, LogError.
    """
    refused = refused_from_nothing(log, topologies, applications, owned)
    if left := [each for each in refused if each.subject.kind != "topic" or each.subject.name not in restarted]:
        raise RefreshRefusedError(left)


def refused_from_nothing(
    log: PlacedLog, topologies: Sequence[Topology], applications: Collection[str], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """Why a run would refuse topologies if `applications` had committed nothing."""
    empty = as_if_begun_again(log, applications)
    return tuple(
        change
        for topology in topologies
        for change in changes_of(topology, Committed(empty, topology), owned)
        if change.verdict is Verdict.REFUSES
    )


def with_ways_that_help(
    log: PlacedLog, group: Sequence[Topology], changes: Sequence[Change], owned: Collection[str] | None
) -> tuple[Change, ...]:
    """The changes of the first topology of a group, of which the others read. To begin again is a way out only if that
    would not be refused, and it says where that is.
    """
    if not any(map(_begins_again, (way for each in changes for way in each.ways))):
        return tuple(changes)
    stopped = refused_from_nothing(log, group, {each.application for each in group}, owned)
    helps = all(each.kind == OTHER_WRITER for each in stopped)  # the command is about both writers
    starts = {topic: start for part in group[0].subtopologies for topic, start in part.starts.items()}
    return tuple(replace(each, ways=tuple(_ways(each.ways, starts, helps))) for each in changes)


def _ways(ways: Sequence[Way], starts: Mapping[str, str], helps: bool) -> Iterator[Way]:
    for way in ways:
        if not _begins_again(way):
            yield way
        elif helps:
            said = ", ".join(f"{topic}: {start}" for topic, start in sorted(starts.items()) if start != "earliest")
            yield replace(way, what=way.what.replace(FROM_THE_FIRST, f"at its `start` ({said})")) if said else way


def _begins_again(way: Way) -> bool:
    return way.command is not None and way.command.startswith(RUN_AGAIN)
