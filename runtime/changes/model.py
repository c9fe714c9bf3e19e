"""What a change is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from ...errors import HeadwaterError
from ..ingest.append import AppendedOtherwiseError, AppendedUnknownError, check_appended
from ..ir.topology import Topic
from ..log.errors import TopicChangedError, read_to_append
from ..log.state import LogState

# One change of a project since it was committed last, and what the next run does about it.
#
# The plan, the start of a run and the lines of `compile` and `build` speak of changes in this form. So a run does what
# the plan said.


class Verdict(StrEnum):
    """What a change means for the next run, the mildest first.

    `COMPATIBLE`: it resumes from the committed state. `REPLACE`: it replaces the result, mostly by a rebuild, and then
    continues. `ERROR`: it does not start.
    """

    NOTHING = "nothing"
    COMPATIBLE = "compatible"
    REPLACE = "replace"
    ERROR = "error"

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


# The error of a run that changes of the project do not let begin.


class IncompatibleStateError(HeadwaterError):
    """The project no longer fits the committed state; `changes` has each change that is the reason, with its place."""

    def __init__(self, application: str, changes: Sequence[Change]) -> None:
        listed = "".join(f"\n  - {change}" for change in changes)
        ways = "".join(f"\n  - {way}" for way in dict.fromkeys(way for change in changes for way in change.ways))
        out = f"\n  ways out:{ways}" if ways else ""
        super().__init__(f"{application} no longer fits its committed state:{listed}{out}")
        self.application = application
        self.changes = tuple(changes)


# The ways out of a change that stops a run.

UNDO = Way("undo the change")

RUN_AGAIN = "headwater run --full-refresh"
"""How a command begins that has topologies begin again."""

FROM_THE_FIRST = "from the first record that is there"
"""Where they begin, unless their flows have another `start`."""

CONTINUE = Way("let it count from the next record on, and keep what is there as it is", "headwater run --continue")
"""For changes that need no result to be computed again (`Change.onward`)."""


def start_again(what: str, selected: str, command: Literal["run", "build"] = "run") -> Way:
    """Forget what the selected topologies have committed. `what` says so in words."""
    return Way(what, f"headwater {command} --full-refresh --select '{selected}'")


def called_before(topology: str, old: str) -> Way:
    """To say that a topology is another one under a new name."""
    return Way(f"if {topology} is {old} under a new name, put `was: {old}` into its file: it goes on where that was")


def ways_back(application: str) -> tuple[Way, Way]:
    """To undo the change, or to forget what the application and its readers have committed."""
    selected = f"{application.partition('-')[2]}+"
    return UNDO, start_again(f"start it and what reads it again {FROM_THE_FIRST}", selected)


def ways_onward(application: str) -> tuple[Way, ...]:
    """The same, and to go on from what is committed."""
    undo, again = ways_back(application)
    return undo, CONTINUE, again


def ways_to_declare(error: TopicChangedError, state: LogState, topic: Topic) -> tuple[Way, ...]:
    """Out of another declaration of a topic than that of its records. `state`: of the application that writes it."""
    back = Way("declare it as it was")
    if error.writer is not None:
        return back, start_again("start its writer again", f"{error.writer.partition('-')[2]}+")
    copied = f"{read_to_append(error.topic)} | headwater seed OTHER --append"
    if error.seeded and (kept := _kept_otherwise(state, topic)):
        copy = Way(f"copy its {kept:,} appended records first, with the others, to a topic of another name", copied)
        give_up = f"headwater seed {error.topic} --full-refresh --drop-appended"
        return back, copy, Way("seed it again without them, which also starts again what has read it", give_up)
    if error.seeded:
        what = "seed it again, which also starts again what has read it; records appended to it stay, behind it"
        return back, Way(what, f"headwater seed {error.topic} --full-refresh")
    return back, Way("copy its records to a topic of another name", copied)


def _kept_otherwise(state: LogState, topic: Topic) -> int:
    """How many appended records keep a topic from being seeded again; 0 if they can stay."""
    try:
        check_appended(state, topic)
    except AppendedOtherwiseError as error:
        return error.records
    except AppendedUnknownError:  # `seed` tells it
        pass
    return 0
