"""What it comes to if stores are computed again: told before it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....errors import HeadwaterError
from ...topology import Topology
from ..model import Change, ReadAgain, Verdict
from ..recompute.evolving import RECOMPUTED
from ..recompute.groups import with_readers
from ..recompute.resets import RESET
from .plan import Plan
from .space import Space


class StoreNotResetError(HeadwaterError):
    """Stores cannot be computed again: `application`, `stores`; `changes` are why. Nothing was changed."""

    def __init__(self, application: str, stores: Collection[str], changes: Sequence[Change]) -> None:
        names = ", ".join(stores)
        listed = "".join(f"\n  - {change}" for change in dict.fromkeys(changes))
        ways = dict.fromkeys(way for change in changes for way in change.ways)
        out = "".join(f"\n  - {way}" for way in ways)
        super().__init__(
            f"{names} of {application} cannot be computed again, and nothing was changed:{listed}"
            + (f"\n  ways out:{out}" if out else "")
        )
        self.application = application
        self.stores = tuple(stores)
        self.changes = tuple(changes)


@dataclass(frozen=True)
class StoreReset:
    """`stores` of a `topology` that are to be computed again, or that are left as they are with `withdraw`.

    `asked`: those of them that were asked for before. `incarnation`: of the application, which this was planned on.
    `reads`: the applications whose results are computed again with them, its own first -> what these read again.
    `space`: what that takes beside the present results.
    """

    topology: Topology
    stores: tuple[str, ...]
    asked: tuple[str, ...]
    incarnation: str
    withdraw: bool = False
    reads: Mapping[str, tuple[ReadAgain, ...]] = field(default_factory=dict)
    space: tuple[Space, ...] = ()

    @property
    def application(self) -> str:
        """Whose stores they are."""
        return self.topology.application

    @property
    def is_done(self) -> bool:
        """Whether it is so already."""
        return not self.asked if self.withdraw else self.asked == self.stores

    @property
    def records(self) -> int:
        """Of all topics that are read again."""
        return sum(each.records for read in self.reads.values() for each in read)

    @property
    def bytes(self) -> int:
        """About so many bytes these take in files."""
        return sum(each.bytes for read in self.reads.values() for each in read)


def read_again(
    plan: Plan, topologies: Sequence[Topology], topology: Topology, stores: Collection[str]
) -> dict[str, tuple[ReadAgain, ...]]:
    """The applications that a run computes again with stores of a topology, see `StoreReset.reads`. `plan`: of the run.

    Raises StoreNotResetError if it would refuse to.
    """
    application = topology.application
    changes = {each.application: each.changes for each in plan.applications}
    group = [each.application for each in with_readers(topologies, application)]
    if not any(each.kind == RECOMPUTED for each in changes[application]):
        refused = (change for name in group for change in changes[name] if change.verdict is Verdict.REFUSES)
        raise StoreNotResetError(application, stores, list(_reasons(list(refused))))
    recomputed = {name: each for name in group for each in changes[name] if each.kind == RECOMPUTED}
    return {name: each.reads_again for name, each in recomputed.items()}


def _reasons(refused: Sequence[Change]) -> Iterator[Change]:
    """Why stores are not computed again, without what was only assumed: that somebody has asked for it."""
    assumed = {way for each in refused if each.kind == RESET for way in each.ways[:1]}
    for each in refused:
        if each.kind != RESET:
            yield replace(each, ways=tuple(way for way in each.ways if way not in assumed))
