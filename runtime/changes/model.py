"""One change of a project since it was committed last, and what the next run does about it.

The plan, the start of a run and the lines of `compile` and `build` speak of changes in this form. So a run does what
the plan said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Verdict(StrEnum):
    """What a change means for the next run, the mildest first.

    `COMPATIBLE`: it goes on from what is committed. `EVOLVES`: it does something more first, such as reading again.
    `REFUSES`: it does not start.
    """

    NOTHING = "nothing"
    COMPATIBLE = "compatible"
    EVOLVES = "evolves"
    REFUSES = "refuses"

    @property
    def rank(self) -> int:
        """Its place in the order, from 0."""
        return tuple(Verdict).index(self)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The last of these in the order; `NOTHING` if there are none."""
    return max(verdicts, key=lambda each: each.rank, default=Verdict.NOTHING)


SubjectKind = Literal["topology", "flow", "store", "topic", "seed"]


@dataclass(frozen=True)
class Subject:
    """What has changed. `application`: whose state it concerns; `<project>-seed` for what is fed from outside."""

    kind: SubjectKind
    name: str
    application: str

    @classmethod
    def of_topology(cls, application: str) -> Subject:
        """The topology of an application."""
        return cls("topology", application.partition("-")[2], application)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Way:
    """A way out: what to do, in words, and the command that does it, if one does."""

    what: str
    command: str | None = None

    def __str__(self) -> str:
        return self.what if self.command is None else f"{self.what}: {self.command}"


@dataclass(frozen=True)
class ReadAgain:
    """Records that the next run reads a second time. `start`: partition -> the offset where it begins."""

    topic: str
    start: Mapping[int, int]
    records: int
    bytes: int


@dataclass(frozen=True)
class Change:
    """One difference between the project and what is committed.

    `kind`: a name for programs, such as `store.window`. `what`: one sentence without its subject. `lines`: a diff below
    it, such as `+ gate string`. `place`: `file:line` of what changed, where it is known. `ways`: the ways out, the best
    first. `onward`: from when on the change counts if no result is computed again for it; empty if one has to be.
    """

    kind: str
    subject: Subject
    verdict: Verdict
    what: str
    lines: tuple[str, ...] = ()
    place: str | None = None
    ways: tuple[Way, ...] = ()
    reads_again: tuple[ReadAgain, ...] = field(default=())
    onward: str = ""

    def __str__(self) -> str:
        at = f"{self.place}: " if self.place else ""
        return "\n      ".join((f"{at}{self.subject}: {self.what}", *self.lines))
