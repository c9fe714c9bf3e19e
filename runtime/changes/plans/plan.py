"""A plan: what the next run of a project would do with what is committed. Plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..model import Change, Verdict, worst
from .space import Space


@dataclass(frozen=True)
class Waiting:
    """Committed records that a topology has not consumed. `topics`: those that have some, each with how many.

    `seconds`: about how long a run takes for them, at the rate of the last run; None if no run has left a rate.
    `passed`: the records of topics that it does not read, as it begins behind them (`start`).
    """

    records: int = 0
    bytes: int = 0
    seconds: float | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ApplicationPlan:
    """What a run of one topology would do. `begun`: whether it has consumed anything yet.

    `changes`: what is different from when it was committed, on any of what it reads, keeps and writes. `waiting`: None
    where positions are not known. `judged`: False if it has expressions that Spark has not judged, so that nothing can
    be said. `unknown`: columns (`<store or topic>.<column>`) that have such an expression, if the rest can be said.
    """

    topology: str
    application: str
    place: str | None = None
    begun: bool = False
    changes: tuple[Change, ...] = ()
    waiting: Waiting | None = None
    judged: bool = True
    unknown: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether what is not known of it may change the answer."""
        return not self.judged or (self.begun and bool(self.unknown))

    @property
    def verdict(self) -> Verdict:
        """The worst of its changes."""
        return worst(change.verdict for change in self.changes)


@dataclass(frozen=True)
class Orphan:
    """An application in the log that no topology of the project owns any more.

    `records`, `bytes`: what it has in the log, changelogs included; None where only a manifest is known.
    `committed_at`: its last commit, ms. `renamed`: the topology of the project that is probably the same under a new
    name.
    """

    application: str
    topology: str
    records: int | None = None
    bytes: int | None = None
    committed_at: int | None = None
    renamed: str | None = None


@dataclass(frozen=True, repr=False)
class Plan:
    """What the next `run`, and `seed` and `build`, would do.

    `log`: where it is; None if the project was compared with a manifest, `against`. `seeds`: seeds that are not
    committed as they are now. `space`: what results that are computed again take beside the present ones.
    `state`: application -> what was committed when the plan was made. `content`: topology or seed -> a hash of what the
    project says of it. `go_on`: of a run with `--continue`.
    """

    project: str
    log: str | None = None
    against: str | None = None
    applications: tuple[ApplicationPlan, ...] = ()
    seeds: tuple[Change, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    space: tuple[Space, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    content: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False

    def __repr__(self) -> str:
        count = len(self.changes)
        changes = f", {count} change{'' if count == 1 else 's'}" if count else ""
        return f"<Plan of {self.project}: {self.verdict}{changes}>"

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, of applications and of seeds."""
        return (*(change for each in self.applications for change in each.changes), *self.seeds)

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return worst(change.verdict for change in self.changes)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The topologies of which not all is known, as they have expressions that Spark has not judged yet.

        Types that nothing was written with yet need not be known.
        """
        return tuple(each.topology for each in self.applications if each.undecided)

    def needs_decision(self, allowed: Collection[str] = ()) -> bool:
        """Whether somebody has to decide before a run. `allowed`: `evolve`, `refuse`: what was decided already."""
        verdicts = {change.verdict for change in self.changes}
        evolves = Verdict.EVOLVES in verdicts and "evolve" not in allowed
        refuses = Verdict.REFUSES in verdicts and "refuse" not in allowed
        return evolves or refuses or bool(self.unjudged)
